"""The changes of a table between two ts: each with the row before and after it.

They are computed from a snapshot and the events since; no table of them has to be switched on.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ticdc_assets.errors import ConfigError
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.control_events import read_control_events
from ticdc_assets.lake.apply.versions import VersionFrame, list_versions, mark_start
from ticdc_assets.lake.apply.window import FilesGone, PreparedWindow, prepare_reading
from ticdc_assets.lake.columns.inexact import ENTRIES, GetColumn
from ticdc_assets.lake.history.change_rows import format_image_type, make_changes
from ticdc_assets.lake.log.applied import find_valid_snapshot, read_last_snapshot
from ticdc_assets.lake.log.applied_files import read_snapshot
from ticdc_assets.lake.log.snapshot import Snapshot, decide_as
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.lake.views.lake_range import require_in_range
from ticdc_assets.lake.views.names import LakeNames
from ticdc_assets.lake.views.tables_at import TablesAt
from ticdc_assets.plan.steps import TableWork
from ticdc_assets.rows.column_moves import can_widen, map_columns
from ticdc_assets.rows.columns import COMMIT_TS, INEXACT, DeltaColumn, list_delta_columns

# Types whose texts in Spark are not those of MySQL, or depend on the session.
_WITHOUT_TEXT = ("binary", "timestamp", "array<float>")


def changes(lake: LakeSession, table: str, from_ts: int, to_ts: int) -> DataFrame:
    """Return the changes of `db.table` after `from_ts`, up to and including `to_ts`.

    The table is the incarnation that has this name at `to_ts`, and the images have its columns at
    `to_ts`: a column that did not exist yet is NULL.  A value from before a DDL that converted its
    column is cast to the new type, and NULL where that is not possible.
    """
    last = read_last_snapshot(lake)
    require_in_range(LakeReader(lake.location), to_ts, last, "to_ts")
    if from_ts >= to_ts:
        raise ConfigError(f"{from_ts} is not before {to_ts}", setting="from_ts")
    base_id = find_valid_snapshot(lake, last.snapshot_id, from_ts + 1)
    base = read_snapshot(LakeReader(lake.location), base_id)
    try:
        return _list_changes(lake, base, last, table, (from_ts, to_ts))
    except FilesGone:
        # Events are never removed.
        return _list_changes(lake, Snapshot(), last, table, (from_ts, to_ts))


def _list_changes(
    lake: LakeSession, base: Snapshot, last: Snapshot, name: str, span: tuple[int, int]
) -> DataFrame:
    window = _prepare(lake, decide_as(base, last), last, span[1])
    names = LakeNames(LakeReader(lake.location), lake.feed, last)
    table = names.choose(TablesAt(span[1], window.plan.state), name, "table")
    if table.is_stopped:
        raise ConfigError(f"{name} is {table.status}: {table.reason}", setting="table")
    start = window.frames.read_start(table.id)
    if start is not None:
        start = start.withColumn(COMMIT_TS, mark_start(F.col(COMMIT_TS), F.lit(None)))
    work = window.plan.work.get(table.id, TableWork(table.id, table.schema, False, ()))
    frames = list_versions(window.frames, work, start)
    columns = list_delta_columns(table.schema)
    type = format_image_type((column.name, column.type) for column in columns)
    readers = [
        (
            frame,
            _ImageReader(frame.before, frames[number:], columns, type).read,
            _ImageReader(frame.schema, frames[number + 1 :], columns, type).read,
        )
        for number, frame in enumerate(frames)
    ]
    ts = F.col("commit_ts")
    return make_changes(readers, type).where((ts > span[0]) & (ts <= span[1]))


def _prepare(lake: LakeSession, base: Snapshot, last: Snapshot, ts: int) -> PreparedWindow:
    """Plan the window from a snapshot to a ts."""
    reader = LakeReader(lake.location)
    end_id = (
        last.snapshot_id if ts == last.ts else find_valid_snapshot(lake, last.snapshot_id, ts + 1)
    )
    end = read_snapshot(reader, end_id)
    batch = end.batch if end.ts == ts else last.batch
    control = read_control_events(lake, base, batch)
    return prepare_reading(lake, base, control, ts, batch)


class _ImageReader:
    """Reads rows of an older schema as rows with the columns that the table has at the end."""

    def __init__(
        self,
        schema: TableSchema,
        later: Sequence[VersionFrame],
        columns: Sequence[DeltaColumn],
        type: str,
    ) -> None:
        moves = {column.name: column.name for column in list_delta_columns(schema)}
        for frame in later:
            next = map_columns(frame.before, frame.column_changes, frame.schema)
            moves = {old: next[new] for old, new in moves.items() if new in next}
        self._moves = moves
        self._sources = {
            moves[column.name]: column
            for column in list_delta_columns(schema)
            if column.name in moves
        }
        self._columns = columns
        self._type = type

    def read(self, get: GetColumn) -> Column:
        values = []
        for column in self._columns:
            source = self._sources.get(column.name)
            value = F.lit(None) if source is None else _cast(get(source.name), source.type, column)
            values.append(value.cast(column.type).alias(column.name))
        return F.struct(*values, self._move(get(INEXACT)).alias(INEXACT)).cast(self._type)

    def _move(self, entries: Column) -> Column:
        """Return entries under the new names of their columns."""
        if all(old == new for old, new in self._moves.items()) or not self._moves:
            return entries if self._moves else F.lit(None).cast(ENTRIES)
        names = F.create_map(*(F.lit(name) for pair in self._moves.items() for name in pair))
        renamed = F.transform(
            entries,
            lambda entry: F.struct(names[entry["key"]].alias("key"), entry["value"].alias("value")),
        )
        kept = F.sort_array(F.filter(renamed, lambda entry: entry["key"].isNotNull()))
        return F.when(F.size(kept) > 0, kept)


def _cast(value: Column, type: str, column: DeltaColumn) -> Column:
    """Cast a value of an earlier type; NULL where that is not possible."""
    if can_widen(type, column.type):
        return value
    if column.type.startswith(_WITHOUT_TEXT) or type.startswith(_WITHOUT_TEXT):
        return F.lit(None)
    return value.cast("string").try_cast(column.type)
