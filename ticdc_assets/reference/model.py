"""The reference model itself: buffer events, apply them in order up to a resolved ts.

The rules of order, all of them:

1. Everything happens in the order of commit ts; what arrives at or below an applied ts is a replay,
   but for a DDL of just that ts: its watermark may come before it.
2. At one commit ts rows come before DDLs; rows without any commit ts of their own (dated by the
   table version of their file) come after the DDL of that version.
3. Several DDLs of one commit ts keep the order they were sent in; a rename waits until its source
   is there and its target is free.  One DDL is carried out once, however often it was sent.
4. Within one commit ts of one table, deletes and the old keys of updates go first, then inserts and
   the new rows of updates.  Rows that only know milliseconds or less keep the order they came in.
5. In tables without a key, one transaction's equal rows count as often as one pass of their sender
   sent them: a sender that goes back in time starts a new pass and repeats itself.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import groupby

from msgspec.structs import replace

from ticdc_assets.errors import (
    ChecksumMismatch,
    InvalidValue,
    MalformedMessage,
    MissingSchema,
)
from ticdc_assets.events import Bootstrap, Event, Quarantined, RowChange, SchemaChange
from ticdc_assets.reference.event_buffer import BufferedEvent, EventBuffer
from ticdc_assets.reference.row_typing import Images, Redecode, RowTyper
from ticdc_assets.reference.table import ModelTable, Row
from ticdc_assets.reference.tables import ModelTables
from ticdc_assets.schema.apply_ddl import apply_ddl
from ticdc_assets.schema.catalog import SchemaCatalog, TableKey, table_key
from ticdc_assets.schema.name_resolution import affected_names
from ticdc_assets.stream.ddl_order import order_ddls
from ticdc_assets.stream.ordering import Phase
from ticdc_assets.stream.problem import KEY_ONLY, OLD_KEY_MISSING, OLD_ROW_MISSING, Kind, Problem

_UNSEEN = "the schema the row was written under has not been seen, so its table waits"

# A change's content, for telling equal ones: its two images.
_Content = tuple[str | None, str | None]


class Model:
    """Tables of one changefeed, kept by its events.

    `updates_split` says whether TiCDC sends an update that changes a key as delete and insert, as
    it does by default.  `redecode` is for a protocol whose rows are decoded by flags that may be
    stale.
    """

    def __init__(
        self,
        declared_keys: Mapping[str, tuple[str, ...]] | None = None,
        *,
        updates_split: bool = True,
        redecode: Redecode | None = None,
    ) -> None:
        self.problems: list[Problem] = []
        self.tables = ModelTables(self.problems)
        self.inbox = EventBuffer()
        self._updates_split = updates_split
        # What could not be applied in this advance, by table.
        self._held: dict[TableKey, list[BufferedEvent]] = {}
        self._catalog = SchemaCatalog(declared_keys)
        self._typer = RowTyper(self.inbox, self._catalog, self.tables, redecode)

    @property
    def applied_ts(self) -> int:
        """Up to where the tables are."""
        return self.inbox.taken_ts

    def add(self, events: Iterable[Event]) -> None:
        """Take events in, in the order they arrived."""
        for event in events:
            if isinstance(event, Quarantined):
                doubted = event.error == ChecksumMismatch.__name__
                kind: Kind = "checksum" if doubted else "quarantined"
                reason = event.reason if doubted else f"{event.error}: {event.reason}"
                self.problems.append(Problem(kind, reason, position=event.position))
            else:
                self.inbox.add(event)

    def advance(self, ts: int) -> None:
        """Apply everything up to and including `ts`, which must be resolved.

        A row whose schema has not been stated yet waits, and with it all that comes after it in its
        table; other tables go on.
        """
        self._held.clear()
        for (at, phase), together in groupby(self.inbox.take(ts), key=lambda d: (d.ts, d.phase)):
            if phase == Phase.DDLS:
                ddls = [due for due in together if not self._hold_behind(due)]
                self._apply_ddls(at, ddls, more_may_come=at == ts)
            else:
                self._apply_rows(together)
        self.inbox.put_back(self._held.values())

    def waiting(self) -> list[Problem]:
        """Rows that are due and still lack their table's schema."""
        return [
            self._problem("waiting", _UNSEEN, due.event)
            for due in self.inbox.overdue()
            if isinstance(due.event, RowChange)
        ]

    def _hold_behind(self, due: BufferedEvent) -> bool:
        """Hold an event back if something of its table is being held back."""
        match due.event:
            case Bootstrap():
                return False
            case SchemaChange():
                names = affected_names(due.event)
            case RowChange(database=database, table=table):
                names = [table_key(database, table)]
        behind = next((name for name in names if name in self._held), None)
        if behind is None:
            return False
        self._held[behind].append(due)
        for name in names:
            self._held.setdefault(name, [])
        return True

    def _apply_ddls(self, ts: int, dues: list[BufferedEvent], *, more_may_come: bool) -> None:
        """Carry out the DDLs of one commit ts; a rename that is not possible yet waits for others.

        Others may still come as long as nothing is resolved beyond their commit ts.
        """
        left = {id(due.event): due for due in dues}
        changes = [due.event for due in dues if isinstance(due.event, SchemaChange)]
        for change in order_ddls(changes, self._catalog, more_may_come=more_may_come):
            del left[id(change)]
            for effect in apply_ddl(change, self._catalog):
                self.tables.carry_out(effect, ts, change.sql)
        for due in left.values():
            if isinstance(due.event, SchemaChange):
                key = table_key(due.event.database, due.event.table)
                self._held.setdefault(key, []).append(due)

    def _apply_rows(self, together: Iterable[BufferedEvent]) -> None:
        by_table: dict[TableKey, list[BufferedEvent]] = defaultdict(list)
        for due in together:
            match due.event:
                case Bootstrap(schema=schema):
                    if not self._catalog.is_outdated(schema):
                        self._typer.meet(schema)
                case RowChange(database=database, table=table):
                    if not self._hold_behind(due):
                        by_table[table_key(database, table)].append(due)
        for key, dues in by_table.items():
            try:
                self._apply_transaction(dues)
            except MissingSchema:
                self._held[key] = dues

    def _apply_transaction(self, dues: list[BufferedEvent]) -> None:
        """Apply one table's rows of one commit ts, or none of them: `MissingSchema`."""
        typed: list[tuple[Images, int]] = []
        table: ModelTable | None = None
        for due in dues:
            assert isinstance(due.event, RowChange)
            try:
                table, change = self._typer.table_of(due.event)
                if table.paused is None:
                    typed.append((self._typer.read(table, change), due.sender_pass))
                    self._check(due.event)
            except (MalformedMessage, InvalidValue) as error:
                self._say("quarantined", str(error), due.event)
        if table is None or not typed:
            return
        exact = typed[0][0].change.ordering == "commit_ts"
        if exact and not table.key:
            self._apply_to_multiset(table, typed)
            return
        # Exact: all deletes, then all writes.  Otherwise change by change.
        for group in [typed] if exact else [[one] for one in typed]:
            for images, _ in group:
                self._remove_old(table, images)
            for images, _ in group:
                self._put_new(table, images)

    def _remove_old(self, table: ModelTable, images: Images) -> None:
        if images.old is not None:
            table.remove(images.old)

    def _put_new(self, table: ModelTable, images: Images) -> None:
        if images.new is None or table.paused is not None:
            return
        if images.change.handle_key_only:
            table.forget(images.new)
            self._say("incomplete", KEY_ONLY, images.change)
        elif images.overwrites and not table.key:
            self._overwrite_by_unique_key(table, images)
        elif images.overwrites and not self._updates_split and not table.has(images.new):
            self._pause_for(images.change, OLD_KEY_MISSING)
        else:
            table.put(images.new)

    def _overwrite_by_unique_key(self, table: ModelTable, images: Images) -> None:
        old = self._old_row(table, images, [])
        if old is not None and images.new is not None:
            table.remove(old)
            table.put(images.new)

    def _apply_to_multiset(self, table: ModelTable, typed: list[tuple[Images, int]]) -> None:
        """The same change counts as often as the pass that sent it most often did."""
        times: dict[int, Counter[_Content]] = defaultdict(Counter)
        changes: dict[_Content, Images] = {}
        for images, sender_pass in typed:
            content = (images.change.before, images.change.after)
            times[sender_pass][content] += 1
            changes[content] = images
        copies = {c: max(counted[c] for counted in times.values()) for c in changes}
        gone = [images.old for images in changes.values() if images.old is not None]
        for content, images in changes.items():
            if images.overwrites:
                old = self._old_row(table, images, gone)
                if old is None:
                    return
                gone.append(old)
                changes[content], copies[content] = replace(images, old=old), 1
        for content, images in changes.items():
            if images.old is not None:
                table.remove(images.old, copies[content])
        for content, images in changes.items():
            if images.new is not None:
                table.put(images.new, copies[content])

    def _old_row(self, table: ModelTable, images: Images, gone: list[Row]) -> Row | None:
        """The row that an update without old values overwrites; pause the table if there is none.

        A row that its transaction took away otherwise is none: the update moved another one there.
        """
        old = table.same_by_unique_keys(images.new) if images.new is not None else None
        if old is None or old in gone:
            self._pause_for(images.change, OLD_ROW_MISSING)
            return None
        return old

    def _check(self, change: RowChange) -> None:
        """Say of a row that it is not the one its checksum was computed from."""
        verdict = self._typer.check(change)
        if verdict.status == "corrupted":
            self._say("corrupted", "TiCDC itself found the row's checksum wrong", change)
        elif verdict.status == "mismatch":
            stated = f"the {verdict.side} checksum is stated as {verdict.expected}"
            found = verdict.reason or f"computed as {verdict.computed}"
            self._say("checksum", f"{stated}, {found}", change)

    def _pause_for(self, change: RowChange, reason: str) -> None:
        self.tables.pause(change.database, change.table, reason, change.commit_ts)

    def _say(self, kind: Kind, reason: str, change: RowChange) -> None:
        self.problems.append(self._problem(kind, reason, change))

    def _problem(self, kind: Kind, reason: str, change: RowChange) -> Problem:
        return Problem(
            kind, reason, change.database, change.table, change.commit_ts, change.position
        )
