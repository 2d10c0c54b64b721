"""The partitioning methods, one function each: from a partitioned table to a locator of rows."""

from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise
from math import inf
from typing import Any, NoReturn
from zlib import crc32

from msgspec import Struct

from ticdc_assets.errors import InvalidValue, UnsupportedDdl
from ticdc_assets.events import Column, Partition, Partitioning, TableSchema
from ticdc_assets.schema.ddl_context import DdlContext
from ticdc_assets.schema.partition.column import (
    convert_bound,
    lacks_collation,
    make_column_reader,
    make_hash,
    make_sort_key,
)
from ticdc_assets.schema.partition.expression import (
    compile_integer,
    evaluate_constant,
    evaluate_integer,
)
from ticdc_assets.schema.partition.function import Row

# Returns the name of a row's partition; None if no partition holds the row.
Locate = Callable[[Row], str | None]

_LEAST_INTEGER = -(1 << 63)
_BEYOND_INTEGER = 1 << 64

# Sort keys of columns: NULL sorts below all values, MAXVALUE above.
_NULL_KEY: tuple[Any, ...] = (0,)
_MAXVALUE_KEY: tuple[Any, ...] = (2,)


class ContradictoryPartitions(UnsupportedDdl):
    """Partitions that TiDB does not accept, so what is known of them is wrong."""


class PartitionedTable(Struct, frozen=True):
    """A table and its partitioning, with the lookups that several methods share."""

    partitioning: Partitioning
    schema: TableSchema
    context: DdlContext

    @property
    def text(self) -> str:
        by = self.partitioning.expression or ", ".join(self.partitioning.columns)
        return f"PARTITION BY {self.partitioning.kind.upper()} ({by})"

    @property
    def names(self) -> list[str]:
        return [partition.name for partition in self.partitioning.partitions]

    def fail(self, reason: str) -> NoReturn:
        raise UnsupportedDdl(reason, self.text)

    def compile_expression(self) -> Callable[[Row], int | None]:
        """Compile the partitioning expression, with its result in the range of BIGINT."""
        text = self.partitioning.expression
        if not text:
            self.fail("the partitioning has no expression")
        evaluate = compile_integer(text, self.schema, self.context.time_zone)

        def in_range(row: Row) -> int | None:
            value = evaluate(row)
            if value is not None and not _LEAST_INTEGER <= value < _BEYOND_INTEGER:
                raise InvalidValue(f"{text} is {value}, which exceeds BIGINT")
            return value

        return in_range

    def partitioning_columns(self) -> list[Column]:
        names = self.partitioning.columns
        if not names and self.partitioning.kind == "key":
            names = self.schema.effective_primary_key
        if not names:
            self.fail("the partitioning has no columns")
        columns = []
        for name in names:
            column = self.schema.column(name)
            if column is None:
                self.fail(f"the table has no column {name!r}")
            columns.append(column)
        return columns

    def columns_of_unknown_collation(self) -> list[Column]:
        """List the columns whose texts are compared by a collation that nothing states."""
        if self.partitioning.kind not in ("range columns", "list columns"):
            return []
        return [column for column in self.partitioning_columns() if lacks_collation(column)]

    def make_row_key(self) -> Callable[[Row], tuple[Any, ...]]:
        """Return the function that computes the sort key of a row's partitioning columns."""
        parts = [
            (make_column_reader(column), make_sort_key(column))
            for column in self.partitioning_columns()
        ]

        def keys_of(row: Row) -> tuple[Any, ...]:
            keys = []
            for read, compare in parts:
                value = read(row)
                keys.append(_NULL_KEY if value is None else (1, compare(value)))
            return tuple(keys)

        return keys_of

    def bound_key(self, text: str, column: Column) -> tuple[Any, ...]:
        value = convert_bound(evaluate_constant(text, self.context.time_zone), column)
        return _NULL_KEY if value is None else (1, make_sort_key(column)(value))

    def upper_bounds(self) -> list[tuple[str, ...]]:
        """List the upper bounds, one value per column; a single MAXVALUE stands for all columns."""
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

    def list_values(self) -> list[tuple[Partition, list[tuple[str, ...]]]]:
        """List the values of each partition, without DEFAULT."""
        width = len(self.partitioning.columns) or 1
        lists = []
        for partition in self.partitioning.partitions:
            tuples = [v for v in partition.values or () if not _is_default(v)]
            if any(len(v) != width for v in tuples):
                self.fail(f"partition {partition.name} has values of other than {width} columns")
            lists.append((partition, tuples))
        return lists

    def default_partition(self) -> str | None:
        """Return the DEFAULT partition, if there is one."""
        for partition in self.partitioning.partitions:
            if any(_is_default(v) for v in partition.values or ()):
                return partition.name
        return None


