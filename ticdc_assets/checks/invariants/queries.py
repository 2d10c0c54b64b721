"""Rows of a lake and SQL over them: in this process if they are few, in Spark if they are many.

Over a few rows, a Spark job takes a tenth of a second, most of it to plan the job.

A query is text that DuckDB and Spark read alike, with `{name}` for rows.  Columns whose names are
words of SQL in either are written with their table: `e.table`, `e.index`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from ticdc_assets.store.arrow import arrow_schema
from ticdc_assets.store.lake import LakeSession

# An Arrow table, which has no type here, or a frame of Spark.
Rows = Any
# Returns a column by its name: an expression of Arrow or of Spark, which have the same operators.
GetColumn = Callable[[str], Any]
MapRows = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_DATABASE: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "threads": "1",
}


@dataclass(frozen=True)
class KnownRows:
    """Rows that the driver holds."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]] = ()

    def collect(self) -> list[Row]:
        make_row = Row(*self.columns)
        return [make_row(*row) for row in self.rows]

    def count(self) -> int:
        return len(self.rows)


class Queries:
    """Runs queries where the rows are; those of both kinds run in Spark."""

    def __init__(self, lake: LakeSession) -> None:
        self._lake = lake

    @cached_property
    def _database(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect(config=_DATABASE)

    def run(self, sql: str, **rows: Rows) -> DataFrame | KnownRows:
        """Run a query over rows by name."""
        tables = {name: each for name, each in rows.items() if isinstance(each, pa.Table)}
        if len(tables) < len(rows):
            frames = {name: self._make_frame(table) for name, table in tables.items()}
            return self._lake.spark.sql(sql, **{**rows, **frames})
        with self._database.cursor() as cursor:
            for name, table in tables.items():
                cursor.register(name, table)
            cursor.execute(sql.format(**{name: name for name in tables}))
            columns = tuple(str(column[0]) for column in cursor.description or ())
            return KnownRows(columns, cursor.fetchall())

    def _make_frame(self, table: pa.Table) -> DataFrame:
        if table.num_rows:
            return self._lake.make_frame(table)
        # Spark Connect makes no frame of Arrow without rows.
        return self._lake.spark.createDataFrame([], from_arrow_schema(table.schema))


def is_above(bounds: Mapping[str, int], get: GetColumn) -> Any:
    """Return the condition that one of some columns is greater than its bound."""
    return reduce(or_, (get(name) > least for name, least in bounds.items()))


def is_null(column: Any) -> Any:
    """Return the condition that a column of Arrow or of Spark is NULL."""
    return column.is_null() if isinstance(column, pc.Expression) else column.isNull()


def choose_rows(rows: Rows, condition: Callable[[GetColumn], Any]) -> Rows:
    """Return the rows that meet a condition on their columns."""
    if isinstance(rows, pa.Table):
        return rows.filter(condition(pc.field))
    return rows.where(condition(F.col))


def map_rows(rows: Rows, function: MapRows, contract: str) -> Rows:
    """Apply a function to rows in batches; its results have the columns of a contract."""
    if isinstance(rows, pa.Table):
        found = function(rows.to_batches())
        return pa.Table.from_batches(found, arrow_schema(contract))
    return rows.mapInArrow(function, contract)
