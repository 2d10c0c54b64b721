"""Type the rows of events by the schema under which they were written."""

from collections.abc import Sequence

from msgspec import Struct

from ticdc_assets.errors import InvalidValue, MalformedMessage, MissingSchema
from ticdc_assets.events import Op, RowChange, TableSchema
from ticdc_assets.events.row_image import dump, load
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.protocols.registry import Redecode
from ticdc_assets.reference.event_buffer import EventBuffer
from ticdc_assets.reference.table import ModelRow, ModelTable
from ticdc_assets.reference.tables import ModelTables
from ticdc_assets.schema.catalog import SchemaCatalog
from ticdc_assets.schema.inference import (
    adopt_observed_columns,
    find_contradiction,
    find_type_changes,
    infer_schema,
)
from ticdc_assets.schema.reconciliation import find_unknown_column, reconcile
from ticdc_assets.schema.types.checksum import ChecksumVerdict, verify_checksum
from ticdc_assets.schema.types.either_moment import check_identity
from ticdc_assets.schema.types.mysql_type import require_known_types
from ticdc_assets.schema.types.row import RowReader


class TypedChange(Struct, frozen=True):
    """A row change with its images as typed rows."""

    change: RowChange
    old: ModelRow | None
    new: ModelRow | None

    @property
    def lacks_old_row(self) -> bool:
        """Whether this is an update of which the stream holds only the new row."""
        return self.change.op is Op.UPDATE and self.old is None


class RowTyper:
    """Finds the table and the schema of a row, and reads its images."""

    def __init__(
        self,
        buffer: EventBuffer,
        catalog: SchemaCatalog,
        tables: ModelTables,
        redecode: Redecode | None,
    ) -> None:
        self._redecode = redecode
        self._buffer = buffer
        self._catalog = catalog
        self._tables = tables
        # By the identity of schemas; the values keep the schemas alive.
        self._readers: dict[tuple[int, bool], tuple[TableSchema, RowReader]] = {}
        self._reconciled: dict[tuple[int, int], tuple[TableSchema, TableSchema]] = {}

    def find_table(self, change: RowChange) -> tuple[ModelTable, RowChange]:
        """Return the table of a row, and the row as the table's schema requires it to be read.

        A table that neither DDL nor bootstrap created is registered from its first row.
        """
        table = self._tables.get(change.database, change.table)
        if table is None:
            schema = self._find_schema(change) or infer_schema(change)
            if schema is None:
                raise MissingSchema(_describe_missing(change))
            table = self.register_table(schema)
        if change.observed is None or table.pause_reason is not None:
            return table, change
        stated = change.schema_version, change.observed, change.key_columns
        if stated in table.matching_rows:
            return table, change
        redecoded = self._redecode(change, table.schema) if self._redecode else change
        adopted = adopt_observed_columns(
            table.schema, redecoded, by_flags=self._redecode is not None
        )
        if adopted is not table.schema:
            type_changes = find_type_changes(table.schema, adopted)
            table.alter(self._catalog.replace(adopted), type_changes, change.commit_ts)
        fault = find_contradiction(
            self._find_written_schema(table, change),
            redecoded,
            by_flags=self._redecode is not None,
        )
        if fault is not None:
            raise MalformedMessage(fault)
        if redecoded is change:
            table.matching_rows.add(stated)
        return table, redecoded

    def register_table(self, schema: TableSchema) -> ModelTable:
        """Register a table that no observed DDL created."""
        known = self._tables.get(schema.database, schema.table)
        if known is not None:
            return known
        return self._tables.find_or_add(self._catalog.register(require_known_types(schema)))

    def read_images(self, table: ModelTable, change: RowChange) -> TypedChange:
        """Type the images of a change by the schema under which TiCDC wrote them."""
        schema = self._find_written_schema(table, change)
        stated = None if schema is table.schema else self._find_schema(change)
        unknown = None if stated is None else find_unknown_column(table.schema, stated)
        if unknown is not None:
            raise MalformedMessage(unknown)
        read = self._find_reader(schema, change.member_names)
        new = read(change.after) if change.after is not None else None
        old = None
        if change.before is not None:
            old = _read_old(read, change.before, schema, table.key)
        if change.op is Op.UPDATE and old is not None and new is not None:
            # The old image of an update may leave out columns that did not change.
            old = {**new, **old}
        old, new = (row if row is None else table.rename_columns(row) for row in (old, new))
        for row in (old, new):
            missing = [name for name in table.key if row is not None and row.get(name) is None]
            if missing:
                raise MalformedMessage(f"the row lacks its key: {', '.join(missing)}")
        for image in (change.before, change.after):
            check_identity(table.schema, image)
        return TypedChange(change, old, new)

    def _find_written_schema(self, table: ModelTable, change: RowChange) -> TableSchema:
        """Return the schema under which TiCDC wrote a row."""
        schema = table.schema
        if change.schema_version is None or change.schema_version == schema.version:
            return schema
        stated = self._find_schema(change)
        if stated is None:
            raise MissingSchema(_describe_missing(change))
        return self._reconcile(schema, stated)

    def check_checksum(self, table: ModelTable, change: RowChange) -> ChecksumVerdict:
        """Compare the images of a row with the checksums that TiCDC sent with it."""
        if change.checksum is None:
            return ChecksumVerdict("absent")
        return verify_checksum(change, self._find_written_schema(table, change))

    def _find_schema(self, change: RowChange) -> TableSchema | None:
        return self._buffer.find_schema(change.database, change.table, change.schema_version)

    def _reconcile(self, current: TableSchema, stated: TableSchema) -> TableSchema:
        name = (id(current), id(stated))
        if name not in self._reconciled:
            self._reconciled[name] = (current, require_known_types(reconcile(current, stated)))
        return self._reconciled[name][1]

    def _find_reader(self, schema: TableSchema, member_names: bool) -> RowReader:
        name = (id(schema), member_names)
        if name not in self._readers:
            self._readers[name] = (schema, RowReader(schema, member_names=member_names))
            if not member_names:
                self._tables.report_unknown_members(schema)
        return self._readers[name][1]


def _describe_missing(change: RowChange) -> str:
    name = f"{change.database}.{change.table}"
    if change.schema_version is None:
        return f"no message or file has stated the columns of {name}"
    return f"schema version {change.schema_version} of {name} has not arrived"


def _read_old(read: RowReader, image: str, schema: TableSchema, key: Sequence[str]) -> ModelRow:
    """Read an old row: a table with a key needs the key alone, so other values may be wrong."""
    try:
        return read(image)
    except InvalidValue:
        texts = load(image)
        known = {column.name for column in schema.columns}
        if not key or not known.issuperset(texts):
            raise
        folded = set(map(fold_name, key))
        of_key = {name: text for name, text in texts.items() if fold_name(name) in folded}
        return read(dump(of_key))
