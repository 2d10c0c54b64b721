"""The work of one window, done on plain Python tables."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import cache

from tests.plan.arrived import ArrivedRow, GroupKey, group_key
from ticdc_assets.errors import (
    InvalidValue,
    MalformedMessage,
    RowChecksumMismatch,
    TableCannotContinue,
    TicdcError,
)
from ticdc_assets.events import Op, RowChange
from ticdc_assets.plan.steps import (
    Alter,
    ApplyRows,
    EmptyPartitions,
    Exchange,
    TableWork,
    TypedRowGroup,
)
from ticdc_assets.reference.table import ModelRow, ModelTable
from ticdc_assets.schema.catalog import TableKey, table_key
from ticdc_assets.schema.partition.locate import make_locator, make_strict_locator
from ticdc_assets.schema.types.checksum import verify_checksum
from ticdc_assets.schema.types.either_moment import check_identity
from ticdc_assets.schema.types.row import RowReader
from ticdc_assets.stream.problem import (
    OLD_KEY_MISSING,
    OLD_ROW_MISSING,
    ROWS_IN_WRONG_PARTITIONS,
    Problem,
)
from ticdc_assets.stream.rules import StreamRules


class WorkInMemory:
    """The work of one window on copies of tables; `failed` says why tables cannot continue."""

    def __init__(
        self,
        rules: StreamRules,
        work: Mapping[str, TableWork],
        tables: Mapping[str, ModelTable],
    ) -> None:
        self._rules = rules
        self._work = work
        self._start = tables
        self._applied_ts = 0
        self._rows: dict[TableKey, list[ArrivedRow]] = defaultdict(list)
        self._tables: dict[str, ModelTable] = {}
        self._steps_done: dict[str, int] = {}
        self.failed: dict[str, str] = {}
        self.problems: list[Problem] = []

    @property
    def finished(self) -> dict[str, ModelTable]:
        return {id: table for id, table in self._tables.items() if id not in self.failed}

    def run(self, ids: Iterable[str], rows: Iterable[ArrivedRow], applied_ts: int) -> None:
        """Take tables through all their steps, with rows that arrived after `applied_ts`."""
        self._applied_ts = applied_ts
        for row in rows:
            self._rows[row.table].append(row)
        for id in ids:
            self._run_table(id, len(self._work[id].steps))

    def _run_table(self, id: str, steps: int) -> None:
        """Take a table through its first steps."""
        if id not in self._tables:
            known = self._start.get(id)
            work = self._work[id]
            assert known is not None or work.is_new, id
            self._tables[id] = ModelTable(work.before) if known is None else copied(known)
            assert self._tables[id].schema == work.before, id
            self._steps_done[id] = 0
        while id not in self.failed and self._steps_done[id] < steps:
            step = self._work[id].steps[self._steps_done[id]]
            try:
                self._run_step(id, self._tables[id], step)
            except TicdcError as error:
                self.failed[id] = str(error)

    def _run_step(self, id: str, table: ModelTable, step) -> None:
        match step:
            case ApplyRows():
                assert table.schema == step.schema, (table.schema, step.schema)
                self._apply_rows(table, step)
            case Alter():
                table.alter(step.schema, step.steps, step.commit_ts)
                assert table.has_misplaced_rows is False or not step.repartitions
            case EmptyPartitions():
                if table.has_misplaced_rows:
                    raise TableCannotContinue(ROWS_IN_WRONG_PARTITIONS)
                locate = _locate_lazily(step, table)
                table.take_rows(lambda row: locate(row) in step.names)
                table.alter(step.schema, (), step.commit_ts)
            case Exchange():
                self._exchange(id, step)
        self._steps_done[id] += 1

    def _exchange(self, id: str, step: Exchange) -> None:
        self._run_table(step.other, step.other_steps)
        if step.other in self.failed:
            reason = self.failed[step.other]
            raise TableCannotContinue(f"it exchanges rows with a paused table: {reason}")
        mirrored = self._work[step.other].steps[step.other_steps]
        assert isinstance(mirrored, Exchange)
        assert (mirrored.other, mirrored.other_steps) == (id, self._steps_done[id])
        assert step.partitioned is not mirrored.partitioned
        one, two = self._tables[id], self._tables[step.other]
        if not step.partitioned:
            one, two = two, one
        schema = step.schema if step.partitioned else mirrored.schema
        assert one.schema == step.schema_before == mirrored.schema_before
        try:
            if one.has_misplaced_rows:
                raise TableCannotContinue(ROWS_IN_WRONG_PARTITIONS)
            locate = _locate_lazily(step, one)
            misplaced = any(_may_be_misplaced(row, step, one) for row in two)
            out = one.take_rows(lambda row: locate(row) == step.partition)
            into = two.take_rows(lambda row: True)
            one.alter(schema, (), step.commit_ts)
            one.put_rows(into)
            two.put_rows(out)
            one.has_misplaced_rows = misplaced
        except TicdcError as error:
            self.failed[step.other] = str(error)
            raise
        self._steps_done[step.other] += 1

    # Rows

    def _apply_rows(self, table: ModelTable, step: ApplyRows) -> None:
        rows = [
            row
            for row in self._rows[table_key(step.schema.database, step.schema.table)]
            if step.low < row.place(self._applied_ts) <= step.high
        ]
        groups = {group_key(typed.group): typed for typed in step.row_groups}
        readers: dict[GroupKey, RowReader] = {}
        together: dict[object, list[tuple[RowChange, ModelRow | None, ModelRow | None, int]]] = {}
        # One transaction at a time where rows have their commit ts, else one row at a time.
        for row in sorted(rows, key=self._order):
            key = row.group_key(self._applied_ts)
            group = groups[key]
            if key not in readers:
                readers[key] = RowReader(group.schema, member_names=group.group.member_names)
            try:
                typed = self._type_row(table, row.change, group, readers[key])
            except (MalformedMessage, InvalidValue, RowChecksumMismatch) as error:
                c = row.change
                where = (c.database, c.table, c.commit_ts, c.position)
                self.problems.append(Problem("quarantined", str(error), *where))
                continue
            transaction = row.change.commit_ts if row.ordered_by_commit_ts else -row.seq
            together.setdefault(transaction, []).append((*typed, row.sender_pass))
        for group in together.values():
            if group[0][0].ordering == "commit_ts" and not table.key:
                self._apply_transaction(table, group)
                continue
            for _, old, _, _ in group:
                if old is not None:
                    table.remove(old)
            for change, old, new, _ in group:
                self._put(table, change, old, new)

    def _order(self, row: ArrivedRow) -> tuple[object, ...]:
        return row.place(self._applied_ts), not row.ordered_by_commit_ts, row.seq

    def _type_row(
        self,
        table: ModelTable,
        change: RowChange,
        group: TypedRowGroup,
        read: Callable[[str], ModelRow],
    ) -> tuple[RowChange, ModelRow | None, ModelRow | None]:
        if group.fault is not None:
            raise MalformedMessage(group.fault)
        if group.redecode:
            change = self._rules.redecode(change, group.schema)
        new = read(change.after) if change.after is not None else None
        old = read(change.before) if change.before is not None else None
        if change.op is Op.UPDATE and old is not None and new is not None:
            old = {**new, **old}
        for row in (old, new):
            if row is not None and any(row.get(name) is None for name in table.key):
                raise MalformedMessage("the row lacks its key")
        for image in (change.before, change.after):
            check_identity(table.schema, image)
        if self._rules.has_checksums:
            verdict = verify_checksum(change, group.schema)
            if verdict.status == "mismatch":
                raise RowChecksumMismatch(verdict.describe())
        return change, old, new

    def _put(
        self, table: ModelTable, change: RowChange, old: ModelRow | None, new: ModelRow | None
    ) -> None:
        if new is None:
            return
        overwrites = change.op is Op.UPDATE and old is None
        if change.handle_key_only:
            table.mark_incomplete(new)
        elif overwrites and not table.key:
            found = table.find_by_unique_keys(new)
            if found is None:
                raise TableCannotContinue(OLD_ROW_MISSING)
            table.remove(found)
            table.put(new)
        elif overwrites and not self._rules.updates_split and not table.contains(new):
            raise TableCannotContinue(OLD_KEY_MISSING)
        else:
            table.put(new)

    def _apply_transaction(self, table: ModelTable, group) -> None:
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
                    raise TableCannotContinue(OLD_ROW_MISSING)
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


def _locate_lazily(step: EmptyPartitions | Exchange, table: ModelTable):
    """Make the locator for its first row: without rows, nothing is uncertain."""
    locator = cache(lambda: make_strict_locator(step.partitioning, table.schema, step.context))
    return lambda row: locator()(row)


def _may_be_misplaced(row: ModelRow, step: Exchange, table: ModelTable) -> bool:
    try:
        locate = make_locator(step.partitioning, table.schema, step.context)
        return locate(table.rename_columns(row)) != step.partition
    except TicdcError:
        return True
