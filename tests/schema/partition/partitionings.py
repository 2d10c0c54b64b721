"""Partitioned tables, and the partitions of their rows."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from hypothesis import strategies as st

from ticdc_assets.events import Column, Index, Partition, Partitioning, TableSchema
from ticdc_assets.schema.partition.locate import make_locator
from ticdc_assets.schema.types.mysql_type import parse_type
from ticdc_assets.schema.types.value import Value

integers = st.one_of(st.none(), st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-5, 5))
texts = st.text("aB é\u00df中0", max_size=3)
moments = st.datetimes(datetime(1, 1, 1), datetime(9998, 12, 31))


def table(primary: tuple[str, ...] = (), **types: str) -> TableSchema:
    columns = tuple(Column(name, parse_type(text)) for name, text in types.items())
    return TableSchema("db", "t", columns, (Index("primary", primary, True, True),))


def ranges(*bounds: str | tuple[str, ...], by: str = "", columns: str = "") -> Partitioning:
    partitions = tuple(
        Partition(f"p{n}", less_than=(bound,) if isinstance(bound, str) else bound)
        for n, bound in enumerate(bounds)
    )
    kind = "range columns" if columns else "range"
    return Partitioning(kind, partitions, by or None, tuple(columns.split()))


def lists(
    *values: Iterable[str | tuple[str, ...]], by: str = "", columns: str = ""
) -> Partitioning:
    partitions = tuple(
        Partition(f"p{n}", values=tuple((v,) if isinstance(v, str) else v for v in some))
        for n, some in enumerate(values)
    )
    kind = "list columns" if columns else "list"
    return Partitioning(kind, partitions, by or None, tuple(columns.split()))


def numbered(kind: str, count: int, by: str = "", columns: str = "") -> Partitioning:
    partitions = tuple(Partition(f"p{n}") for n in range(count))
    return Partitioning(kind, partitions, by or None, tuple(columns.split()))


def number(name: str | None) -> int | None:
    return None if name is None else int(name.removeprefix("p"))


def locate_partition(
    partitioning: Partitioning, schema: TableSchema, row: Mapping[str, Value]
) -> str | None:
    return make_locator(partitioning, schema)(row)


def evaluates_to(expression: str, result: int | None, row: dict[str, Value], **types: str) -> bool:
    """Whether an expression has a result: a LIST partition of that value then holds the row."""
    value = "NULL" if result is None else str(result)
    partitioning = lists([value], ["DEFAULT"], by=expression)
    return locate_partition(partitioning, table(**types), row) == "p0"
