"""The lake at any ts: a snapshot, or the newest snapshot below it plus the events since.

Small tables are read and computed in this process, and large ones by Spark's workers.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

from ticdc_assets.errors import ConfigError, TableCannotContinue, TicdcError
from ticdc_assets.events import TableSchema
from ticdc_assets.log.applied_files import (
    find_base,
    find_newest_id,
    read_rows,
    read_snapshot,
)
from ticdc_assets.log.folds import read_first_snapshot
from ticdc_assets.log.snapshot import Snapshot, decide_as
from ticdc_assets.plan.state import Incarnation, State
from ticdc_assets.rows.kept import split_kept
from ticdc_assets.rows.lines import format_columns, sort_by_key
from ticdc_assets.rows.parts import Part
from ticdc_assets.rows.table_rows import Rows
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import FilesGone, StoredRows
from ticdc_assets.views.lake_range import require_in_range
from ticdc_assets.views.table_rows import (
    ComputedTables,
    KeptTables,
    StoredTables,
    TableRows,
)
from ticdc_assets.views.tables_at import TablesAt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# From about this many values of a table on, Spark's cores make up for its start.
_MOST_VALUES = 5_000_000
# About what a worker of Spark holds of a table.
_ROWS_PER_PART = 500_000
# About how many rows of several small tables are computed at once.
_ROWS_AT_ONCE = 100_000


@dataclass(frozen=True)
class AsOfView(TablesAt):
    """All tables at one ts; the rows of one are read or computed when somebody wants them."""

    lake: LakeSession
    # The snapshot that it starts from, and the newest one when it was opened.
    snapshots: tuple[int, int]
    _tables: KeptTables
    # Opens the tables apart from rows that earlier views keep.
    _open: "Callable[[], _OldTables]"

    def why_spark(self, table: Incarnation) -> str | None:
        """Return why Spark has to read the rows of a table; None if it does not have to."""
        if table.is_stopped:
            return None
        rows = self._tables.count(table.id)
        if rows * len(table.schema.columns) > _MOST_VALUES:
            return f"{rows:,} rows"
        version = self._tables.find_version(table.id)
        if version is None:
            return None
        try:
            unknown = self._open_version(table, version).unknown_features
        except FilesGone:
            # It is computed.
            return None
        return f"Delta's {', '.join(sorted(unknown))}" if unknown else None

    def find_version(self, table: Incarnation) -> int | None:
        """Return the version of a current table that has these rows, if its files are there."""
        stored = self.find_stored(table)
        return None if stored is None else stored.version

    def find_stored(self, table: Incarnation) -> StoredRows | None:
        """Open the version of a current table that has these rows, if its files are there."""
        version = None if table.is_stopped else self._tables.find_version(table.id)
        if version is None:
            return None
        stored = self._open_version(table, version)
        base, last = self.snapshots
        # Maintenance keeps the files of the newest snapshot.
        return stored if base == last or stored.has_files else None

    def _open_version(self, table: Incarnation, version: int) -> StoredRows:
        return StoredRows(LakeReader(self.lake.location), f"current/{table.id}", version)

    def prepare(self, tables: Iterable[Incarnation]) -> None:
        """Compute the rows of small tables together, for those who want each of them."""
        wanted: dict[str, TableSchema] = {}
        rows = 0
        for table in tables:
            if not table.is_stopped and self.why_spark(table) is None:
                wanted[table.id] = table.schema
                rows += self._tables.count(table.id)
            if rows > _ROWS_AT_ONCE:
                self._read_ahead(wanted)
                wanted, rows = {}, 0
        self._read_ahead(wanted)

    def _read_ahead(self, wanted: Mapping[str, TableSchema]) -> None:
        # Whoever wants the table meets it again.
        with suppress(TicdcError):
            self._tables.read(wanted)

    def rows(self, table: Incarnation) -> Rows | None:
        """Return the rows of a small table in this process; None if it is waiting or paused."""
        if table.is_stopped:
            return None
        try:
            return self._tables.read({table.id: table.schema}).get(table.id)
        except TableCannotContinue as error:
            name = f"{table.schema.database}.{table.schema.table}"
            reason = f"{name} cannot be computed at {self.ts}: {error.reason}"
            raise ConfigError(reason, setting="--at") from None

    def frame(self, table: Incarnation) -> "DataFrame | None":
        """Return a table's rows with their inexact texts in a map; None if waiting or paused."""
        if table.is_stopped:
            return None
        if self.why_spark(table) is not None:
            return self._read_in_workers(table)
        # Whoever needs no frame needs no Spark.
        from ticdc_assets.views.large_tables import make_frame

        rows = self.rows(table)
        return None if rows is None else make_frame(self.lake, rows, table)

    def _read_in_workers(
        self, table: Incarnation, rows_per_part: int = _ROWS_PER_PART
    ) -> "DataFrame | None":
        """Let Spark's workers read a table's rows; None for a table that never had any."""
        from ticdc_assets.views.large_tables import compute_rows, read_version

        id = table.id
        tables = self._open().choose(id)
        version = tables.find_version(id)
        if version is not None:
            return read_version(self.lake, table, version)
        if isinstance(tables, StoredTables):
            return None
        parts = -(-tables.count(id) // rows_per_part) if tables.can_be_split(id) else 1
        return compute_rows(self.lake, tables.describe(id), table, max(parts, 1))

    def count(self, table: Incarnation) -> int:
        """Return how many rows a table has at most."""
        return self._tables.count(table.id)

    def count_parts(self, table: Incarnation, rows_per_part: int = _ROWS_PER_PART) -> int:
        """Return in how many parts `read_part` reads a table."""
        tables = self._open().choose(table.id)
        if isinstance(tables, StoredTables) or not tables.can_be_split(table.id):
            return 1
        return max(-(-tables.count(table.id) // rows_per_part), 1)

    def read_part(self, table: Incarnation, number: int) -> Rows | None:
        """Read a part of a table's rows in this process; None for one that never had any."""
        id, parts = table.id, self.count_parts(table)
        tables: TableRows = self._open().choose(id)
        part = None
        if parts > 1:
            assert isinstance(tables, ComputedTables)
            tables, part = tables.describe(id), Part(number, parts)
        return tables.read({id: table.schema}, part).get(id)

    def frames(self) -> "dict[str, DataFrame]":
        """Return the rows of all tables that are not waiting or paused, by `db.table`."""
        named = {f"{t.schema.database}.{t.schema.table}": self.frame(t) for t in self.tables()}
        return {name: frame for name, frame in named.items() if frame is not None}

    def lines(self, table: Incarnation, *, by_key: bool = False) -> Iterator[bytes]:
        """Yield a table's rows as JSON lines, formatted like the reference model's; no kept ones.

        They come in byte order as there, or in the order of the table's key.
        """
        if self.why_spark(table) is not None:
            from ticdc_assets.views.large_tables import format_lines, leave_out_kept

            frame = self.frame(table)
            assert frame is not None
            if table.layout.archived:
                frame = leave_out_kept(frame)
            yield from format_lines(frame, table.schema, by_key=by_key)
            return
        rows = self.rows(table)
        there = None if rows is None else split_kept(rows).there
        lines = [] if there is None else format_columns(there.columns, table.schema)
        yield from sort_by_key(lines, table.schema) if by_key else sorted(lines)


def as_of(lake: LakeSession, ts: int | None = None, after: AsOfView | None = None) -> AsOfView:
    """Show the lake at a ts, by default the resolved ts of the last snapshot.

    `after`, a view of an earlier ts, has applied what is before that, so events after it remain.
    """
    reader = LakeReader(lake.location)
    last = read_snapshot(reader, find_newest_id(reader, reader.open("applied")))
    if ts is None:
        ts = last.ts
    require_in_range(reader, ts, last)
    below = find_base(reader, last, ts)
    base = last if below == last.snapshot_id else read_snapshot(reader, below)
    snapshots = below, last.snapshot_id

    def view(state: State, tables: TableRows, open: Callable[[], _OldTables]) -> AsOfView:
        return AsOfView(ts, state, lake, snapshots, KeptTables(tables), open)

    if base.ts == ts:
        stored = StoredTables(lake.location, base.versions, are_old=base is not last)
        opened = _OldTables(lake, last, ts, stored)
        return view(base.state, opened, lambda: opened)
    if after is not None and after.snapshots == snapshots and base.ts < after.ts <= ts:
        # All batches were applied up to the ts of the earlier view; a snapshot lacks later ones.
        start = Snapshot(after.state, last.batch, last.decoded_batch)
        state, tables = _compute(lake, start, last, ts, after._tables)
        later = _OldTables(lake, last, ts, tables)
        return view(state, later, cache(lambda: _open_computed(lake, base, last, ts)))
    state, tables = _compute(lake, base, last, ts)
    opened = _OldTables(lake, last, ts, tables)
    return view(state, opened, lambda: opened)


def _open_computed(lake: LakeSession, base: Snapshot, last: Snapshot, ts: int) -> "_OldTables":
    _, tables = _compute(lake, base, last, ts)
    return _OldTables(lake, last, ts, tables)


def _compute(
    lake: LakeSession, base: Snapshot, last: Snapshot, ts: int, earlier: TableRows | None = None
) -> tuple[State, ComputedTables]:
    """Plan the window from a snapshot to a ts; tables without a version start as `earlier`."""
    # Their modules import Spark, which whoever reads a snapshot does without.
    from ticdc_assets.lake.apply.control_events import read_control_events
    from ticdc_assets.lake.apply.window import prepare_window

    control = read_control_events(lake, base, last.batch)
    window = prepare_window(lake, base, control, ts, last.batch)
    # What is not known before the window begins in it: with the rows of a load, or without rows.
    start = StoredTables(lake.location, window.start.versions, earlier=earlier)
    return window.plan.state, ComputedTables(window.engine, window.plan.work, start)


class _OldTables:
    """The tables of an old snapshot, and of a ts after it, whose files may be gone.

    All events are there from the first one on, or from a fold, whose files are: so the rows can be
    computed from there.
    """

    def __init__(
        self, lake: LakeSession, last: Snapshot, ts: int, tables: StoredTables | ComputedTables
    ) -> None:
        self._lake = lake
        self._last = last
        self._ts = ts
        self._opened = tables

    def choose(self, id: str) -> StoredTables | ComputedTables:
        """Return what has the files that the rows of a table come from."""
        try:
            self._opened.require_files([id])
        except FilesGone:
            try:
                self._from_start.require_files([id])
            except FilesGone:
                # Those of a load: no event has its rows.
                raise self._explain(id) from None
            return self._from_start
        return self._opened

    def read(self, wanted: Mapping[str, TableSchema], part: Part | None = None) -> dict[str, Rows]:
        try:
            return self._opened.read(wanted, part)
        except FilesGone:
            found: dict[str, Rows] = {}
            for id, schema in wanted.items():
                found |= self.choose(id).read({id: schema}, part)
            return found

    def count(self, id: str) -> int:
        try:
            return self._opened.count(id)
        except FilesGone:
            return self.choose(id).count(id)

    def find_version(self, id: str) -> int | None:
        return self._opened.find_version(id)

    def require_files(self, ids: Collection[str]) -> None:
        for id in ids:
            self.choose(id)

    def _explain(self, id: str) -> ConfigError:
        """Make the error that names the oldest ts at which a loaded table can be shown."""
        reader = LakeReader(self._lake.location)
        table = f"current/{id}"
        oldest = next(
            row.ts
            for row in read_rows(reader, reader.open("applied"), 0)
            if id in row.versions and StoredRows(reader, table, row.versions[id]).has_files
        )
        name = self._last.state.incarnations[id].schema
        reason = (
            f"{name.database}.{name.table} began with a load, and maintain --retain-days has"
            f" removed its older rows: the oldest TSO that can be shown is {oldest}"
        )
        return ConfigError(reason, setting="--at")

    @cached_property
    def _from_start(self) -> ComputedTables:
        first = read_first_snapshot(LakeReader(self._lake.location))
        return _compute(self._lake, decide_as(first, self._last), self._last, self._ts)[1]
