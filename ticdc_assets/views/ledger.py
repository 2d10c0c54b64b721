"""The ledger: a recount of every input of the lake against what became of it.

Row events, per table name:

    input        rows in `events`, with what is left of erased ones, and those that folds have
                 removed from there
    applied      they decide what a row is at the end of their window, by the counts of `applied`;
                 a replay's counts replace those of the windows that it replayed
    superseded   a later event of the same window decides the row, or a load has replaced a table
                 that had stopped before
    quarantined  they could not be applied and are in the quarantine
    waiting      not in any window yet: beyond the applied ts or batch, or of a table that is
                 waiting or paused, or was when it was dropped
    repeated     they arrived late and had arrived before, so they change nothing; of the rows in no
                 window, at most as many as there are such events count as repeated
    erased       of rows in no window, at most as many as were erased; others that were erased are
                 what they were before, until a replay reads the rows without them
    missing      input less all of these; negative if more was applied than arrived
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from ticdc_assets.lake.events.erased_events import KIND
from ticdc_assets.log.applied_files import read_rows
from ticdc_assets.log.applied_row import RowCounts, TableCounts
from ticdc_assets.log.folds import read_folds
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.log.spans import Span, find_span, list_spans
from ticdc_assets.log.stopped_names import list_stopped_names, list_stopped_tables
from ticdc_assets.store.contracts import EVENT_IDENTITY
from ticdc_assets.store.event_rows import make_table_name
from ticdc_assets.store.reader import LakeNotFound, LakeReader, count_by
from ticdc_assets.views.source_ledger import IS_ROW, SourceCount, SourceLedger


@dataclass(frozen=True)
class TableLedger:
    """What became of the row events of one name."""

    name: str
    input: int
    applied: int
    superseded: int
    quarantined: int
    waiting: int
    repeated: int
    erased: int
    missing: int

    @property
    def adds_up(self) -> bool:
        return self.missing == 0


@dataclass(frozen=True)
class Ledger:
    """The ledger of a changefeed."""

    source: SourceLedger
    tables: list[TableLedger]
    # Tables with rows upstream that were never input, and why.
    partial: list[tuple[str, str]]

    @property
    def adds_up(self) -> bool:
        return self.source.adds_up and all(table.adds_up for table in self.tables)


def build_ledger(reader: LakeReader, applied: Snapshot) -> Ledger:
    """Recount all input up to a snapshot."""
    return _Ledger(reader, applied).run()


class _Ledger:
    def __init__(self, reader: LakeReader, applied: Snapshot) -> None:
        self._applied = applied
        # First: a load quarantines rows before it states how many.
        self._unloaded = _count_unloaded(reader)
        self._tables = reader.open_all(("events", "raw", "quarantine", "schema_history"))
        self._read = self._tables.read
        self._rows = read_rows(reader, reader.open("applied"), 0, applied.snapshot_id)
        self._folds = read_folds(reader)
        # Whether a fold has removed an event, or is about to: its counts have it.
        self._is_there = IS_ROW & ~self._folds.newest.covers(pc.field)

    def run(self) -> Ledger:
        counts, ahead = self._counts()
        input, waiting, replaced = self._input_and_waiting()
        gone = count_by("name", self._read("events", "name", where=pc.field("kind") == KIND))
        input = {name: input.get(name, 0) + gone.get(name, 0) for name in {*input, *gone}}
        late, strange = self._late()
        tables = []
        for name in sorted({*input, *counts}):
            rows = counts.get(name, RowCounts())
            arrived = input.get(name, 0)
            waits, over = (
                found.get(name, 0) - ahead.get((name, is_replaced), 0)
                for found, is_replaced in ((waiting, False), (replaced, True))
            )
            unread = arrived - waits - over - rows.read
            repeated = min(max(unread, 0), late.get(name, 0))
            erased = min(max(unread - repeated, 0), gone.get(name, 0))
            # A window's own sum has to be right too.
            outcomes = rows.applied + rows.superseded + rows.quarantined
            missing = unread - repeated - erased or rows.read - outcomes or strange.get(name, 0)
            tables.append(
                TableLedger(
                    *(name, arrived, rows.applied, rows.superseded + over, rows.quarantined),
                    *(waits, repeated, erased, missing),
                )
            )
        quarantined = sum(rows.quarantined for rows in counts.values())
        source = SourceCount(self._tables, self._applied).run(quarantined, self._unloaded)
        return Ledger(source, tables, self._partial())

    def _counts(self) -> tuple[dict[str, RowCounts], dict[tuple[str, bool], int]]:
        """Return per name the counts that no replay replaced.

        And how many of these rows a stopped table had read in the window in which it stopped, by
        the name and whether a load has replaced the table.
        """
        standing: list[tuple[int, TableCounts]] = []
        for row in self._rows:
            if row.replayed_from is not None:
                replaced = {count.incarnation for count in row.counts}
                standing = [
                    (id, count)
                    for id, count in standing
                    if not (count.incarnation in replaced and id > row.replayed_from)
                ]
            standing += [(row.snapshot_id, count) for count in row.counts]
        stops = {table.id: table for table in list_stopped_tables(self._applied.state)}
        sums: dict[str, RowCounts] = defaultdict(RowCounts)
        ahead: dict[tuple[str, bool], int] = defaultdict(int)
        for snapshot_id, count in standing:
            sums[count.name] += count.rows
            table = stops.get(count.incarnation)
            if table is not None and snapshot_id > (table.stopped_snapshot_id or 0):
                ahead[count.name, table.is_replaced] += count.rows.read
        return sums, ahead

    def _partial(self) -> list[tuple[str, str]]:
        return sorted(
            (make_table_name(table.schema.database, table.schema.table) or "", reason)
            for table in self._applied.state.incarnations.values()
            if (reason := table.partial_reason) is not None and table.status != "dropped"
        )

    def _input_and_waiting(self) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        """Count, by name, all rows, those that wait, and those that a load has replaced."""
        is_later = (pc.field("commit_ts") > self._applied.ts) | (
            pc.field("batch") > self._applied.batch
        )
        waits, is_replaced = is_later, pc.scalar(False)
        for name, after, through, by_load in list_stopped_names(self._tables, self._applied.state):
            is_beyond = (pc.field("commit_ts") > after) & (pc.field("commit_ts") <= through)
            if by_load:
                is_replaced |= (pc.field("name") == name) & is_beyond & ~is_later
            else:
                waits |= (pc.field("name") == name) & is_beyond
        input, waiting, replaced = (
            count_by("name", self._read("events", "name", where=where))
            for where in (self._is_there, IS_ROW & waits, self._is_there & is_replaced)
        )
        for name, folded in self._folds.removed.items():
            input[name] = input.get(name, 0) + folded.rows
            replaced[name] = replaced.get(name, 0) + folded.superseded
        return input, waiting, replaced

    def _late(self) -> tuple[dict[str, int], dict[str, int]]:
        """Count late events per name: those that arrived before, and those that are new.

        New ones that a run has replayed are left out.
        """
        spans, fold = list_spans(self._rows), self._folds.newest
        repeated: dict[str, int] = defaultdict(int)
        for name, folded in self._folds.removed.items():
            repeated[name] = folded.repeated
        new: dict[str, int] = defaultdict(int)
        first_batches: dict[tuple[Any, ...], int] = {}
        late = self._read_late_and_equal(spans)
        for row in late:
            event = _identify(row)
            first_batches[event] = min(row["batch"], first_batches.get(event, row["batch"]))
        for row in late:
            span = find_span(spans, row["commit_ts"])
            if span is None or row["batch"] <= span.batch:
                continue
            if row["commit_ts"] <= fold.through_ts:
                # What it repeats is gone; a later one is in the quarantine.
                repeated[row["name"]] += row["batch"] <= fold.applied_batch
            elif first_batches[_identify(row)] < row["batch"]:
                repeated[row["name"]] += 1
            elif row["ordering"] == "commit_ts" and not span.is_replayed:
                # Rows ordered by milliseconds are applied when they arrive, so they are never late.
                new[row["name"]] += 1
        return repeated, new

    def _read_late_and_equal(self, spans: Sequence[Span]) -> list[dict[str, Any]]:
        """Read the late row events, and others of their commit ts."""
        considered = (
            self._is_there
            & (pc.field("ordering") != "table_version")
            & (pc.field("batch") <= self._applied.batch)
        )
        keys = self._read("events", "commit_ts", "batch", where=considered)
        pairs = zip(keys["commit_ts"].to_pylist(), keys["batch"].to_pylist(), strict=True)
        late = {ts for ts, batch in pairs if (span := find_span(spans, ts)) and batch > span.batch}
        if not late:
            return []
        of_late = considered & pc.field("commit_ts").isin(sorted(late))
        found = self._read("events", *EVENT_IDENTITY, "batch", "ordering", where=of_late)
        return list(found.to_pylist())


def _count_unloaded(reader: LakeReader) -> int:
    """Count the rows that loads could not read."""
    try:
        rows = reader.read(reader.open("loads"), ["quarantined"])
    except LakeNotFound:
        # An older release created the lake.
        return 0
    return pc.sum(rows["quarantined"]).as_py() or 0


def _identify(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in EVENT_IDENTITY)
