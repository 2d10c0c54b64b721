"""What holds for every test: how Hypothesis runs, and what happens without the golden data."""

import os
import sys
from types import ModuleType

import pytest
from hypothesis import settings

from tests import golden

# No deadline: a busy machine is no failure.  In CI the examples are the same on every run, so that
# a red run says something about the change.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_report_header() -> str:
    return f"golden data: {golden.GOLDEN}" + ("" if golden.GOLDEN.is_dir() else " (not there)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without the golden data, skip the tests that read it, and say so for each.

    It is no part of the project, and all other tests are of use without it.
    """
    if golden.GOLDEN.is_dir():
        return
    skip = pytest.mark.skip(reason=f"no golden data at {golden.GOLDEN} (set TICDC_GOLDEN)")
    for item in items:
        if item.get_closest_marker("all_golden") or (
            isinstance(item, pytest.Function) and _reads_golden(item.module)
        ):
            item.add_marker(skip)


def _reads_golden(module: ModuleType) -> bool:
    """Whether a module has something of `tests.golden`, or of a helper's that has."""
    return _knows_golden(module) or any(
        _knows_golden(sys.modules[home])
        for home in {getattr(value, "__module__", None) for value in vars(module).values()}
        if isinstance(home, str) and home.startswith("tests.")
    )


def _knows_golden(module: ModuleType) -> bool:
    return any(
        value is golden
        or value is golden.GOLDEN
        or getattr(value, "__module__", None) == golden.__name__
        for value in vars(module).values()
    )
