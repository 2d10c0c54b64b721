"""Read DDLs, bootstraps and watermarks of new batches, and compute the resolved ts."""

import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc
from msgspec.structs import replace

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import LostRecords
from ticdc_assets.events import (
    Bootstrap,
    FilePosition,
    SchemaChange,
    TableSchema,
    TopicPosition,
    Watermark,
    tso,
)
from ticdc_assets.lake.raw.ingest_records import read_known_partitions
from ticdc_assets.log.definitions import read_definitions
from ticdc_assets.log.folds import Fold, read_fold
from ticdc_assets.log.loads import find_covered_ts, read_loads
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.definitions import Definition
from ticdc_assets.plan.gaps import end_gap
from ticdc_assets.plan.load import Load
from ticdc_assets.plan.row_group import UndecodedFiles
from ticdc_assets.plan.state import Gap, State, ddl_name
from ticdc_assets.store.event_rows import make_table_name, read_statements
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader, OpenTables
from ticdc_assets.stream.resolved_ts import ResolvedTsTracker, WatermarkState

# A row of `events`, by column.
Row = Mapping[str, Any]
# A row and the event that it states.
_Statement = tuple[Row, SchemaChange | Bootstrap]


@dataclass(frozen=True)
class ControlEvents:
    """The control events since a snapshot, up to and including a batch."""

    # At the snapshot's ts or later, in order of arrival.
    ddls: tuple[SchemaChange, ...]
    # Each with the earliest ts from which its table has this schema.
    bootstraps: tuple[tuple[int, Bootstrap], ...]
    # DDLs that arrived after their commit ts was applied, and for the first time.
    late_ddls: tuple[SchemaChange, ...]
    watermark_state: WatermarkState
    watermarks: dict[str, int]
    resolved_ts: int
    # The version of `events` that has them, and below which ts its row events are gone.
    events: OpenTables
    fold: Fold
    # DDLs of the resolved ts itself may still arrive.
    more_may_come: bool
    # Files of these batches that could not be decoded yet.
    undecoded_files: tuple[UndecodedFiles, ...] = ()
    # Records of topics that are gone, now or earlier.
    gaps: tuple[Gap, ...] = ()
    # At a later ts than the snapshot's.
    loads: tuple[Load, ...] = ()
    # Loads of a ts that was applied already.
    late_loads: tuple[Load, ...] = ()
    # At the snapshot's ts or later, and before; those that it has not got yet.
    definitions: tuple[Definition, ...] = ()
    late_definitions: tuple[Definition, ...] = ()
    # The changefeed has every change after this ts, as far as loads need to know.
    covered_from: int = 0


def read_control_events(
    lake: LakeSession,
    since: Snapshot,
    batch: int,
    undecoded_files: Collection[UndecodedFiles] = (),
    *,
    only_new: bool = False,
) -> ControlEvents:
    """Read the control events that arrived since a snapshot.

    Before anything is applied, they are those of all batches, as earlier ones may have been decoded
    again; but not with `only_new`, since reading them in every run would cost ever more.
    """
    reader = LakeReader(lake.location)
    events = reader.open_all(["events"])
    begins = not (since.ts or only_new)
    after = 0 if begins else since.batch
    is_new = (pc.field("batch") > after) & (pc.field("batch") <= batch)
    rows = _read_control_rows(events, is_new, since, batch)
    stating = _read_statements(rows)
    ddls = [change for _, change in stating if isinstance(change, SchemaChange)]
    late = [ddl for ddl in ddls if ddl.commit_ts < since.ts]
    tracker = ResolvedTsTracker(lake.feed)
    tracker.restore(since.state.watermarks)
    tracker.observe(_read_watermark(row) for row in rows if _is_new_watermark(row, after))
    tracker.observe(change for _, change in stating)
    _observe_senders(tracker, lake.feed, events, is_new)
    partitions = read_known_partitions(lake) if lake.feed.transport == "kafka" else {}
    if partitions:
        tracker.expect_partitions(partitions)
    resolved_ts, more_may_come = tracker.resolved_ts, lake.feed.transport != "storage"
    if resolved_ts is None:
        # The stream has no watermarks, so everything that has arrived counts as complete.
        stated = events.read("events", "commit_ts", where=is_new & _is_of("row", "ddl"))
        resolved_ts, more_may_come = pc.max(stated["commit_ts"]).as_py() or 0, False
    return ControlEvents(
        ddls=tuple(ddl for ddl in ddls if ddl.commit_ts >= since.ts),
        bootstraps=tuple(_date_bootstraps(stating, since.state)),
        late_ddls=tuple(_select_first_arrivals(late, events, since.batch)),
        watermark_state=tracker.state(),
        watermarks=tracker.watermarks,
        resolved_ts=max(resolved_ts, since.ts),
        events=events,
        fold=read_fold(reader),
        more_may_come=more_may_come,
        undecoded_files=tuple(undecoded_files),
        gaps=_find_gaps(rows, () if begins else since.state.gaps, partitions),
        **_read_loads(reader, lake.feed, since),
        **find_definitions(lake, since.state),
    )


