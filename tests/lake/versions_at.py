"""The rows of histories and changes at any ts, under the schemas that the schema history states."""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.events import TableSchema
from ticdc_assets.events.row_image import dump
from ticdc_assets.lake.history.change_rows import take_over_images
from ticdc_assets.lake.history.changes_table import ChangesTable
from ticdc_assets.lake.history.history_table import HistoryTable
from ticdc_assets.lake.history.rows import Block, read_versions, take_over
from ticdc_assets.rows.columns import list_stored_columns
from ticdc_assets.rows.stored import Stored, read_stored
from ticdc_assets.schema.types.row import RowWriter
from ticdc_assets.store.contracts import IMAGES, OPERATION, VALID_FROM, VALID_TO
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import StoredRows

# The ts of a version that is open.
_NEVER = (1 << 63) - 1
# The rows of a table as lines, as `reference.row_lines` formats them, in no order.
TableRows = tuple[TableSchema, list[bytes]]
Kind = type[HistoryTable] | type[ChangesTable]


def read_histories(
    lake: LakeSession, kind: Kind = HistoryTable
) -> Callable[[int], dict[str, TableRows]]:
    """Read all histories, or changes; return what has the rows as lines at a ts, by incarnation."""
    found: list[tuple[str, int, int, TableSchema, list[tuple[int, int, bytes]]]] = []
    for id, start, end, schema in list_schema_versions(lake):
        if start < end:
            found.append((id, start, end, schema, _read(kind(lake, id), schema, start, end)))

    def at(ts: int) -> dict[str, TableRows]:
        return {
            id: (schema, [line for since, until, line in rows if since <= ts < until])
            for id, start, end, schema, rows in found
            if start <= ts < end
        }

    return at


def list_schema_versions(lake: LakeSession) -> list[tuple[str, int, int, TableSchema]]:
    """List the versions of the schemas of all tables: from a ts, up to another."""
    reader = LakeReader(lake.location)
    names = ("incarnation", "valid_from", "valid_to", "schema")
    rows = reader.read(reader.open("schema_history"), names).to_pylist()
    return [
        (
            row["incarnation"],
            row["valid_from"],
            _NEVER if row["valid_to"] is None else row["valid_to"],
            msgspec.json.decode(row["schema"], type=TableSchema),
        )
        for row in rows
        if row["incarnation"]
    ]


def read_rows(table: HistoryTable | ChangesTable) -> pa.Table:
    """Read all rows of a history or of changes, at the newest mark."""
    assert table.version is not None
    stored, columns = StoredRows(table.reader, table.name, table.version), table.columns
    if isinstance(table, HistoryTable):
        blocks = [take_over(block, columns) for block in stored.read()]
    else:
        names = {name: stored.read_names(name) for name in IMAGES}
        blocks = [take_over_images(block, columns, names) for block in stored.read()]
    return pa.concat_tables([table.list_fields(columns).empty_table(), *blocks])


def _read(
    table: HistoryTable | ChangesTable, schema: TableSchema, start: int, end: int
) -> list[tuple[int, int, bytes]]:
    if table.version is None:
        return []
    rows = read_rows(table)
    versions = rows if isinstance(table, HistoryTable) else fold_changes(rows)
    begins, ends = versions[VALID_FROM], versions[VALID_TO]
    is_seen = pc.and_(pc.less(begins, end), pc.fill_null(pc.greater(ends, start), True))
    seen = versions.filter(is_seen)
    block = get_block(seen)
    lines = print_rows(read_versions(block, table.columns, schema).rows.columns, schema)
    times = (pc.fill_null(seen[name], _NEVER).to_pylist() for name in (VALID_FROM, VALID_TO))
    return list(zip(*times, lines, strict=True))


def get_block(rows: pa.Table) -> Block:
    arrays = (column.combine_chunks() for column in rows.columns)
    return dict(zip(rows.column_names, arrays, strict=True))


def fold_changes(changes: pa.Table) -> pa.Table:
    """Fold changes into versions: a row after a change is there until it is one before another."""
    changes = changes.sort_by("commit_ts").combine_chunks()
    came, gone = (changes.filter(pc.is_valid(changes[side])) for side in ("after", "before"))
    # Equal rows go one by one.
    ends: dict[str, deque[int]] = defaultdict(deque)
    for ts, row in zip(gone["commit_ts"].to_pylist(), _list_images(gone["before"]), strict=True):
        ends[row].append(ts)
    until = []
    for ts, row in zip(came["commit_ts"].to_pylist(), _list_images(came["after"]), strict=True):
        ending = ends[row].popleft() if ends[row] else None
        # No row goes that is not there.
        assert ending is None or ts <= ending, row
        until.append(ending)
    assert not any(ends.values()), ends
    images = came["after"].combine_chunks()
    names = [field.name for field in images.type]
    own = {
        VALID_FROM: came["commit_ts"].combine_chunks(),
        VALID_TO: pa.array(until, pa.int64()),
        OPERATION: pa.nulls(len(images), pa.string()),
    }
    return pa.table([*images.flatten(), *own.values()], [*names, *own])


def _list_images(images: pa.ChunkedArray) -> list[str]:
    """Return images in a form that tells them apart; Python has no year 0."""
    fields = images.combine_chunks().flatten()
    values = (
        f.view(f"int{f.type.bit_width}") if pa.types.is_temporal(f.type) else f for f in fields
    )
    return list(map(repr, zip(*(each.to_pylist() for each in values), strict=True)))


def print_rows(columns: Mapping[str, Stored], schema: TableSchema) -> list[bytes]:
    """Return rows as lines, as `reference.row_lines` formats them."""
    write, stored = RowWriter(schema), list_stored_columns(schema)
    values = [read_stored(columns[column.name], column.type) for column in stored]
    rows = (
        dict(zip((c.name for c in stored), row, strict=True)) for row in zip(*values, strict=True)
    )
    return [dump(write(row)).encode() + b"\n" for row in rows]
