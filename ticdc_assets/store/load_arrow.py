"""Loads pyarrow without pandas, in processes that are ours alone: commands and Spark's workers.

pyarrow looks for pandas before it makes its first value, and so imports it wherever it is
installed: that takes a quarter of a second of processor time and 40 MB.  It looks once.  Who
converts a table to pandas later still gets a frame.
"""

import sys
from collections.abc import Sequence
from types import ModuleType


class _WithoutPandas:
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def load_arrow() -> None:
    """Import pyarrow; only a process that has pandas already will have it."""
    if "pandas" in sys.modules:
        return
    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow

        pyarrow.scalar(True)
    finally:
        sys.meta_path.remove(finder)
