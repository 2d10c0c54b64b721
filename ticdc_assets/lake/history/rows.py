"""The rows of a history: from the versions of a window, and back to the versions that were open."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.events import TableSchema
from ticdc_assets.lake.history.columns import (
    HistoryColumn,
    read_columns,
    store_columns,
    take_over_columns,
)
from ticdc_assets.rows import table_rows
from ticdc_assets.rows.columns import INEXACT
from ticdc_assets.rows.table_rows import Rows, get_time, write_table
from ticdc_assets.rows.version_chains import OpenVersions, Versions
from ticdc_assets.rows.versions import begin_versions
from ticdc_assets.store.arrow import arrow_schema
from ticdc_assets.store.contracts import (
    HISTORY,
    OPERATION,
    VALID_FROM,
    VALID_TO,
)

# How a version began that no event began.
_DDL = "ddl"
LOAD = "load"
_OWN = arrow_schema(", ".join(f"{name} {type}" for name, type in HISTORY.items()))

# Stored rows by column, some at a time.
Block = Mapping[str, pa.Array]


@dataclass(frozen=True)
class Moment:
    """A ts, and the ts at which the table had been dropped by then, if it had."""

    ts: int
    dropped_ts: int | None = None

    def find_open(self, block: Block) -> tuple[pa.Array, pa.Array]:
        """Return which versions were open, and which had ended.

        The DROP that ends a table ends none: it may come back.
        """
        has_begun = pc.less_equal(block[VALID_FROM], self.ts)
        ends = block[VALID_TO]
        is_open = pc.fill_null(pc.greater(ends, self.ts), True)
        if self.dropped_ts is not None:
            is_open = pc.or_(is_open, pc.fill_null(pc.equal(ends, self.dropped_ts), False))
        return pc.and_(has_begun, is_open), pc.and_not(has_begun, is_open)


def filter_block(block: Block, chosen: pa.Array) -> dict[str, pa.Array]:
    """Return the rows that are chosen."""
    return {name: array.filter(chosen) for name, array in block.items()}


def list_history_fields(columns: Sequence[HistoryColumn]) -> pa.Schema:
    """List the columns of a history."""
    return pa.schema([*(pa.field(c.name, c.arrow_type) for c in columns), *_OWN])


def read_versions(
    block: Block, columns: Sequence[HistoryColumn], schema: TableSchema
) -> OpenVersions:
    """Return rows of a history under the schema that they had, each with its mark."""
    values = read_columns(columns, schema, block)
    since = block[VALID_FROM]
    stored = table_rows.read_columns({**values, INEXACT: block[INEXACT]}, schema)
    return begin_versions(Rows(stored, since), since, block[OPERATION])


def take_over(block: Block, columns: Sequence[HistoryColumn]) -> pa.Table:
    """Return stored rows of a history with the columns that it gets."""
    values = take_over_columns(columns, block, len(block[VALID_FROM]))
    own = [block[field.name].cast(field.type) for field in _OWN]
    return pa.Table.from_arrays([*values, *own], schema=list_history_fields(columns))


def make_rows(
    versions: Versions, schema: TableSchema, columns: Sequence[HistoryColumn], *, is_last: bool
) -> pa.Table:
    """Return the rows of a history for the versions of one step.

    They are those that ended in it, and, of the last one, those that outlast it.
    """
    since, until = versions.since, versions.until
    begins, ends = (pc.struct_field(mark, "ts") for mark in (since, until))
    is_kept = pc.fill_null(pc.greater(ends, begins), is_last)
    versions = versions.filter(is_kept)
    begins, ends = begins.filter(is_kept), ends.filter(is_kept)
    ddl, operation = (pc.struct_field(versions.since, name) for name in ("ddl", "operation"))
    written = write_table(versions.rows, schema)
    values = store_columns(columns, schema, written)
    began = pc.if_else(pc.is_valid(ddl), _DDL, operation)
    exact = written[INEXACT].combine_chunks()
    own = [begins, get_time(begins), ends, get_time(ends), began, exact]
    return pa.Table.from_arrays([*values, *own], schema=list_history_fields(columns))
