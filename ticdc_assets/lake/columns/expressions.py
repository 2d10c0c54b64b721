"""Combine many columns, or frames, into one."""

from collections.abc import Callable, Iterable
from operator import or_
from typing import TypeVar

from pyspark.sql import Column
from pyspark.sql import functions as F

Part = TypeVar("Part")


def combine_pairwise(combine: Callable[[Part, Part], Part], parts: Iterable[Part]) -> Part:
    """Combine at least one part pairwise, as a tree of small depth.

    Combined one after the other, the parts would nest as deep as a table has columns, and a Spark
    Connect client cannot send an expression a hundred levels deep.
    """
    remaining = list(parts)
    while len(remaining) > 1:
        pairs = [combine(*pair) for pair in zip(remaining[::2], remaining[1::2], strict=False)]
        remaining = pairs + remaining[2 * len(pairs) :]
    return remaining[0]


def any_of(conditions: Iterable[Column]) -> Column:
    """Return whether at least one condition holds; false if there is none."""
    return combine_pairwise(or_, [F.lit(False), *conditions])
