"""The processes that share the tests: one that ends loses its test, and nothing else."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.golden import PROJECT


def test_a_process_that_ends_fails_its_test_and_the_others_run(tmp_path: Path) -> None:
    # The process that ends has two files left, the first of them with a single test.  By then the
    # other one knows that there is no more, and a new one does the rest.
    slow, quick = ("def test_{}(): time.sleep({})".format("{}", seconds) for seconds in (0.5, 0))
    for name, test in zip("abd", (slow, quick, quick), strict=True):
        tests = [test.format(number) for number in range(3)]
        (tmp_path / f"test_{name}.py").write_text("\n".join(["import time", *tests]))
    ends = "import os, time\ndef test_ends(): time.sleep(1); os._exit(1)\ndef test_after(): pass\n"
    (tmp_path / "test_c.py").write_text(ends)
    options = ["-n2", "--dist=loadfile", "--no-loadscope-reorder", "-p", "tests.conftest"]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    environment.pop("PYTEST_XDIST_WORKER", None)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", ".", *options],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert "1 failed, 10 passed" in run.stdout, run.stdout
    assert re.search("crashed while running.*test_c.py::test_ends", run.stdout)
