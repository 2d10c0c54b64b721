"""Which cases of a product every test run takes; `make test-all` or `make soak` takes the rest.

A choice depends on the names of a case alone: new cases change nothing for the others.
"""

from collections.abc import Callable, Iterable
from typing import Any
from zlib import crc32

import pytest


def usual(
    cases: Iterable[Any],
    is_usual: Callable[..., bool],
    rest: pytest.MarkDecorator = pytest.mark.all_cases,
) -> list[Any]:
    """Mark the cases that not every run takes; a case of several parameters is a tuple."""
    found = []
    for case in cases:
        values = case if isinstance(case, tuple) else (case,)
        found.append(pytest.param(*values, marks=() if is_usual(*values) else rest))
    return found


def is_one_of(count: int, name: str) -> bool:
    """Whether a name is of one part, of so many equal ones."""
    return crc32(name.encode()) % count == 0


def usual_datasets(datasets: Iterable[str]) -> list[Any]:
    """Let every run take a third of some recorded datasets."""
    return usual(datasets, lambda dataset: is_one_of(3, dataset), pytest.mark.all_golden)
