"""A command starts no thread that it has no work for."""

import os
import subprocess
import sys

COUNT = "import ticdc_assets.cli, numpy, os; print(len(os.listdir('/proc/self/task')))"


def count_threads(**settings: str) -> int:
    variables = {name: value for name, value in os.environ.items() if "NUM_THREADS" not in name}
    command = [sys.executable, "-c", COUNT]
    run = subprocess.run(command, env=variables | settings, capture_output=True, check=True)
    return int(run.stdout)


def test_numpy_starts_none_per_core_unless_its_user_says_so() -> None:
    assert count_threads() == count_threads(OPENBLAS_NUM_THREADS="1")
    if (os.cpu_count() or 1) > 1:
        assert count_threads() < count_threads(OPENBLAS_NUM_THREADS="2")
