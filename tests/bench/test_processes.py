"""What a command took is measured from outside."""

import math
import os
import signal
import subprocess
import sys
from functools import partial
from importlib import import_module

import pytest

from bench.processes import Clock, call_apart, run_command

_WORK = "sum(range(20_000_000)); print(len(b'x' * 100_000_000))"


def test_a_command_that_ended_is_measured() -> None:
    usage, text = run_command([sys.executable, "-c", _WORK])
    assert text == "100000000\n"
    assert 0 < usage.driver == usage.cpu
    assert usage.memory > 100_000_000


def test_the_cpu_time_of_children_counts() -> None:
    clock = Clock()
    usage, _ = run_command([sys.executable, "-c", _WORK])
    assert clock.read_usage().driver >= usage.driver * 0.9


def test_the_cpu_time_of_a_child_whose_parent_was_killed_is_unknown() -> None:
    work = "import os, time; sum(range(20_000_000)); print(os.getpid(), flush=True); time.sleep(60)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        clock = Clock()
        process.kill()
    os.kill(child, signal.SIGKILL)
    usage = clock.read_usage()
    assert math.isnan(usage.driver)
    assert math.isnan(usage.cpu)


def test_a_command_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="no such lake"):
        run_command([sys.executable, "-c", "raise SystemExit('no such lake')"])


def test_a_function_is_called_in_a_process_of_its_own() -> None:
    assert call_apart(os.getpid) != os.getpid()


def test_a_function_that_fails_apart_says_why() -> None:
    with pytest.raises(RuntimeError, match="ModuleNotFoundError"):
        call_apart(partial(import_module, "no_such_module"))
