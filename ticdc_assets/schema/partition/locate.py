"""Which partition TiDB keeps a row in.

Needed because DROP, TRUNCATE and EXCHANGE PARTITION remove or swap rows that the stream never
mentions.  Nothing is guessed: what cannot be decided is `UnsupportedDdl` (the partitioning) or
`InvalidValue` (a row).  What happens to the rows is not decided here.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from datetime import UTC, tzinfo
from itertools import pairwise
from math import inf
from typing import Any, NoReturn
from zlib import crc32

from msgspec import Struct

from ticdc_assets.errors import InvalidValue, UnsupportedDdl
from ticdc_assets.events import Column, Partition, Partitioning, TableSchema
from ticdc_assets.schema.partition.column import comparison, convert_bound, hashing
from ticdc_assets.schema.partition.expression import (
    compile_integer,
    constant,
    integer_constant,
    read_column,
)
from ticdc_assets.schema.partition.function import Row
from ticdc_assets.schema.types.value import Value

Locate = Callable[[Row], str | None]

_LEAST_INTEGER = -(1 << 63)
_BEYOND_INTEGER = 1 << 64

# Keys of columns sort by their first member: NULL below all values, MAXVALUE above.
_NULL_KEY: tuple[Any, ...] = (0,)
_MAXVALUE_KEY: tuple[Any, ...] = (2,)


def locate_partition(
    partitioning: Partitioning, schema: TableSchema, row: Mapping[str, Value]
) -> str | None:
    """Name the partition of one row; None if no partition takes it."""
    return make_locator(partitioning, schema)(row)


def make_locator(
    partitioning: Partitioning, schema: TableSchema, *, session_zone: tzinfo = UTC
) -> Locate:
    """Make the function that names the partitions of a table's rows.

    `session_zone` is the time zone in which the statement ran that declared the partitions: only
    UNIX_TIMESTAMP of a constant depends on it.
    """
    cut = _Cut(partitioning, schema, session_zone)
    if not partitioning.partitions:
        cut.fail("no partitions")
    try:
        return _LOCATORS[partitioning.kind](cut)
    except InvalidValue as problem:
        raise UnsupportedDdl(str(problem), cut.text) from None


class _Cut(Struct, frozen=True):
    """A partitioning, its table, and the look-ups that every kind needs."""

    partitioning: Partitioning
    schema: TableSchema
    zone: tzinfo

    @property
    def text(self) -> str:
        by = self.partitioning.expression or ", ".join(self.partitioning.columns)
        return f"PARTITION BY {self.partitioning.kind.upper()} ({by})"

    @property
    def names(self) -> list[str]:
        return [partition.name for partition in self.partitioning.partitions]

    def fail(self, reason: str) -> NoReturn:
        raise UnsupportedDdl(reason, self.text)

    def expression(self) -> Callable[[Row], int | None]:
        """Compile the partitioning expression, with its result in the range of BIGINT."""
        text = self.partitioning.expression
        if not text:
            self.fail("no partitioning expression")
        evaluate = compile_integer(text, self.schema, self.zone)

        def in_range(row: Row) -> int | None:
            value = evaluate(row)
            if value is not None and not _LEAST_INTEGER <= value < _BEYOND_INTEGER:
                raise InvalidValue(f"{text} gives {value}, beyond BIGINT")
            return value

        return in_range

    def columns(self) -> list[Column]:
        names = self.partitioning.columns
        if not names and self.partitioning.kind == "key":
            names = next((i.columns for i in self.schema.indexes if i.primary), ())
        if not names:
            self.fail("no partitioning columns")
        columns = []
        for name in names:
            column = self.schema.column(name)
            if column is None:
                self.fail(f"the table has no column {name!r}")
            columns.append(column)
        return columns

    def keys(self) -> Callable[[Row], tuple[Any, ...]]:
        """Make the function that gives the keys of a row's partitioning columns."""
        parts = [(read_column(column), comparison(column)) for column in self.columns()]

        def keys_of(row: Row) -> tuple[Any, ...]:
            keys = []
            for read, compare in parts:
                value = read(row)
                keys.append(_NULL_KEY if value is None else (1, compare(value)))
            return tuple(keys)

        return keys_of

    def bound_key(self, text: str, column: Column) -> tuple[Any, ...]:
        value = convert_bound(constant(text, self.zone), column)
        return _NULL_KEY if value is None else (1, comparison(column)(value))

    def bounds(self) -> list[tuple[str, ...]]:
        """List the upper bounds, each as long as there are columns; MAXVALUE may stand for all."""
        width = len(self.partitioning.columns) or 1
        bounds = []
        for partition in self.partitioning.partitions:
            bound = partition.less_than or ()
            if len(bound) == 1 and _is_word(bound[0], "MAXVALUE"):
                bound *= width
            if len(bound) != width:
                self.fail(f"partition {partition.name} has {len(bound)} bounds, not {width}")
            bounds.append(bound)
        return bounds

    def lists(self) -> list[tuple[Partition, list[tuple[str, ...]]]]:
        """List the values of each partition, without DEFAULT."""
        width = len(self.partitioning.columns) or 1
        lists = []
        for partition in self.partitioning.partitions:
            tuples = [v for v in partition.values or () if not _is_default(v)]
            if any(len(v) != width for v in tuples):
                self.fail(f"partition {partition.name} has values that are not {width} wide")
            lists.append((partition, tuples))
        return lists

    def default(self) -> str | None:
        """Name the partition that takes what no other does."""
        for partition in self.partitioning.partitions:
            if any(_is_default(v) for v in partition.values or ()):
                return partition.name
        return None


