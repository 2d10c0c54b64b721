"""Carries the work of one window out on plain Python tables."""

from collections import Counter, defaultdict
from collections.abc import Callable
from copy import copy

from tests.plan.arrived import Alike, Arrived, alike_of
from ticdc_assets.errors import InvalidValue, MalformedMessage, TicdcError, UnsupportedDdl
from ticdc_assets.events import Op, RowChange
from ticdc_assets.plan.steps import Alter, ApplyRows, EmptyPartitions, Exchange, TypedRowGroup
from ticdc_assets.reference.table import ModelRow, ModelTable
from ticdc_assets.schema.catalog import TableKey, table_key
from ticdc_assets.schema.partition.locate import make_locator
from ticdc_assets.schema.types.row import RowReader
from ticdc_assets.stream.problem import OLD_ROW_MISSING, Problem


class Job:
    """The work of one window."""

    def __init__(self, engine, planned, due, after, work, tables) -> None:
        self.engine = engine
        self.work = work
        self.start = tables
        self.after = after
        self.due: dict[TableKey, list[Arrived]] = defaultdict(list)
        for row in due:
            self.due[row.key].append(row)
        self.tables: dict[str, ModelTable] = {}
        self.failed: dict[str, str] = {}
        self.done: dict[str, int] = {}

    def run(self, id: str, upto: int) -> None:
        """Take a table through its steps, up to a number of them."""
        if id not in self.tables:
            known = self.start.get(id)
            work = self.work[id]
            assert (known is None) == work.is_new, id
            self.tables[id] = ModelTable(work.before) if known is None else copied(known)
            assert self.tables[id].schema == work.before, id
            self.done[id] = 0
        while id not in self.failed and self.done[id] < upto:
            step = self.work[id].steps[self.done[id]]
            try:
                self.step(id, self.tables[id], step)
            except TicdcError as error:
                self.failed[id] = str(error)

    def step(self, id: str, table: ModelTable, step) -> None:
        match step:
            case ApplyRows():
                assert table.schema == step.schema, (table.schema, step.schema)
                self.apply(table, step)
            case Alter():
                table.alter(step.schema, step.steps, step.commit_ts)
                assert table.has_misplaced_rows is False or not step.repartitions
            case EmptyPartitions():
                if table.has_misplaced_rows:
                    raise UnsupportedDdl("strayed", step.sql)
                locate = make_locator(step.partitioning, table.schema)
                table.take_rows(lambda row: locate(row) in step.names)
                table.alter(step.schema, (), step.commit_ts)
            case Exchange():
                self.exchange(id, step)
        self.done[id] += 1

    def exchange(self, id: str, step: Exchange) -> None:
        self.run(step.other, step.other_steps)
        if step.other in self.failed:
            reason = self.failed[step.other]
            raise UnsupportedDdl(f"rows change places with a paused table: {reason}", step.sql)
        mirrored = self.work[step.other].steps[step.other_steps]
        assert isinstance(mirrored, Exchange)
        assert (mirrored.other, mirrored.other_steps) == (id, self.done[id])
        assert step.partitioned is not mirrored.partitioned
        one, two = self.tables[id], self.tables[step.other]
        if not step.partitioned:
            one, two = two, one
        schema = step.schema if step.partitioned else mirrored.schema
        assert one.schema == step.schema_before == mirrored.schema_before
        try:
            if one.has_misplaced_rows:
                raise UnsupportedDdl("strayed", step.sql)
            locate = make_locator(step.partitioning, one.schema)
            strayed = any(locate(one.rename_columns(row)) != step.partition for row in two)
            out = one.take_rows(lambda row: locate(row) == step.partition)
            into = two.take_rows(lambda row: True)
            one.alter(schema, (), step.commit_ts)
            one.put_rows(into)
            two.put_rows(out)
            one.has_misplaced_rows = strayed
        except TicdcError as error:
            self.failed[step.other] = str(error)
            raise
        self.done[step.other] += 1

    # Rows

    def apply(self, table: ModelTable, step: ApplyRows) -> None:
        due = [
            row
            for row in self.due[table_key(step.schema.database, step.schema.table)]
            if step.low < row.place(self.after) <= step.high
        ]
        row_groups = {alike_of(r.group): r for r in step.row_groups}
        readers: dict[Alike, RowReader] = {}
        together: dict[object, list[tuple[RowChange, ModelRow | None, ModelRow | None, int]]] = {}
        # Exact rows a transaction at a time, others one by one as they came.
        for row in sorted(due, key=lambda r: (r.change.commit_ts if r.exact else 0, r.seq)):
            alike = row.alike(self.after)
            reading = row_groups[alike]
            if alike not in readers:
                names = reading.group.member_names
                readers[alike] = RowReader(reading.schema, member_names=names)
            try:
                typed = self.typed(table, step, row.change, reading, readers[alike])
            except (MalformedMessage, InvalidValue) as error:
                c = row.change
                where = (c.database, c.table, c.commit_ts, c.position)
                self.engine.problems.append(Problem("quarantined", str(error), *where))
                continue
            group = row.change.commit_ts if row.exact else -row.seq
            together.setdefault(group, []).append((*typed, row.sender_pass))
        for group in together.values():
            if group[0][0].ordering == "commit_ts" and not table.key:
                self.apply_to_multiset(table, group)
                continue
            for _, old, _, _ in group:
                if old is not None:
                    table.remove(old)
            for change, old, new, _ in group:
                self.put(table, change, old, new)

    def typed(
        self,
        table: ModelTable,
        step: ApplyRows,
        change: RowChange,
        reading: TypedRowGroup,
        read: Callable[[str], ModelRow],
    ) -> tuple[RowChange, ModelRow | None, ModelRow | None]:
        if reading.redecode:
            change = self.engine.rules.redecode(change, reading.schema)
        new = read(change.after) if change.after is not None else None
        old = read(change.before) if change.before is not None else None
        if change.op is Op.UPDATE and old is not None and new is not None:
            old = {**new, **old}
        for row in (old, new):
            if row is not None and any(name not in row for name in table.key):
                raise MalformedMessage("the row lacks its key")
        return change, old, new

    def put(
        self, table: ModelTable, change: RowChange, old: ModelRow | None, new: ModelRow | None
    ) -> None:
        if new is None:
            return
        overwrites = change.op is Op.UPDATE and old is None
        if change.handle_key_only:
            table.mark_incomplete(new)
        elif overwrites and not self.engine.updates_split and not table.contains(new):
            raise UnsupportedDdl("an update of a row that is not there", "")
        else:
            assert table.key or not overwrites
            table.put(new)

    def apply_to_multiset(self, table: ModelTable, group) -> None:
        times: dict[int, Counter[object]] = defaultdict(Counter)
        changes = {}
        overwriting = set()
        for change, old, new, sender_pass in group:
            content = (change.before, change.after)
            if change.op is Op.UPDATE and old is None:
                overwriting.add(content)
            times[sender_pass][content] += 1
            changes[content] = (old, new)
        copies = {c: max(counted[c] for counted in times.values()) for c in changes}
        gone = [old for old, _ in changes.values() if old is not None]
        for content, (old, new) in changes.items():
            if old is None and content in overwriting:
                old = table.find_by_unique_keys(new)
                if old is None or old in gone:
                    raise UnsupportedDdl(OLD_ROW_MISSING, "")
                gone.append(old)
                changes[content], copies[content] = (old, new), 1
        for content, (old, _) in changes.items():
            if old is not None:
                table.remove(old, copies[content])
        for content, (_, new) in changes.items():
            if new is not None:
                table.put(new, copies[content])


def copied(table: ModelTable) -> ModelTable:
    """A table that may be changed without changing the one it was copied from."""
    twin = copy(table)
    twin._rows = dict(table._rows)
    twin._copies = Counter(table._copies)
    twin.incomplete = dict(table.incomplete)
    return twin
