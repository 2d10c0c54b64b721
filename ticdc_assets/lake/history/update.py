"""Bring the histories and changes of a lake to its last snapshot, from the events since.

Each follows its current table.  This stage updates it when a snapshot names another Delta version
of the current table or counts events of it, and when that table was dropped or recovered.  An
update starts from the last snapshot that the history or the changes show; after a replay, from the
snapshot where the replay started, and it computes again what came later.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Lock
from typing import NamedTuple

from ticdc_assets.changefeed.table_pattern import match_table
from ticdc_assets.lake.apply.control_events import read_control_events
from ticdc_assets.lake.apply.engine import Engine
from ticdc_assets.lake.apply.pending_rows import EventFiles, PendingRows, Window
from ticdc_assets.lake.apply.table_errors import TABLE_ERRORS, find_pause_reason
from ticdc_assets.lake.apply.window import PreparedWindow, prepare_window
from ticdc_assets.lake.history.changes_table import ChangesTable
from ticdc_assets.lake.history.changes_update import ChangesUpdate
from ticdc_assets.lake.history.history_table import HistoryTable
from ticdc_assets.lake.history.history_update import HistoryUpdate
from ticdc_assets.lake.history.marks import UpdateMark
from ticdc_assets.lake.history.table_update import Sized
from ticdc_assets.lake.history.version_runs import run_tasks
from ticdc_assets.lake.history.version_tasks import VersionsDone
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.log.applied_files import read_rows, read_snapshot
from ticdc_assets.log.applied_row import AppliedRow
from ticdc_assets.log.folds import find_valid_snapshot, read_fold
from ticdc_assets.log.snapshot import Snapshot, decide_as
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import FilesGone
from ticdc_assets.store.work_size import sized_for
from ticdc_assets.stream.problem import Problem

_Update = HistoryUpdate | ChangesUpdate
_Stored = HistoryTable | ChangesTable
# Called after each table with how many are done, and how many there are.
Progress = Callable[[int, int], None]
# A table without changes is marked anew after this many snapshots: each update reads those since
# the oldest mark.
_MOST_SNAPSHOTS = 1_000
_BELOW = "it ends below {}, so changes since then are gone: delete its folder to begin anew there"


def update_histories(
    lake: LakeSession, last: Snapshot, progress: Progress | None = None
) -> list[Problem]:
    """Update the tables that the changefeed declares; return why others are not complete.

    `last` is the lake's last snapshot.
    """
    wanted = _list_wanted(lake, last)
    if not wanted:
        return []
    updates = _Updates(lake, last, [stored.mark for _, stored in wanted])
    planned = [updates.plan(table, stored) for table, stored in wanted]
    outdated = [each for each in planned if isinstance(each, HistoryUpdate | ChangesUpdate)]
    problems = [each for each in planned if isinstance(each, Problem)]
    small = all(update.is_small for update in outdated)
    with sized_for(lake, small=small):
        for done, problem in enumerate(updates.run(outdated), 1):
            problems += [] if problem is None else [problem]
            if progress is not None:
                progress(done, len(outdated))
    return problems


class OldestBase(NamedTuple):
    """The table of versions that goes on from the oldest snapshot; one that is new, from 0."""

    name: str
    snapshot_id: int


def find_oldest_base(lake: LakeSession) -> OldestBase | None:
    """Find from where the next update goes on; None if the changefeed declares no history."""
    last = read_last_snapshot(lake)
    wanted = _list_wanted(lake, last)
    updates = _Updates(lake, last, [stored.mark for _, stored in wanted])
    found = []
    for table, stored in wanted:
        base_id = 0 if stored.mark is None else find_base(updates.rows, table.id, stored.mark)
        name = f"{stored.folder} of {table.schema.database}.{table.schema.table}"
        found.append(OldestBase(name, base_id))
    return min(found, key=lambda each: each.snapshot_id, default=None)


def _list_wanted(lake: LakeSession, last: Snapshot) -> list[tuple[Incarnation, _Stored]]:
    """List the histories and changes that the changefeed declares, of tables that have rows."""
    feed = lake.feed
    if not feed.history and not feed.changes:
        return []
    tables = [
        table
        for id in last.versions
        if (table := last.state.incarnations[id]).status in ("live", "dropped")
        and table.status_before_drop is None
    ]
    wanted = [
        (table, kind)
        for kind, patterns in ((HistoryTable, feed.history), (ChangesTable, feed.changes))
        for table in tables
        if match_table(patterns, table.schema.database, table.schema.table)
    ]
    with ThreadPoolExecutor() as pool:
        stored = pool.map(lambda each: each[1](lake, each[0].id), wanted)
        return [(table, each) for (table, _), each in zip(wanted, stored, strict=True)]


class _Updates:
    def __init__(
        self, lake: LakeSession, last: Snapshot, marks: Iterable[UpdateMark | None]
    ) -> None:
        self._lake = lake
        self._last = last
        self._windows: dict[int, tuple[Snapshot, PreparedWindow | None]] = {}
        self._lock = Lock()
        reader = LakeReader(lake.location)
        # Whatever has to be computed from the first event on begins with it.
        self._first = read_fold(reader)
        oldest = min((mark.snapshot_id for mark in marks if mark), default=last.snapshot_id)
        self.rows = read_rows(reader, reader.open("applied"), oldest)

    def plan(self, table: Incarnation, stored: _Stored) -> _Update | Problem | None:
        """Choose the snapshot to start from, and prepare the window from there, once for all.

        None if the table shows the last snapshot; a problem if what it has to go on with is gone.
        """
        last, mark = self._last, stored.mark
        goal = UpdateMark(last.snapshot_id, last.ts, last.versions[table.id], table.dropped_ts)
        base_id = self._first.snapshot_id
        if mark is not None:
            base_id = find_base(self.rows, table.id, mark)
            is_same = base_id == last.snapshot_id and mark.dropped_ts == goal.dropped_ts
            if is_same and last.snapshot_id - mark.snapshot_id < _MOST_SNAPSHOTS:
                return None
            if base_id < self._first.snapshot_id:
                name = table.schema.database, table.schema.table
                return Problem(stored.folder, _BELOW.format(self._first.describe()), *name, mark.ts)
            base_id = find_valid_snapshot(self._lake, base_id)
        window = self._open_window(base_id)
        if isinstance(stored, HistoryTable):
            return HistoryUpdate(table, stored, goal, *window)
        return ChangesUpdate(table, stored, goal, *window)

    def _open_window(self, base_id: int) -> tuple[Snapshot, PreparedWindow | None]:
        with self._lock:
            if base_id not in self._windows:
                self._windows[base_id] = self._prepare(base_id)
            return self._windows[base_id]

    def _prepare(self, base_id: int) -> tuple[Snapshot, PreparedWindow | None]:
        lake, last, reader = self._lake, self._last, LakeReader(self._lake.location)
        base = read_snapshot(reader, base_id)
        is_first = base_id == self._first.snapshot_id
        if (base.ts, base.batch) == (last.ts, last.batch) and not is_first:
            return base, None
        base = decide_as(base, last)
        control = read_control_events(lake, base, last.batch, last.state.undecoded_files)
        # Other DDLs of the snapshot's own ts are for the next window.
        ddls = tuple(ddl for ddl in control.ddls if last.state.has_applied(ddl))
        control = replace(control, ddls=ddls)
        return base, prepare_window(lake, base, control, last.ts, last.batch)

    def run(self, updates: Sequence[_Update]) -> Iterator[Problem | None]:
        """Update tables; yield for each why that is not possible, or None."""
        with ThreadPoolExecutor() as pool:
            prepared = list(pool.map(self._prepare_update, updates))
        by_window: dict[int, list[_Prepared]] = defaultdict(list)
        for each in prepared:
            if each.sized is None:
                yield each.problem
            else:
                by_window[each.update.base.snapshot_id].append(each)
        for group in by_window.values():
            yield from self._run_window(group)

    def _prepare_update(self, update: _Update) -> "_Prepared":
        """Undo what a killed run left, and plan the task; update what needs none."""
        update.stored.undo_strays()
        try:
            if update.way == "advance":
                update.advance()
                return _Prepared(update)
            try:
                return _Prepared(update, update.size_task())
            except FilesGone:
                # Maintenance has removed files of a current table, which older events make again.
                base, window = self._open_window(self._first.snapshot_id)
                update = replace(update, base=base, window=window)
                return _Prepared(update, update.size_task())
        except TABLE_ERRORS as error:
            return _Prepared(update, problem=_explain(update, error))

    def _run_window(self, prepared: Sequence["_Prepared"]) -> Iterator[Problem | None]:
        """Update the tables that go through one window."""
        window = prepared[0].update.window
        engine = _make_idle_engine(self._lake) if window is None else window.engine
        updates = {each.update.stored.name: each.update for each in prepared}
        tasks = [each.sized for each in prepared if each.sized is not None]

        def commit(done: VersionsDone) -> Problem | None:
            update = updates[done.name]
            if done.stopped is not None:
                return _describe(update, done.stopped)
            try:
                update.commit(done)
            except TABLE_ERRORS as error:
                return _explain(update, error)
            return None

        with ThreadPoolExecutor() as pool:
            yield from pool.map(commit, run_tasks(self._lake, engine, tasks))


@dataclass(frozen=True)
class _Prepared:
    """An update, and its task; or why it is not possible, if it is not done."""

    update: _Update
    sized: Sized | None = None
    problem: Problem | None = None


def _explain(update: _Update, error: Exception) -> Problem:
    """Return why an update is not possible; raise an error that is not about its table."""
    reason = find_pause_reason(error)
    if reason is None:
        raise error
    return _describe(update, reason)


def _describe(update: _Update, reason: str) -> Problem:
    schema = update.table.schema
    return Problem(update.stored.folder, reason, schema.database, schema.table, update.base.ts)


def _make_idle_engine(lake: LakeSession) -> Engine:
    """Make the engine of a window in which nothing happens."""
    nothing = PendingRows(lake.location, Window(0, 0, 0, 0), EventFiles(), EventFiles())
    return Engine(lake.location, nothing, None, updates_split=True)


def find_base(rows: Iterable[AppliedRow], id: str, mark: UpdateMark) -> int:
    """Return the last snapshot that a table shows, or from which a replay has led off."""
    base_id, is_same = mark.snapshot_id, True
    for row in rows:
        if row.snapshot_id <= mark.snapshot_id:
            continue
        is_same = is_same and not _changes(row, id, mark)
        if is_same:
            base_id = row.snapshot_id
        elif row.replayed_from is not None:
            base_id = min(base_id, row.replayed_from)
    return base_id


def _changes(row: AppliedRow, id: str, mark: UpdateMark) -> bool:
    """Whether a table changed in a snapshot; rows that came and went leave the Delta version."""
    is_other = row.versions.get(id, mark.version) != mark.version
    return is_other or any(count.incarnation == id and count.rows.read for count in row.counts)