def _is_word(text: str, word: str) -> bool:
    return text.strip().upper() == word


def _is_default(values: tuple[str, ...]) -> bool:
    return len(values) == 1 and _is_word(values[0], "DEFAULT")


# --- range -------------------------------------------------------------------


def _by_range(cut: _Cut) -> Locate:
    evaluate = cut.expression()
    bounds: list[float] = []
    for (text,) in cut.bounds():
        if _is_word(text, "MAXVALUE"):
            bounds.append(inf)
            continue
        bound = integer_constant(text, cut.zone)
        if bound is None:
            cut.fail(f"bound {text} is NULL")
        bounds.append(bound)
    _check_ascending(bounds, cut)
    names = [*cut.names, None]

    def find(row: Row) -> str | None:
        value = evaluate(row)
        return names[0 if value is None else bisect_right(bounds, value)]

    return find


def _by_range_columns(cut: _Cut) -> Locate:
    columns = cut.columns()
    keys_of = cut.keys()
    bounds = [
        tuple(
            _MAXVALUE_KEY if _is_word(text, "MAXVALUE") else cut.bound_key(text, column)
            for text, column in zip(bound, columns, strict=True)
        )
        for bound in cut.bounds()
    ]
    _check_ascending(bounds, cut)
    names = [*cut.names, None]
    return lambda row: names[bisect_right(bounds, keys_of(row))]


def _check_ascending(bounds: list[Any], cut: _Cut) -> None:
    if any(low >= high for low, high in pairwise(bounds)):
        cut.fail("the bounds do not ascend")


# --- list --------------------------------------------------------------------


def _by_list(cut: _Cut) -> Locate:
    evaluate = cut.expression()
    names: dict[int | None, str] = {}
    for partition, values in cut.lists():
        for (text,) in values:
            names[integer_constant(text, cut.zone)] = partition.name
    default = cut.default()
    return lambda row: names.get(evaluate(row), default)


def _by_list_columns(cut: _Cut) -> Locate:
    columns = cut.columns()
    keys_of = cut.keys()
    names: dict[Any, str] = {}
    for partition, tuples in cut.lists():
        for texts in tuples:
            keys = (cut.bound_key(t, c) for t, c in zip(texts, columns, strict=True))
            names[tuple(keys)] = partition.name
    default = cut.default()
    return lambda row: names.get(keys_of(row), default)


# --- hash and key ------------------------------------------------------------


def _by_hash(cut: _Cut) -> Locate:
    evaluate = cut.expression()
    names = cut.names
    count = len(names)

    def find(row: Row) -> str | None:
        value = evaluate(row) or 0
        if value >= 1 << 63:
            # TiDB takes the 64 bits of an unsigned number for a signed one.
            value -= 1 << 64
        return names[abs(value) % count]

    return find


def _by_key(cut: _Cut) -> Locate:
    parts = [(read_column(column), hashing(column)) for column in dict.fromkeys(cut.columns())]
    names = cut.names
    count = len(names)

    def find(row: Row) -> str | None:
        checksum = 0
        for read, hash_value in parts:
            checksum = crc32(hash_value(read(row)), checksum)
        return names[checksum % count]

    return find


_LOCATORS: dict[str, Callable[[_Cut], Locate]] = {
    "range": _by_range,
    "range columns": _by_range_columns,
    "list": _by_list,
    "list columns": _by_list_columns,
    "hash": _by_hash,
    "key": _by_key,
}
