"""Many columns, or frames, made one."""

from collections.abc import Callable, Iterable, Sequence
from operator import and_, or_
from typing import TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ticdc_assets.lake.store.sql import quote_identifier

Part = TypeVar("Part")


def combine_balanced(combine: Callable[[Part, Part], Part], parts: Iterable[Part]) -> Part:
    """Combine two and two, as often as it takes; there is one at least.

    One after the other they would be nested as deep as there are columns in a table, and a client
    of Spark Connect sends nothing that is nested a hundred deep.
    """
    left = list(parts)
    while len(left) > 1:
        pairs = [combine(one, other) for one, other in zip(left[::2], left[1::2], strict=False)]
        left = pairs + left[2 * len(pairs) :]
    return left[0]


def any_of(conditions: Iterable[Column]) -> Column:
    """Whether one of them holds; of none, no."""
    return combine_balanced(or_, [F.lit(False), *conditions])


def same_values(one: DataFrame, other: DataFrame, names: Sequence[str]) -> Column:
    """Whether rows are the same in these columns; NULL is a value, as a date may have no other."""
    return combine_balanced(
        and_,
        (one[quote_identifier(name)].eqNullSafe(other[quote_identifier(name)]) for name in names),
    )
