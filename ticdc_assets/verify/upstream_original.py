"""What a copy is compared with, if it is the database upstream: its tables at a TSO of TiDB.

The server sums up the hashes of rows itself, where it writes the texts that are compared.  It
writes no JSON in the form in which documents of other programs are compared, so of a table with
such a column its rows are read.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import CONTENT_ERRORS, ConfigError, describe_content_error
from ticdc_assets.events import Column, ColumnType, TableSchema
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.rows.columns import list_stored_columns
from ticdc_assets.schema.types.mysql_type import describe
from ticdc_assets.stream.privacy import protect_schema, restore_schema
from ticdc_assets.upstream.definition import read_definition
from ticdc_assets.upstream.snapshot import TableUnreadable, UpstreamError, UpstreamSnapshot
from ticdc_assets.upstream.sql import quote
from ticdc_assets.verify.batch_side import BatchSide, ReadColumn
from ticdc_assets.verify.canonical import ComparedColumn
from ticdc_assets.verify.columns import NotComparable, explain_unfinished
from ticdc_assets.verify.copy_values import Incomparable, Reading, normalize_json_texts
from ticdc_assets.verify.side import Comparison, Span, UnitSide
from ticdc_assets.verify.upstream_side import ServerTable, UpstreamSide, estimate_rows
from ticdc_assets.verify.upstream_sql import HashSql, ServerColumn

# About how many rows are a unit, of a table whose key begins with an integer.
_ROWS_PER_UNIT = 1_000_000
_MOST_UNITS = 4096
_ONLY_TIDB = (
    "only TiDB reads rows as of a TSO: compare the copy with the lake (without --upstream), and the"
    " lake with the database (without --against)"
)


@dataclass(frozen=True)
class UpstreamOriginal:
    """The tables of the database upstream."""

    snapshot: UpstreamSnapshot
    feed: Changefeed
    cause = "the copy is wrong, or it is of another moment"

    def __post_init__(self) -> None:
        if not self.snapshot.is_tidb:
            raise ConfigError(_ONLY_TIDB, setting="--upstream")

    @property
    def ts(self) -> int:
        # Of TiDB, a snapshot always has one.
        return self.snapshot.ts or 0

    def open(self, table: Incarnation, *, by_server: bool) -> "UpstreamTable | None":
        name = table.schema.database, table.schema.table
        try:
            definition = read_definition(self.snapshot.query, *name)
        except TableUnreadable:
            return None
        except UpstreamError:
            # Not of this table: the server is lost.
            raise
        except CONTENT_ERRORS as error:
            raise NotComparable(describe_content_error(error)) from None
        protected = protect_schema(self.feed.privacy, definition)
        return UpstreamTable(self.snapshot, protected, by_server=by_server)

    def explain(self, table: Incarnation) -> str | None:
        return explain_unfinished(table.schema, self.snapshot)


class UpstreamTable:
    """A table upstream, before it is known what is compared."""

    def __init__(self, snapshot: UpstreamSnapshot, schema: TableSchema, *, by_server: bool) -> None:
        self.schema = schema
        self._snapshot = snapshot
        self._by_server = by_server
        stored = {column.name: column for column in list_stored_columns(restore_schema(schema))}
        lead = stored.get(schema.key[0]) if schema.key else None
        self._lead = lead if lead is not None and describe(lead.type).kind == "integer" else None
        self._measure = estimate_rows(snapshot, schema.database, schema.table, self._lead)

    def count(self) -> int:
        return self._measure.rows

    def read_as(self, column: Column, type: ColumnType, alias: str) -> ServerColumn:
        if describe(column.type).kind == "vector":
            raise Incomparable("no two programs print the numbers of a VECTOR alike")
        return ServerColumn(column, type)

    def open(self, comparison: Comparison, read: Mapping[ComparedColumn, ServerColumn]) -> UnitSide:
        units = self._divide()
        state = f"{self._snapshot.ts} {units}"
        if not self._by_server and any(column.kind == "json" for column in read):
            rows = UpstreamRows(self._snapshot, comparison, read, units, state)
            return BatchSide(rows, comparison, rows.list_read())
        name = self.schema.database, self.schema.table
        place = ServerTable(*name, read, units, state)
        return UpstreamSide(self._snapshot, comparison, place)

    def _divide(self) -> list[str]:
        """Return conditions that divide the rows by an index, into units of about a million."""
        count = min(_MOST_UNITS, -(-self._measure.rows // _ROWS_PER_UNIT))
        if self._lead is None or count < 2 or len(self._measure.bounds) < 2:
            return ["1 = 1"]
        least, most = self._measure.bounds
        name = quote(self._lead.name)
        parts = Span(least, most + 1).split(count)
        return [f"({name} >= {part.low} AND {name} < {part.high})" for part in parts]


class UpstreamRows:
    """The rows of a table upstream, by the canonical texts of their columns."""

    # Parameters: a table of a server, and what of it is compared how.
    def __init__(
        self,
        snapshot: UpstreamSnapshot,
        comparison: Comparison,
        held: Mapping[ComparedColumn, ServerColumn],
        units: Sequence[str],
        state: str,
    ) -> None:
        self._snapshot = snapshot
        self._table = f"{quote(comparison.database)}.{quote(comparison.table)}"
        self._held = held
        self._conditions = units
        self._texts = {
            f"c{number}": HashSql(is_tidb=snapshot.is_tidb).write_held(held[column])
            for number, column in enumerate(comparison.columns)
        }
        self._read = dict(zip(comparison.columns, self._texts, strict=True))
        self.state = state
        self.units = len(units)
        self.columns = dict.fromkeys(self._texts, pa.binary())
        self.bytes_read = 0
        self.sent = 0

    def list_read(self) -> dict[ComparedColumn, ReadColumn]:
        """Return how each column is read."""
        return {
            column: ReadColumn(
                alias,
                alias,
                Reading(f"{alias}::BLOB", normalize_json_texts if column.kind == "json" else None),
            )
            for column, alias in self._read.items()
        }

    def read(self, unit: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        listed = ", ".join(self._texts[name] for name in columns)
        sql = f"SELECT {listed} FROM {self._table} WHERE {self._conditions[unit]}"
        with self._snapshot.borrow() as reader, closing(reader.stream(sql)) as portions:
            for rows in portions:
                arrays = [pa.array(values, pa.binary()) for values in zip(*rows, strict=True)]
                batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
                self.bytes_read += batch.nbytes
                self.sent += len(rows)
                yield batch
                self._snapshot.pace.spend(len(rows))