def _read_loads(reader: LakeReader, feed: Changefeed, since: Snapshot) -> dict[str, Any]:
    loads = read_loads(reader, since.state.incarnations)
    return {
        "loads": tuple(load for load in loads if load.ts > since.ts),
        "late_loads": tuple(load for load in loads if load.ts <= since.ts),
        "covered_from": find_covered_ts(reader, feed) if loads else 0,
    }


def find_definitions(lake: LakeSession, state: State) -> dict[str, Any]:
    """Find the definitions that a state has not got yet."""
    new = read_definitions(LakeReader(lake.location), state.definitions)
    return {
        "definitions": tuple(each for each in new if each.ts >= state.ts),
        "late_definitions": tuple(each for each in new if each.ts < state.ts),
    }


def _read_control_rows(
    events: OpenTables, is_new: pc.Expression, since: Snapshot, batch: int
) -> list[Row]:
    """Read the new control events, and known DDLs that the window may have to apply."""
    is_gap = _is_of("quarantined") & (pc.field("error") == LostRecords.__name__)
    is_control = _is_of("ddl", "bootstrap", "watermark") | is_gap
    is_ddl_ahead = _is_of("ddl") & (pc.field("commit_ts") >= since.ts)
    is_known = pc.field("batch") <= batch
    rows = events.read(
        "events",
        *("kind", "batch", "seq", "index", "commit_ts", "source", "partition", "number"),
        "statement",
        where=is_control & (is_new | (is_ddl_ahead & is_known)),
    ).to_pylist()
    return sorted(rows, key=lambda row: (row["seq"], row["index"]))


def _is_of(*kinds: str) -> pc.Expression:
    return pc.field("kind").isin(kinds)


def _find_gaps(
    rows: Sequence[Row], known: Sequence[Gap], partitions: Collection[tuple[str, int]]
) -> tuple[Gap, ...]:
    """Return all gaps of the topics, each up to the first watermark after it, if there is one.

    A partition that brokers have no more sends none: nothing in it was committed after now.
    """
    gaps = list(known)
    for row in rows:
        if row["kind"] == "quarantined":
            topic, _, partition = row["source"].rpartition("-")
            gaps.append(Gap(topic, int(partition), row["seq"], row["statement"]))
        elif row["kind"] == "watermark" and gaps:
            place = row["source"], row["partition"]
            gaps = [end_gap(gap, place, row["seq"], row["commit_ts"]) for gap in gaps]
    now = tso.compose(int(time.time() + tso.CLOCK_ERROR.total_seconds()) * 1000)
    return tuple(
        replace(gap, until=now)
        if gap.until is None and partitions and (gap.topic, gap.partition) not in partitions
        else gap
        for gap in gaps
    )


def _read_statements(rows: Sequence[Row]) -> list[_Statement]:
    stating = [row for row in rows if row["kind"] in ("ddl", "bootstrap")]
    return list(zip(stating, read_statements(stating), strict=True))


