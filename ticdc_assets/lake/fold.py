"""Fold the row events of a changefeed that are older than its owner wants to keep them.

`maintain` does so under the run lock.  A snapshot becomes the fold if it is old enough, if its
Delta versions are still there, and if nothing needs an event at or below its ts any more.  Versions
go sooner than events as a rule, so that snapshots are chosen ahead, a few in the time that events
are kept, and their versions remain until then.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import pyarrow.compute as pc

from ticdc_assets.errors import ConfigError
from ticdc_assets.events.tso_text import describe_ts
from ticdc_assets.lake.events.folded_events import count_folded, remove_folded
from ticdc_assets.lake.history.update import find_oldest_base
from ticdc_assets.lake.quarantine import find_first_open
from ticdc_assets.lake.rule_checks import require_same_rules
from ticdc_assets.log.applied_files import read_rows, read_snapshot, read_snapshot_names
from ticdc_assets.log.definitions import read_definitions
from ticdc_assets.log.fold_log import state_choice, state_fold
from ticdc_assets.log.folds import Fold, FoldedRows, Folds, read_folds
from ticdc_assets.log.loads import read_loads
from ticdc_assets.log.snapshot import Snapshot, list_valid_snapshots
from ticdc_assets.log.spans import list_spans
from ticdc_assets.log.stopped_names import list_stopped_names, list_stopped_tables
from ticdc_assets.protocols.registry import get_ordering
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import have_files

# A snapshot is chosen so often in the time that events are kept.
_CHOICES = 2


@dataclass(frozen=True)
class FoldResult:
    """What folding did; `held` says why it went no further, if something holds it back."""

    # The newest fold; None if there is none.
    fold: Fold | None = None
    # The row events that this maintenance has folded.
    folded: int = 0
    held: str | None = None


class _Need(NamedTuple):
    """What needs events: a snapshot must not be newer than this, by its number, batch or ts."""

    reason: str
    snapshot_id: int | None = None
    batch: int | None = None
    ts: int | None = None

    def allows(self, snapshot: "_Candidate") -> bool:
        limits = (
            (self.snapshot_id, snapshot.snapshot_id),
            (self.batch, snapshot.batch),
            (self.ts, snapshot.resolved_ts),
        )
        return all(limit is None or number <= limit for limit, number in limits)


class _Candidate(NamedTuple):
    """A snapshot that may become the fold; the columns have these names."""

    snapshot_id: int
    committed_at: datetime
    resolved_ts: int
    batch: int


# Parameters: the lake and its last snapshot; how long events and Delta versions are kept.
def fold_events(
    lake: LakeSession, applied: Snapshot, days: float | None, retain_days: float, now: datetime
) -> FoldResult:
    """Fold row events that are older than some days; None: only go on with what was begun."""
    return _Folding(lake, applied, now).run(days, retain_days)


class _Folding:
    def __init__(self, lake: LakeSession, applied: Snapshot, now: datetime) -> None:
        self._lake = lake
        self._applied = applied
        self._now = now
        self._reader = LakeReader(lake.location)

    def run(self, days: float | None, retain_days: float) -> FoldResult:
        folds = read_folds(self._reader)
        if folds.has_leftovers:
            self._remove(folds.newest)
        counts: list[FoldedRows] = []
        held = None
        if days is not None:
            candidates = self._list_candidates(folds, retain_days)
            old_enough = self._now - timedelta(days=days)
            snapshot, held = self._choose(
                [each for each in candidates if each.committed_at <= old_enough]
            )
            if snapshot is not None:
                counts = self._fold(snapshot)
            if days > retain_days:
                self._choose_ahead(candidates, days)
        newest = read_folds(self._reader).newest
        folded = sum(each.rows for each in counts)
        return FoldResult(newest if newest.snapshot_id else None, folded, held)

    def _list_candidates(self, folds: Folds, retain_days: float) -> list[_Candidate]:
        """List snapshots that may become the fold, newest first: valid ones whose files remain."""
        opened = self._reader.open("applied")
        rows = self._reader.read(opened, _Candidate._fields).to_pylist()
        known = {row["snapshot_id"]: _Candidate(**row) for row in rows}
        began = self._now - timedelta(days=retain_days)
        older = [id for id, each in known.items() if each.committed_at <= began]
        kept = (known.keys() - set(older)) | {max(older, default=0)}
        valid = {
            name.snapshot_id for name in list_valid_snapshots(read_snapshot_names(self._reader))
        }
        possible = (kept | set(folds.chosen)) & valid
        newest = folds.newest.snapshot_id
        return [known[id] for id in sorted(possible, reverse=True) if id > newest]

    def _choose(self, candidates: Sequence[_Candidate]) -> tuple[Snapshot | None, str | None]:
        """Choose the newest snapshot that nothing forbids; say what forbids a newer one."""
        if not candidates:
            return None, None
        needs, held = list(self._list_needs()), None
        for each in candidates:
            need = next((need for need in needs if not need.allows(each)), None)
            if need is not None:
                held = held or need.reason
                continue
            snapshot = read_snapshot(self._reader, each.snapshot_id)
            if snapshot.ts and have_files(self._reader, snapshot.versions, snapshot.versions):
                return snapshot, held
        return None, held

    def _list_needs(self) -> Iterator[_Need]:
        """List what still needs events."""
        lake, applied, state = self._lake, self._applied, self._applied.state
        try:
            require_same_rules(lake.feed, lake.location, applied)
        except ConfigError as error:
            yield _Need(str(error), snapshot_id=0)
        for table in list_stopped_tables(state):
            if not table.is_replaced:
                name = f"{table.schema.database}.{table.schema.table}"
                status = table.status_before_drop or table.status
                reason = f"{name} is {status} since {describe_ts(table.complete_ts or 0)}"
                yield _Need(reason, snapshot_id=table.stopped_snapshot_id or 0)
        for unknown in state.unknown_tables:
            reason = f"{unknown.database}.{unknown.table} has rows, and no schema is known"
            yield _Need(reason, snapshot_id=unknown.stopped_snapshot_id)
        for files in state.undecoded_files:
            reason = f"files of {files.database}.{files.table} wait to be decoded"
            yield _Need(reason, ts=files.version - 1)
        yield _Need("files wait to be decoded", batch=applied.decoded_batch)
        for load in read_loads(self._reader, state.incarnations):
            reason = f"a load of {load.schema.database}.{load.schema.table} is not applied yet"
            yield _Need(reason, ts=load.ts - 1)
        for definition in read_definitions(self._reader, state.definitions):
            yield _Need("a definition from upstream is not applied yet", ts=definition.ts)
        first = find_first_open(self._reader)
        if first is not None:
            reason = f"a row of {first.name} is quarantined: see ticdc-assets quarantine"
            yield _Need(reason, ts=first.commit_ts - 1)
        oldest = find_oldest_base(lake)
        if oldest is not None:
            yield _Need(f"{oldest.name} is not up to date", snapshot_id=oldest.snapshot_id)

    def _fold(self, snapshot: Snapshot) -> list[FoldedRows]:
        """Let a snapshot be the fold, and remove what it covers, unless that is nothing."""
        fold = self._describe(snapshot)
        tables = self._reader.open_all(("schema_history",))
        rows = read_rows(self._reader, self._reader.open("applied"), 0)
        stopped = list_stopped_names(tables, self._applied.state)
        counts = count_folded(self._reader, fold, list_spans(rows), stopped)
        if not counts:
            return counts
        # From here on it counts.
        state_fold(self._lake, fold, counts)
        self._remove(fold)
        return counts

    def _describe(self, snapshot: Snapshot) -> Fold:
        """Say what the fold at a snapshot covers."""
        events, batch, ts = self._reader.open("events"), pc.field("batch"), pc.field("commit_ts")
        last = self._applied.batch
        is_row = pc.field("kind") == "row"
        # Whether a sender has gone back in a batch, only all of its rows show.
        ahead = is_row & (ts > snapshot.ts) & (batch <= snapshot.batch)
        first = pc.min(self._reader.read(events, ["batch"], ahead)["batch"]).as_py()
        whole = snapshot.batch if first is None else first - 1
        through = snapshot.ts
        if get_ordering(self._lake.feed) == "milliseconds":
            # What came later is compared with what is as old, and has no counter.
            before = read_folds(self._reader).newest
            later = is_row & (ts <= snapshot.ts) & (batch > snapshot.batch) & (batch <= last)
            later &= ~before.is_below(pc.field)
            times = self._reader.read(events, ["commit_ts"], later)["commit_ts"]
            least = pc.min(times).as_py()
            through = min(through, snapshot.ts if least is None else least) - 1
        return Fold(snapshot.snapshot_id, snapshot.ts, through, whole, last)

    def _remove(self, fold: Fold) -> None:
        remove_folded(self._lake.location, fold)
        state_fold(self._lake, fold, (), "removed")

    def _choose_ahead(self, candidates: Sequence[_Candidate], days: float) -> None:
        """Choose the last snapshot for later, unless one was chosen lately."""
        chosen = read_folds(self._reader).chosen
        times = [each.committed_at for each in candidates if each.snapshot_id in chosen]
        since = self._now - timedelta(days=days / _CHOICES)
        if self._applied.snapshot_id not in chosen and all(at <= since for at in times):
            state_choice(self._lake, self._applied)
