"""Rows of events as typed rows of their table, by the schema they were written under."""

from collections.abc import Callable

from msgspec import Struct

from ticdc_assets.errors import MalformedMessage, MissingSchema
from ticdc_assets.events import Op, RowChange, TableSchema
from ticdc_assets.reference.event_buffer import EventBuffer
from ticdc_assets.reference.table import ModelTable, Row
from ticdc_assets.reference.tables import ModelTables
from ticdc_assets.schema.catalog import SchemaCatalog
from ticdc_assets.schema.inference import find_type_changes, infer_schema, merge_observed_columns
from ticdc_assets.schema.reconciliation import reconcile
from ticdc_assets.schema.types.checksum import ChecksumVerdict, verify_checksum
from ticdc_assets.schema.types.row import RowReader

# Reads a row again that was decoded by flags which its table's schema contradicts.
Redecode = Callable[[RowChange, TableSchema], RowChange]


class Images(Struct, frozen=True):
    """A row change, typed."""

    change: RowChange
    old: Row | None
    new: Row | None

    @property
    def overwrites(self) -> bool:
        """Whether this is an update of which the stream has only the new row."""
        return self.change.op is Op.UPDATE and self.old is None


class RowTyper:
    """Finds a row's table and schema, and reads its images."""

    def __init__(
        self,
        inbox: EventBuffer,
        catalog: SchemaCatalog,
        tables: ModelTables,
        redecode: Redecode | None,
    ) -> None:
        self._redecode = redecode
        self._inbox = inbox
        self._catalog = catalog
        self._tables = tables
        # By identity of the schemas, which are kept with their readers.
        self._readers: dict[tuple[int, bool], tuple[TableSchema, RowReader]] = {}
        self._completed: dict[tuple[int, int], tuple[TableSchema, TableSchema]] = {}

    def table_of(self, change: RowChange) -> tuple[ModelTable, RowChange]:
        """The table a row belongs to, met by its rows if nothing else told of it.

        The row comes back as the table's schema has it to be read.
        """
        table = self._tables.get(change.database, change.table)
        if table is None:
            schema = self._stated_for(change) or infer_schema(change)
            if schema is None:
                raise MissingSchema(_unseen(change))
            return self.meet(schema), change
        if change.observed in table.confirmed:
            return table, change
        redecoded = self._redecode(change, table.schema) if self._redecode else change
        confirmed = merge_observed_columns(
            table.schema, redecoded, by_flags=self._redecode is not None
        )
        if confirmed is not table.schema:
            retypings = find_type_changes(table.schema, confirmed)
            self._tables.alter(self._catalog.replace(confirmed), retypings, change.commit_ts)
        if redecoded is change:
            table.confirmed.add(change.observed)
        return table, redecoded

    def meet(self, schema: TableSchema) -> ModelTable:
        """Know a table that no DDL of this changefeed created."""
        known = self._tables.get(schema.database, schema.table)
        return known if known is not None else self._tables.of(self._catalog.register(schema))

    def read(self, table: ModelTable, change: RowChange) -> Images:
        """Type a change's images by the schema the row was written under."""
        schema = table.schema
        if change.schema_version is not None and change.schema_version != schema.version:
            stated = self._stated_for(change)
            if stated is None:
                raise MissingSchema(_unseen(change))
            schema = self._as_stated(schema, stated)
        read = self._reader(schema, change.member_names)
        new = read(change.after) if change.after is not None else None
        old = read(change.before) if change.before is not None else None
        if change.op is Op.UPDATE and old is not None and new is not None:
            # Columns that an update leaves out of its old image did not change.
            old = {**new, **old}
        for row in (old, new):
            lacking = [name for name in table.key if row is not None and name not in row]
            if lacking:
                raise MalformedMessage(f"the row lacks its key: {', '.join(lacking)}")
        return Images(change, old, new)

    def check(self, change: RowChange) -> ChecksumVerdict:
        """Hold a row's images against the checksums that were sent with it."""
        if change.checksum is None:
            return ChecksumVerdict("absent")
        stated = self._stated_for(change)
        return (
            ChecksumVerdict("not verifiable") if stated is None else verify_checksum(change, stated)
        )

    def _stated_for(self, change: RowChange) -> TableSchema | None:
        return self._inbox.stated(change.database, change.table, change.schema_version)

    def _as_stated(self, current: TableSchema, stated: TableSchema) -> TableSchema:
        name = (id(current), id(stated))
        if name not in self._completed:
            self._completed[name] = (current, reconcile(current, stated))
        return self._completed[name][1]

    def _reader(self, schema: TableSchema, member_names: bool) -> RowReader:
        name = (id(schema), member_names)
        if name not in self._readers:
            self._readers[name] = (schema, RowReader(schema, member_names=member_names))
            if not member_names:
                self._tables.say_members_unknown(schema)
        return self._readers[name][1]


def _unseen(change: RowChange) -> str:
    name = f"{change.database}.{change.table}"
    if change.schema_version is None:
        return f"nothing has told the columns of {name}"
    return f"schema version {change.schema_version} of {name} has not been seen"
