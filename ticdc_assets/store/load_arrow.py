"""Loads pyarrow without pandas: in commands and in Spark's workers.

pyarrow looks for pandas before it makes its first value, and so imports it wherever it is
installed: that takes a quarter of a second of processor time and 40 MB.  It looks once, and then
again when it makes a frame.  Until then it would take columns of pandas for lists, so whoever
imports pandas later lets it look again.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Finder:
    """Hides pandas from pyarrow when that first looks, and tells it when pandas is imported."""

    def __init__(self) -> None:
        self.hides = True

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if fullname != "pandas":
            return None
        if self.hides:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        others = (finder for finder in list(sys.meta_path) if finder is not self)
        specs = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            self._watch(spec.loader)
        return spec

    def _watch(self, loader: object) -> None:
        """Tell pyarrow once a loader has loaded pandas."""
        execute = loader.exec_module  # type: ignore[attr-defined]

        def execute_and_tell(module: ModuleType) -> None:
            execute(module)
            if module.__name__ != "pandas":
                return
            # From here on, everything is as if nothing had been hidden.
            del loader.exec_module  # type: ignore[attr-defined]
            sys.meta_path.remove(self)
            import pyarrow

            pyarrow.nulls(0).to_pandas()

        loader.exec_module = execute_and_tell  # type: ignore[attr-defined]


def load_arrow() -> None:
    """Import pyarrow, which imports pandas only once somebody else does."""
    if "pandas" in sys.modules:
        return
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    import pyarrow

    pyarrow.scalar(True)
    finder.hides = False
