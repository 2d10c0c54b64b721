"""Events as they arrived: what the lake keeps in `events`, and reads from there."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from ticdc_assets.events import (
    Bootstrap,
    Event,
    FilePosition,
    Op,
    RowChange,
    SchemaChange,
    TableSchema,
    TopicPosition,
    Watermark,
)
from ticdc_assets.plan.ddl_cuts import DdlCuts
from ticdc_assets.plan.replay import Arrivals, LateRows, stated_tables
from ticdc_assets.plan.row_group import RowGroup, UndecodedFiles
from ticdc_assets.plan.state import State, ddl_name
from ticdc_assets.schema.catalog import TableKey, table_key
from ticdc_assets.schema.inference import sort_observed_columns, statement_order
from ticdc_assets.store.contracts import EVENT_IDENTITY
from ticdc_assets.stream.ordering import OrderKey, Phase

GroupKey = tuple[object, ...]


@dataclass(frozen=True)
class ArrivedRow:
    """A row, and when it arrived."""

    seq: int
    batch: int
    sender_pass: int
    change: RowChange

    @property
    def table(self) -> TableKey:
        return table_key(self.change.database, self.change.table)

    @property
    def ordered_by_commit_ts(self) -> bool:
        return self.change.ordering == "commit_ts"

    @property
    def content(self) -> tuple[object, ...]:
        c = self.change
        return (self.table, *(getattr(c, name) for name in EVENT_IDENTITY if name != "name"))

    def place(self, applied_ts: int) -> OrderKey:
        ts = self.change.commit_ts
        if not self.ordered_by_commit_ts and ts <= applied_ts:
            return applied_ts, Phase.AFTER_DDLS
        by_version = self.change.ordering == "table_version"
        return ts, Phase.AFTER_DDLS if by_version else Phase.ROWS

    def group_key(self, applied_ts: int) -> GroupKey:
        c = self.change
        observed = c.observed and sort_observed_columns(c.observed)
        after_ddls = self.place(applied_ts)[1] == Phase.AFTER_DDLS
        return (
            *(self.table, c.schema_version, observed, c.key_columns),
            *(c.member_names, self.ordered_by_commit_ts, after_ddls),
        )


def group_key(group: RowGroup) -> GroupKey:
    return (
        *(group.key, group.schema_version, group.observed, group.key_columns),
        *(group.member_names, group.ordered_by_commit_ts, group.after_ddls),
    )


def group_rows(
    rows: list[ArrivedRow], applied_ts: int, cuts: DdlCuts, *, has_checksums: bool
) -> list[RowGroup]:
    groups: dict[tuple[int, GroupKey], list[ArrivedRow]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row.place(applied_ts), row.seq)):
        before = sum((ts, Phase.DDLS) < row.place(applied_ts) for ts in cuts.of(row.table))
        groups[before, row.group_key(applied_ts)].append(row)
    made = [_describe(key, members, applied_ts) for (_, key), members in groups.items()]
    if not has_checksums:
        made = [replace(group, checksums=0) for group in made]
    return sorted(made, key=lambda g: (g.first, statement_order(*group_key(g)[1:4])))


def _describe(key: GroupKey, rows: list[ArrivedRow], applied_ts: int) -> RowGroup:
    changes = [row.change for row in rows]
    _, version, observed, key_columns, member_names, ordered_by_commit_ts, after_ddls = key
    return RowGroup(
        database=changes[0].database,
        table=changes[0].table,
        schema_version=version,
        observed=observed,
        key_columns=key_columns,
        member_names=member_names,
        ordered_by_commit_ts=ordered_by_commit_ts,
        after_ddls=after_ddls,
        first_ts=rows[0].place(applied_ts)[0],
        last_ts=rows[-1].place(applied_ts)[0],
        rows=len(rows),
        inserts=sum(c.op is Op.INSERT for c in changes),
        upserts=sum(c.op is Op.UPSERT for c in changes),
        overwrites=sum(c.op is Op.UPDATE and c.before is None for c in changes),
        key_only=sum(c.handle_key_only for c in changes),
        checksums=sum(c.checksum is not None for c in changes),
    )


class EventLog:
    """All events of a changefeed, in order of arrival."""

    def __init__(self) -> None:
        self.batch = 0
        self._seq = 0
        self.rows: list[ArrivedRow] = []
        self.ddls: list[tuple[int, SchemaChange]] = []
        # Batch, the ts from which on it holds at the earliest, and the bootstrap.
        self._bootstraps: list[tuple[int, int, Bootstrap]] = []
        self._schemas: dict[tuple[str, str, int | None], TableSchema] = {}
        self._watermarks: dict[tuple[str, int], int] = defaultdict(int)
        self._passes: dict[tuple[str, int, TableKey], tuple[int, int]] = {}
        self._contents: set[tuple[object, ...]] = set()

    def add_batch(self, events: Iterable[Event], applied_ts: int) -> None:
        self.batch += 1
        for event in events:
            self._seq += 1
            match event:
                case RowChange():
                    self._add_row(event, applied_ts)
                case SchemaChange():
                    self._observe_watermark(event.position, event.commit_ts)
                    self._remember(event.schema)
                    self._remember(event.pre_schema)
                    self.ddls.append((self.batch, event))
                case Bootstrap():
                    if self._remember(event.schema):
                        self._bootstraps.append((self.batch, self._date(event), event))
                case Watermark():
                    self._observe_watermark(event.position, event.ts)

    def _add_row(self, change: RowChange, applied_ts: int) -> None:
        row = ArrivedRow(self._seq, self.batch, self._count_passes(change), change)
        is_late = row.ordered_by_commit_ts and change.commit_ts <= applied_ts
        if not is_late or row.content not in self._contents:
            self.rows.append(row)
        self._contents.add(row.content)

    def _remember(self, schema: TableSchema | None) -> bool:
        """Whether the schema is the first of its table and version."""
        if schema is None or not schema.table:
            return False
        name = (*table_key(schema.database, schema.table), schema.version)
        return self._schemas.setdefault(name, schema) is schema

    def _date(self, bootstrap: Bootstrap) -> int:
        position = bootstrap.position
        if isinstance(position, FilePosition):
            return bootstrap.schema.version or 0
        return self._watermarks[position.topic, position.partition]

    def _observe_watermark(self, position: FilePosition | TopicPosition, ts: int) -> None:
        if isinstance(position, TopicPosition):
            sender = position.topic, position.partition
            self._watermarks[sender] = max(self._watermarks[sender], ts)

    def _count_passes(self, change: RowChange) -> int:
        """How often the sender has gone back in time before this row."""
        table = table_key(change.database, change.table)
        match change.position:
            case TopicPosition(topic, partition):
                sender = (topic, partition, table)
            case FilePosition():
                sender = (f"{change.schema_version}/{change.table_id}", 0, table)
        last, number = self._passes.get(sender, (0, 0))
        number += change.commit_ts < last
        self._passes[sender] = (change.commit_ts, number)
        return number

    # What the lake reads

    def find_schema(self, database: str, table: str, version: int | None) -> TableSchema | None:
        return self._schemas.get((*table_key(database, table), version))

    def last_ts(self) -> int:
        times = [row.change.commit_ts for row in self.rows]
        return max(times + [ddl.commit_ts for _, ddl in self.ddls], default=0)

    def pending_ddls(self, since: State) -> tuple[SchemaChange, ...]:
        return tuple(ddl for _, ddl in self.ddls if ddl.commit_ts >= since.ts)

    def pending_bootstraps(self, since: State, batch: int) -> tuple[tuple[int, Bootstrap], ...]:
        return tuple(
            (max(ts, since.ts + 1), bootstrap)
            for number, ts, bootstrap in self._bootstraps
            if number > batch
        )

    def pending_rows(
        self, since: State, batch: int, *, ts: int, through_batch: int
    ) -> list[ArrivedRow]:
        return [
            row
            for row in self.rows
            if row.change.commit_ts <= ts
            and (
                row.change.commit_ts > since.ts
                or (not row.ordered_by_commit_ts and row.batch > batch)
            )
            and (row.ordered_by_commit_ts or row.batch <= through_batch)
        ]

    def arrivals(self, now: State, batch: int, undecoded: list[UndecodedFiles]) -> Arrivals:
        late_rows = [
            LateRows(row.change.database, row.change.table, row.change.commit_ts)
            for row in self.rows
            if row.batch > batch and row.ordered_by_commit_ts and row.change.commit_ts <= now.ts
        ]
        known = {(ddl.commit_ts, ddl_name(ddl)) for number, ddl in self.ddls if number <= batch}
        late_ddls = [
            ddl
            for number, ddl in self.ddls
            if number > batch
            and ddl.commit_ts < now.ts
            and (ddl.commit_ts, ddl_name(ddl)) not in known
        ]
        bootstraps = [bootstrap for _, bootstrap in self.pending_bootstraps(now, batch)]
        return Arrivals(
            stated=stated_tables(self.pending_ddls(now), bootstraps),
            late_rows=tuple(late_rows),
            late_ddls=tuple(late_ddls),
            undecoded_files=tuple(undecoded),
        )
