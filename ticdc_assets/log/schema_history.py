"""The schema history and the catalog of tables."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

import pyarrow.compute as pc

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import Bootstrap, Column, SchemaChange, TableSchema
from ticdc_assets.events.written import read_json, write_json
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.state import State
from ticdc_assets.plan.steps import SchemaVersion
from ticdc_assets.rows.columns import format_mysql_type
from ticdc_assets.schema.catalog import CatalogState
from ticdc_assets.schema.reconciliation import reconcile
from ticdc_assets.schema.types.mysql_type import map_to_delta_type
from ticdc_assets.store.arrow import make_table
from ticdc_assets.store.contracts import SCHEMA_HISTORY, TABLES
from ticdc_assets.store.event_rows import make_table_name, read_statements
from ticdc_assets.store.lake import LakeSession, find_folder
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.texts import replace_surrogates
from ticdc_assets.store.writer import LakeWriter
from ticdc_assets.stream.privacy import restore_schema
from ticdc_assets.stream.schema_versions import TableVersion, complete_schema_versions

_FIELDS = (
    *("incarnation", "database", "table", "valid_from", "valid_to", "schema_version"),
    *("origin", "ddl_type", "sql", "columns", "key", "schema"),
)


class SchemasFor:
    """Finds the schemas of the table versions under which CSV data files were written."""

    def __init__(self, lake: LakeSession, applied: Snapshot) -> None:
        self._lake = lake
        self._reader = LakeReader(lake.location)
        self._applied = applied

    def __call__(
        self, wanted: Collection[TableVersion], fresh: list[SchemaChange | Bootstrap]
    ) -> Mapping[TableVersion, TableSchema]:
        if not wanted:
            return {}
        known = self._applied.state.catalog
        pending = [*self._pending(), *fresh]
        now = (table.schema for table in self._applied.state.incarnations.values())
        schemas = {
            (schema.database, schema.table, schema.version): schema
            for schema in now
            if schema.version is not None
        }
        schemas |= complete_schema_versions(pending, self._lake.feed.keys, known)
        past = {want for want in wanted if want not in schemas}
        if past:
            schemas |= self._past(past, known)
        # Files have the columns as they are upstream.
        return {want: restore_schema(schemas[want]) for want in wanted if want in schemas}

    def _pending(self) -> list[SchemaChange | Bootstrap]:
        """Read the DDLs and bootstraps that are not part of the last snapshot."""
        ts, batch = self._applied.ts, self._applied.batch
        is_ddl, is_bootstrap = (pc.field("kind") == kind for kind in ("ddl", "bootstrap"))
        is_later_ddl = is_ddl & (pc.field("commit_ts") > ts)
        return self._read_stated(is_later_ddl | (is_bootstrap & (pc.field("batch") > batch)))

    def _past(
        self, wanted: Collection[TableVersion], known: CatalogState
    ) -> dict[TableVersion, TableSchema]:
        """Read older versions from `events`, and from the schema history where it has them."""
        is_of_version = pc.field("schema_version").isin(sorted({want[2] for want in wanted}))
        names = {make_table_name(database, table) for database, table, _ in wanted}
        is_stating = pc.field("kind").isin(["ddl", "bootstrap"])
        columns = ("database", "table", "schema_version", "schema")
        history = self._reader.read(self._reader.open("schema_history"), columns, is_of_version)
        schemas: dict[TableVersion, TableSchema] = {}
        current = {make_table_name(t.database, t.table): t for t in known.tables}
        for change in self._read_stated(is_stating & is_of_version):
            schema = change.schema
            if schema is None or schema.version is None:
                continue
            name = make_table_name(schema.database, schema.table)
            if name in names:
                now = current.get(name)
                completed = reconcile(now, schema) if now is not None else schema
                schemas[schema.database, schema.table, schema.version] = completed
        for row in history.to_pylist():
            want = row["database"], row["table"], row["schema_version"]
            if want in wanted:
                schemas[want] = read_json(row["schema"], TableSchema)
        return schemas

    def _read_stated(self, where: pc.Expression) -> list[SchemaChange | Bootstrap]:
        """Read statements in order of arrival."""
        columns = ("seq", "index", "kind", "statement")
        rows = self._reader.read(self._reader.open("events"), columns, where)
        return read_statements(
            rows.sort_by([("seq", "ascending"), ("index", "ascending")]).to_pylist()
        )


def write_history(lake: LakeSession, versions: Sequence[SchemaVersion], after_ts: int) -> None:
    """Write the schema versions of a window that starts at `after_ts`; idempotent."""
    if not versions:
        return
    incarnations = sorted({version.incarnation for version in versions})
    reader = LakeReader(lake.location)
    is_known = pc.field("incarnation").isin(incarnations) & (pc.field("valid_from") <= after_ts)
    known = reader.read(reader.open("schema_history"), _FIELDS, is_known)
    # A window of `after_ts` itself adds versions of that very ts: what they come from, and their
    # statements, tell them apart.
    new_lines = [_line(version) for version in versions]
    new = set(map(_identify, new_lines))
    lines = [row for row in known.sort_by("valid_from").to_pylist() if _identify(row) not in new]
    lines += new_lines
    rows = make_table(SCHEMA_HISTORY, _with_ends(lines))
    LakeWriter(lake.location).replace_where("schema_history", "incarnation", incarnations, rows)


_identify = itemgetter("incarnation", "valid_from", "origin", "sql")


def _line(version: SchemaVersion) -> dict[str, Any]:
    """Make a row; only in `schema` are bytes exact that are not valid UTF-8."""
    schema = version.schema
    line = {
        "incarnation": version.incarnation,
        "database": schema.database,
        "table": schema.table,
        "valid_from": version.valid_from,
        "valid_to": version.valid_from if version.ends else None,
        "schema_version": schema.version,
        "origin": version.origin,
        "ddl_type": version.ddl_type,
        "sql": version.sql,
        "columns": [_column(column) for column in schema.columns],
        "key": list(schema.key),
        "schema": write_json(schema),
    }
    return {name: replace_surrogates(value) for name, value in line.items()}


def _column(column: Column) -> dict[str, Any]:
    try:
        delta = None if column.generated == "virtual" else map_to_delta_type(column.type)
    except InvalidValue:
        delta = None
    texts = {
        "name": column.name,
        "mysql_type": format_mysql_type(column.type),
        "delta_type": delta,
        "nullable": column.nullable,
        "default": column.default,
        "generated": (column.upstream or column).generated,
        "comment": column.comment,
    }
    return {name: replace_surrogates(text) for name, text in texts.items()}


def _with_ends(lines: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """End each version of a table where the next one begins."""
    by_table: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        by_table.setdefault(line["incarnation"], []).append(line)
    for table, versions in by_table.items():
        versions.sort(key=lambda line: line["valid_from"])
        for line, following in pairwise(versions):
            if table:
                line["valid_to"] = following["valid_from"]
    return [
        tuple(line[name] for name in _FIELDS) for versions in by_table.values() for line in versions
    ]


def write_tables(
    lake: LakeSession, before: Snapshot, state: State, versions: Mapping[str, int]
) -> None:
    """Write the catalog of tables if it has changed, as a whole: it is small.

    `versions` are the new Delta versions.  A reader that finds them before their snapshot is
    written sees the same rows as after it.
    """
    all_versions = {**before.versions, **versions}
    if before.state.incarnations == state.incarnations and before.versions == all_versions:
        return
    lines: list[tuple[Any, ...]] = [
        (
            table.id,
            table.schema.database,
            table.schema.table,
            find_folder(f"current/{table.id}"),
            all_versions.get(table.id),
            table.shown_status,
            table.shown_reason,
            table.complete_ts,
            table.created_ts,
            table.dropped_ts,
            table.schema.version,
            list(table.schema.key),
            len(table.schema.columns),
        )
        for table in state.incarnations.values()
    ]
    LakeWriter(lake.location).replace("tables", make_table(TABLES, lines))
