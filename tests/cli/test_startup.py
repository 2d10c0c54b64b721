"""A command starts no thread, and loads no library, that it has no work for."""

import os
import subprocess
import sys

import pytest

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
import importlib.util, sys
from ticdc_assets.store.load_arrow import load_arrow
load_arrow()
import pyarrow, pyarrow.dataset
assert "pandas" not in sys.modules
if sys.argv[1] == "frame":
    frame = pyarrow.table({"a": ["x", None]}).to_pandas()
assert importlib.util.find_spec("pandas").origin
import pandas
# As a list, it would have NaN.
assert pyarrow.array(pandas.Series([1.0, None])).null_count == 1
assert pyarrow.types.is_dictionary(pyarrow.array(pandas.Categorical(["u"])).type)
assert not any(type(each).__module__.startswith("ticdc_assets") for each in sys.meta_path)
importlib.reload(pandas)
print(pandas.__spec__.loader.get_filename())
"""


@pytest.mark.parametrize("first", ["frame", "pandas"])
def test_arrow_is_loaded_without_pandas_until_somebody_imports_it(first: str) -> None:
    command = [sys.executable, "-c", ARROW, first]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.stdout.endswith("pandas/__init__.py\n"), run.stderr
