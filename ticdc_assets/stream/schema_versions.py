"""The schema of every table version, completed from the DDLs before it."""

from collections.abc import Iterable, Mapping
from itertools import groupby

from ticdc_assets.events import Bootstrap, SchemaChange, TableSchema
from ticdc_assets.schema.apply_ddl import apply_ddl
from ticdc_assets.schema.catalog import CatalogState, SchemaCatalog
from ticdc_assets.schema.reconciliation import reconcile
from ticdc_assets.stream.ddl_order import order_ddls

# Database, table and schema version.
TableVersion = tuple[str, str, int]


def complete_schema_versions(
    events: Iterable[SchemaChange | Bootstrap],
    declared_keys: Mapping[str, tuple[str, ...]],
    known_tables: CatalogState | None = None,
) -> dict[TableVersion, TableSchema]:
    """Complete the schema of every table version with what earlier DDLs say about its columns.

    A schema file lists virtual columns like any other, yet data files leave them out.  Only the DDL
    that created a column says that it is virtual.
    """
    catalog = SchemaCatalog(declared_keys)
    if known_tables is not None:
        catalog.restore(known_tables)
    versions: dict[TableVersion, TableSchema] = {}
    for _, group in groupby(sorted(events, key=_version_order), key=_version_order):
        same_ts = list(group)
        for change in order_ddls((e for e in same_ts if isinstance(e, SchemaChange)), catalog):
            apply_ddl(change, catalog)
        for event in same_ts:
            schema = event.schema
            if schema is None or schema.version is None:
                continue
            known = catalog.get(schema.database, schema.table)
            if known is None and isinstance(event, Bootstrap):
                known = catalog.register(schema)
            complete = reconcile(known, schema) if known is not None else schema
            versions[schema.database, schema.table, schema.version] = complete
    return versions


def _version_order(event: SchemaChange | Bootstrap) -> tuple[int, int]:
    if isinstance(event, SchemaChange):
        return event.commit_ts, 0
    return event.schema.version or 0, 1
