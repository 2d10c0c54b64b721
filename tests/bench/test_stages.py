"""The benchmark of the lake times functions that exist."""

from importlib import import_module
from operator import attrgetter

import pytest

from bench.lake_work import TIMED_FUNCTIONS


@pytest.mark.parametrize("stage", TIMED_FUNCTIONS)
def test_every_timed_function_exists(stage: str) -> None:
    for module, names in TIMED_FUNCTIONS[stage].items():
        for name in names:
            assert callable(attrgetter(name)(import_module(f"ticdc_assets.lake.{module}")))