def _is_word(text: str, word: str) -> bool:
    return text.strip().upper() == word


def _is_default(values: tuple[str, ...]) -> bool:
    return len(values) == 1 and _is_word(values[0], "DEFAULT")


# --- range -------------------------------------------------------------------


def _locate_by_range(table: PartitionedTable) -> Locate:
    evaluate = table.compile_expression()
    bounds: list[float] = []
    for (text,) in table.upper_bounds():
        if _is_word(text, "MAXVALUE"):
            bounds.append(inf)
            continue
        bound = evaluate_integer(text, table.context.time_zone)
        if bound is None:
            table.fail(f"bound {text} is NULL")
        bounds.append(bound)
    _check_ascending(bounds, table)
    names = [*table.names, None]

    def find(row: Row) -> str | None:
        value = evaluate(row)
        return names[0 if value is None else bisect_right(bounds, value)]

    return find


def _locate_by_range_columns(table: PartitionedTable) -> Locate:
    columns = table.partitioning_columns()
    keys_of = table.make_row_key()
    bounds = [
        tuple(
            _MAXVALUE_KEY if _is_word(text, "MAXVALUE") else table.bound_key(text, column)
            for text, column in zip(bound, columns, strict=True)
        )
        for bound in table.upper_bounds()
    ]
    _check_ascending(bounds, table)
    names = [*table.names, None]
    return lambda row: names[bisect_right(bounds, keys_of(row))]


def _check_ascending(bounds: list[Any], table: PartitionedTable) -> None:
    if any(low >= high for low, high in pairwise(bounds)):
        raise ContradictoryPartitions("the partition bounds do not ascend", table.text)


# --- list --------------------------------------------------------------------


def _locate_by_list(table: PartitionedTable) -> Locate:
    evaluate = table.compile_expression()
    names: dict[int | None, str] = {}
    for partition, values in table.list_values():
        for (text,) in values:
            names[evaluate_integer(text, table.context.time_zone)] = partition.name
    default = table.default_partition()
    return lambda row: names.get(evaluate(row), default)


def _locate_by_list_columns(table: PartitionedTable) -> Locate:
    columns = table.partitioning_columns()
    keys_of = table.make_row_key()
    names: dict[Any, str] = {}
    for partition, tuples in table.list_values():
        for texts in tuples:
            key = tuple(table.bound_key(t, c) for t, c in zip(texts, columns, strict=True))
            if names.setdefault(key, partition.name) != partition.name:
                raise ContradictoryPartitions("two partitions have the same value", table.text)
    default = table.default_partition()
    return lambda row: names.get(keys_of(row), default)


# --- hash and key ------------------------------------------------------------


def _locate_by_hash(table: PartitionedTable) -> Locate:
    evaluate = table.compile_expression()
    names = table.names
    count = len(names)

    def find(row: Row) -> str | None:
        value = evaluate(row) or 0
        if value >= 1 << 63:
            # TiDB reads the 64 bits of an unsigned number as a signed one.
            value -= 1 << 64
        return names[abs(value) % count]

    return find


def _locate_by_key(table: PartitionedTable) -> Locate:
    parts = [
        (make_column_reader(column), make_hash(column))
        for column in dict.fromkeys(table.partitioning_columns())
    ]
    names = table.names
    count = len(names)

    def find(row: Row) -> str | None:
        checksum = 0
        for read, hash_value in parts:
            checksum = crc32(hash_value(read(row)), checksum)
        return names[checksum % count]

    return find


LOCATORS: dict[str, Callable[[PartitionedTable], Locate]] = {
    "range": _locate_by_range,
    "range columns": _locate_by_range_columns,
    "list": _locate_by_list,
    "list columns": _locate_by_list_columns,
    "hash": _locate_by_hash,
    "key": _locate_by_key,
}
