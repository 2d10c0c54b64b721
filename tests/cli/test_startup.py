"""A command starts no thread, and loads no library, that it has no work for."""

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


def test_the_options_of_all_commands_are_read_without_any_large_library() -> None:
    code = "import atexit, sys; from ticdc_assets import cli;"
    code += "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); cli.main(['--help'])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in run.stderr.split()}
    assert "argparse" in loaded
    assert not loaded & {"dagster", "deltalake", "numpy", "pandas", "pyarrow", "pyspark"}


ARROW = """
import sys
from ticdc_assets.store.load_arrow import load_arrow
load_arrow()
import pyarrow, pyarrow.dataset
table = pyarrow.table({"a": ["x", None]})
assert "pandas" not in sys.modules
frame = table.to_pandas()
assert pyarrow.Table.from_pandas(frame).equals(table, check_metadata=False)
print(type(frame))
"""


def test_arrow_is_loaded_without_pandas_and_still_converts_to_it() -> None:
    run = subprocess.run([sys.executable, "-c", ARROW], capture_output=True, text=True, check=True)
    assert run.stdout == "<class 'pandas.core.frame.DataFrame'>\n"
