"""What a command took is measured from outside."""

import os
import sys
from functools import partial
from importlib import import_module

import pytest

from bench.processes import Clock, call_apart, run_command

_WORK = "sum(range(20_000_000)); print(len(bytes(100_000_000)))"


def test_a_command_that_ended_is_measured() -> None:
    usage, text = run_command([sys.executable, "-c", _WORK])
    assert text == "100000000\n"
    assert 0 < usage.driver == usage.cpu
    assert usage.memory > 100_000_000


def test_the_cpu_time_of_children_counts() -> None:
    clock = Clock()
    usage, _ = run_command([sys.executable, "-c", _WORK])
    assert clock.read_usage().driver >= usage.driver * 0.9


def test_a_command_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="no such lake"):
        run_command([sys.executable, "-c", "raise SystemExit('no such lake')"])


def test_a_function_is_called_in_a_process_of_its_own() -> None:
    assert call_apart(os.getpid) != os.getpid()


def test_a_function_that_fails_apart_says_why() -> None:
    with pytest.raises(RuntimeError, match="ModuleNotFoundError"):
        call_apart(partial(import_module, "no_such_module"))