def _is_new_watermark(row: Row, after: int) -> bool:
    return bool(row["kind"] == "watermark" and row["batch"] > after)


def _read_watermark(row: Row) -> Watermark:
    if row["partition"] is None:
        return Watermark(ts=row["commit_ts"], position=FilePosition(row["source"]))
    position = TopicPosition(row["source"], row["partition"], row["number"])
    return Watermark(ts=row["commit_ts"], position=position)


def _observe_senders(
    tracker: ResolvedTsTracker, feed: Changefeed, events: OpenTables, is_new: pc.Expression
) -> None:
    """Tell the tracker which partitions sent rows: each of them owes a watermark."""
    if feed.transport == "storage":
        return
    sender = ("source", "partition", "database", "table")
    rows = events.read("events", *sender, "commit_ts", where=is_new & _is_of("row"))
    first = rows.group_by(sender).aggregate([("commit_ts", "min")])
    for row in first.select([*sender, "commit_ts_min"]).to_pylist():
        tracker.observe_rows(*row.values())


def _date_bootstraps(stating: Sequence[_Statement], state: State) -> list[tuple[int, Bootstrap]]:
    """Date each bootstrap: after everything that its sender had sent before.

    A schema stated twice keeps its first date.
    """
    sent: dict[tuple[str, int], int] = defaultdict(int)
    for topic, watermarks in state.watermarks.watermarks.items():
        for partition, ts in watermarks.items():
            sent[topic, partition] = ts
    bootstraps: dict[object, tuple[int, Bootstrap]] = {}
    for row, change in stating:
        sender = row["source"], row["partition"]
        if isinstance(change, SchemaChange):
            sent[sender] = max(sent[sender], change.commit_ts)
            continue
        schema = change.schema
        is_file = isinstance(change.position, FilePosition)
        ts = (schema.version or 0) if is_file else sent[sender]
        name = make_table_name(schema.database, schema.table), schema.version
        bootstraps.setdefault(name, (max(ts, state.ts + 1), change))
    return list(bootstraps.values())


def _select_first_arrivals(
    ddls: Sequence[SchemaChange], events: OpenTables, batch: int
) -> list[SchemaChange]:
    """Select the DDLs that had not arrived up to a batch already."""
    if not ddls:
        return []
    of_same_ts = pc.field("commit_ts").isin(sorted({ddl.commit_ts for ddl in ddls}))
    is_before = _is_of("ddl") & (pc.field("batch") <= batch) & of_same_ts
    before = events.read("events", "kind", "statement", where=is_before)
    known = read_statements(before.to_pylist())
    names = {(c.commit_ts, ddl_name(c)) for c in known if isinstance(c, SchemaChange)}
    return [ddl for ddl in ddls if (ddl.commit_ts, ddl_name(ddl)) not in names]


class StatedSchemas:
    """Finds the schemas that messages and files stated for table versions, at any time."""

    def __init__(self, control: ControlEvents) -> None:
        self._events = control.events
        self._schemas: dict[tuple[str | None, int | None], TableSchema | None] = {}
        for ddl in control.ddls:
            self._remember(ddl.schema)
            self._remember(ddl.pre_schema)
        for _, bootstrap in control.bootstraps:
            self._remember(bootstrap.schema)

    def find(self, database: str, table: str, version: int | None) -> TableSchema | None:
        """Return the schema that was stated first for a table's version."""
        if version is None:
            return None
        name = make_table_name(database, table), version
        if name not in self._schemas:
            # `events` has a RENAME under the old name, and its schema has the new one, so the
            # version alone selects.
            is_stating = _is_of("ddl", "bootstrap") & (pc.field("schema_version") == version)
            stating = self._events.read("events", "kind", "statement", where=is_stating)
            for change in read_statements(stating.to_pylist()):
                self._remember(change.schema)
            self._schemas.setdefault(name, None)
        return self._schemas[name]

    def _remember(self, schema: TableSchema | None) -> None:
        if schema is not None and schema.table:
            name = make_table_name(schema.database, schema.table), schema.version
            self._schemas.setdefault(name, schema)
