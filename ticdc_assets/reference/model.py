"""The reference model: buffer events, then apply them in order up to a resolved ts.

The rules of order:

1. Events apply in the order of commit ts.  An event at or below an applied ts is a repetition,
   except a DDL of exactly that ts: its watermark may arrive before it.
2. Within one commit ts, rows apply before DDLs.  Rows ordered by the table version of their file
   apply after the DDL of that version.
3. DDLs of one commit ts keep the order TiCDC sent them in, except that a rename waits until its
   source exists and its target is free.  A DDL applies once, however often TiCDC sent it.
4. Within one commit ts of one table, deletes and the old keys of updates apply first, then inserts
   and the new rows of updates.  Rows that state no commit ts apply after them, in order of
   arrival.
5. In a table without a key, equal rows of one transaction count as often as one pass of their
   sender sent them.  A sender that goes back in time starts a new pass and repeats itself.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain, groupby

from msgspec.structs import replace

from ticdc_assets.errors import (
    CONTENT_ERRORS,
    ChecksumMismatch,
    InvalidValue,
    MalformedMessage,
    MissingSchema,
    RowChecksumMismatch,
    describe_content_error,
)
from ticdc_assets.events import Bootstrap, Event, Op, Quarantined, RowChange, SchemaChange
from ticdc_assets.events.row_image import EITHER
from ticdc_assets.reference.event_buffer import BufferedEvent, EventBuffer
from ticdc_assets.reference.row_typing import RowTyper, TypedChange
from ticdc_assets.reference.table import ModelRow, ModelTable
from ticdc_assets.reference.tables import ModelTables
from ticdc_assets.schema.apply_ddl import apply_ddl
from ticdc_assets.schema.catalog import TableKey, table_key
from ticdc_assets.schema.inference import statement_order
from ticdc_assets.schema.name_resolution import affected_names
from ticdc_assets.schema.types.either_moment import (
    EITHER_MOMENT,
    find_either_moments,
    list_timestamps,
)
from ticdc_assets.stream.ddl_order import order_ddls
from ticdc_assets.stream.ordering import Phase
from ticdc_assets.stream.problem import (
    OLD_KEY_MISSING,
    OLD_ROW_MISSING,
    Kind,
    Problem,
    explain_key_only,
)
from ticdc_assets.stream.rules import StreamRules

_NO_SCHEMA = "the table waits for the schema under which this row was written"

# Both images of a change: equal changes have equal content.
_Content = tuple[str | None, str | None]


class Model:
    """The tables of one changefeed, built from its events."""

    def __init__(self, rules: StreamRules | None = None) -> None:
        self._rules = rules or StreamRules()
        self._buffer = EventBuffer()
        self._unreadable: list[Problem] = []
        self._begin()

    def _begin(self) -> None:
        """Begin with no tables."""
        self.problems = list(self._unreadable)
        self.tables = ModelTables(self.problems)
        # Rows of tables that wait for a schema.
        self._waiting: list[RowChange] = []
        # DDLs that `advance` could not apply, and the rows behind them, by table.
        self._blocked: dict[TableKey, list[BufferedEvent]] = {}
        self._catalog = self._rules.make_catalog()
        self._typer = RowTyper(self._buffer, self._catalog, self.tables, self._rules.redecode)
        self._schemas_known = self._buffer.schemas_stated

    @property
    def applied_ts(self) -> int:
        """The ts up to which the tables are complete."""
        return self._buffer.taken_ts

    def add(self, events: Iterable[Event]) -> None:
        """Buffer events in the order of arrival."""
        for event in events:
            if isinstance(event, Quarantined):
                self._report_quarantined(event)
            else:
                self._buffer.add(event)

    def advance(self, ts: int) -> None:
        """Apply every event up to and including `ts`, which must be resolved.

        The table of a row whose schema has not arrived waits: no more of its rows are applied.
        Once more schemas have arrived, all tables are built again from the first event on.
        """
        if self._waiting and self._buffer.schemas_stated > self._schemas_known:
            self._buffer.rewind()
            self._begin()
        self._blocked.clear()
        for (commit_ts, phase), group in groupby(
            self._buffer.take(ts), key=lambda item: (item.ts, item.phase)
        ):
            if phase == Phase.DDLS:
                self._apply_ddls(commit_ts, list(group), more_may_come=commit_ts == ts)
            else:
                self._apply_rows(group)
        self._buffer.put_back(chain.from_iterable(self._blocked.values()))

    def waiting_rows(self) -> list[Problem]:
        """Return a problem for every row up to the applied ts whose schema has not arrived."""
        return [_make_problem("waiting", _NO_SCHEMA, change) for change in self._waiting]

    def _apply_ddls(self, ts: int, items: list[BufferedEvent], *, more_may_come: bool) -> None:
        """Apply the DDLs of one commit ts; blocked renames wait.

        More DDLs of this commit ts may come as long as no later ts is resolved.
        """
        blocked = {id(item.event): item for item in items}
        changes = [item.event for item in items if isinstance(item.event, SchemaChange)]
        for change in order_ddls(changes, self._catalog, more_may_come=more_may_come):
            del blocked[id(change)]
            names = affected_names(change)
            for effect in apply_ddl(change, self._catalog):
                self.tables.apply_effect(effect, ts, change.sql, names)
        for item in blocked.values():
            if isinstance(item.event, SchemaChange):
                key = table_key(item.event.database, item.event.table)
                self._blocked.setdefault(key, []).append(item)

    def _apply_rows(self, items: Iterable[BufferedEvent]) -> None:
        by_table: dict[TableKey, list[BufferedEvent]] = defaultdict(list)
        for item in items:
            match item.event:
                case Bootstrap():
                    self._apply_bootstrap(item.event, item.ts)
                case RowChange(database=database, table=table):
                    key = table_key(database, table)
                    behind = self._blocked.get(key)
                    (by_table[key] if behind is None else behind).append(item)
        for key, transaction in by_table.items():
            if self.tables.is_waiting(key):
                self._make_wait(key, transaction)
                continue
            try:
                self._apply_transaction(transaction)
            except MissingSchema:
                self._make_wait(key, transaction)
            except CONTENT_ERRORS as error:
                event = transaction[0].event
                assert isinstance(event, RowChange)
                self._pause_table_of(event, describe_content_error(error))

    def _make_wait(self, key: TableKey, items: list[BufferedEvent]) -> None:
        self.tables.wait(key)
        self._waiting += [item.event for item in items if isinstance(item.event, RowChange)]

    def _apply_bootstrap(self, bootstrap: Bootstrap, ts: int) -> None:
        schema = bootstrap.schema
        try:
            if not self._catalog.is_outdated(schema):
                self._typer.register_table(schema)
        except CONTENT_ERRORS as error:
            self.tables.pause(schema.database, schema.table, describe_content_error(error), ts)

    def _apply_transaction(self, items: list[BufferedEvent]) -> None:
        """Apply one table's rows of one commit ts; on `MissingSchema`, apply none of them."""
        self._adopt_columns(items)
        changes: list[tuple[TypedChange, int]] = []
        table: ModelTable | None = None
        for item in items:
            assert isinstance(item.event, RowChange)
            try:
                table, change = self._typer.find_table(item.event)
                self._check_old_row(table, change)
                if table.pause_reason is None:
                    typed = self._typer.read_images(table, change)
                    self._check_checksum(table, change)
                    changes.append((typed, item.sender_pass))
                    self._check_moments(table, change)
            except (MalformedMessage, InvalidValue, RowChecksumMismatch) as error:
                self._report("quarantined", str(error), item.event)
        if table is None or table.pause_reason is not None or not changes:
            return
        together = [each for each in changes if each[0].change.ordering == "commit_ts"]
        if together and not table.key:
            self._apply_to_multiset(table, together)
        else:
            self._apply_together(table, [typed for typed, _ in together])
        for typed, _ in changes:
            if typed.change.ordering != "commit_ts":
                self._apply_together(table, [typed])

    def _apply_together(self, table: ModelTable, changes: list[TypedChange]) -> None:
        """Apply changes as one: all deletes, then all writes (rule 4)."""
        for typed in changes:
            if typed.old is not None:
                table.remove(typed.old)
        for typed in changes:
            self._write_new_row(table, typed)

    def _adopt_columns(self, items: list[BufferedEvent]) -> None:
        """Let rows that state different columns state them all before any of them is read."""
        changes = [item.event for item in items if isinstance(item.event, RowChange)]
        stated = {(c.schema_version, c.observed, c.key_columns): c for c in reversed(changes)}
        if len(stated) > 1:
            for name in sorted(stated, key=lambda name: statement_order(*name)):
                with suppress(MalformedMessage, InvalidValue):
                    self._typer.find_table(stated[name])

    def _write_new_row(self, table: ModelTable, typed: TypedChange) -> None:
        if typed.new is None or table.pause_reason is not None:
            return
        if typed.change.handle_key_only:
            table.mark_incomplete(typed.new)
            self._report("incomplete", explain_key_only(typed.change.upstream), typed.change)
        elif typed.lacks_old_row and not table.key:
            old = self._find_old_row(table, typed, [])
            if old is not None:
                table.remove(old)
                table.put(typed.new)
        elif (
            typed.lacks_old_row and not self._rules.updates_split and not table.contains(typed.new)
        ):
            self._pause_table_of(typed.change, OLD_KEY_MISSING)
        else:
            table.put(typed.new)

    def _apply_to_multiset(
        self, table: ModelTable, changes_by_pass: list[tuple[TypedChange, int]]
    ) -> None:
        """Apply a transaction to a table without a key, repeated passes only once (rule 5)."""
        counts: dict[int, Counter[_Content]] = defaultdict(Counter)
        changes: dict[_Content, TypedChange] = {}
        for typed, sender_pass in changes_by_pass:
            content = (typed.change.before, typed.change.after)
            counts[sender_pass][content] += 1
            changes[content] = typed
        copies = {c: max(in_pass[c] for in_pass in counts.values()) for c in changes}
        removed = [typed.old for typed in changes.values() if typed.old is not None]
        for content, typed in changes.items():
            if typed.lacks_old_row:
                old = self._find_old_row(table, typed, removed)
                if old is None:
                    return
                removed.append(old)
                changes[content], copies[content] = replace(typed, old=old), 1
        for content, typed in changes.items():
            if typed.old is not None:
                table.remove(typed.old, copies[content])
        for content, typed in changes.items():
            if typed.new is not None:
                table.put(typed.new, copies[content])

    def _find_old_row(
        self, table: ModelTable, typed: TypedChange, removed: list[ModelRow]
    ) -> ModelRow | None:
        """Find the row that an update without old values overwrites; pause the table without one.

        A row that its transaction removes does not count: the update put another row in its place.
        """
        old = table.find_by_unique_keys(typed.new) if typed.new is not None else None
        if old is None or old in removed:
            self._pause_table_of(typed.change, OLD_ROW_MISSING)
            return None
        return old

    def _check_old_row(self, table: ModelTable, change: RowChange) -> None:
        """Pause a table at a change whose old row is unknown, and cannot be found by any key."""
        schema = table.schema
        reason = self._rules.explain_upserts(schema) if change.op is Op.UPSERT else None
        has_any_key = schema.key or schema.unique_keys
        if change.op is Op.UPDATE and change.before is None and not has_any_key:
            reason = OLD_ROW_MISSING
        if reason is not None:
            self._pause_table_of(change, reason)

    def _check_checksum(self, table: ModelTable, change: RowChange) -> None:
        """Raise `RowChecksumMismatch` for a row that differs from the checksum TiCDC sent."""
        if not self._rules.has_checksums:
            return
        verdict = self._typer.check_checksum(table, change)
        if verdict.status == "corrupted":
            self._report("corrupted", "TiCDC itself found the row's checksum wrong", change)
        elif verdict.status == "mismatch":
            raise RowChecksumMismatch(verdict.describe())

    def _check_moments(self, table: ModelTable, change: RowChange) -> None:
        """Report a row with values that are one of two moments."""
        if change.after is not None and EITHER in change.after:
            columns = find_either_moments(list_timestamps(table.schema), change.after)
            if columns:
                self._report("approximate", EITHER_MOMENT + ", ".join(columns), change)

    def _pause_table_of(self, change: RowChange, reason: str) -> None:
        self.tables.pause(change.database, change.table, reason, change.commit_ts)

    def _report(self, kind: Kind, reason: str, change: RowChange) -> None:
        self.problems.append(_make_problem(kind, reason, change))

    def _report_quarantined(self, event: Quarantined) -> None:
        if event.error == ChecksumMismatch.__name__:
            problem = Problem("checksum", event.reason, position=event.position)
        else:
            reason = f"{event.error}: {event.reason}"
            problem = Problem("quarantined", reason, position=event.position)
        self._unreadable.append(problem)
        self.problems.append(problem)


def _make_problem(kind: Kind, reason: str, change: RowChange) -> Problem:
    return Problem(kind, reason, change.database, change.table, change.commit_ts, change.position)
