"""The current tables as sources of dbt, to be read by its adapter for DuckDB.

dbt takes most texts of such a file for templates: Jinja, and `external_location` for a format of
Python's, too.  Names, comments and paths are no templates, so they are escaped.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.changefeed.freshness import find_freshness
from ticdc_assets.events import TableSchema
from ticdc_assets.key_parts import CURRENT, make_table_path
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.rows.columns import (
    DELETED_TS,
    DeltaColumn,
    list_delta_columns,
    list_own_columns,
    measure_decimal,
)
from ticdc_assets.safe_text import escape_markdown
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.sql import quote_standard_text
from ticdc_assets.store.uris import format_uri

Properties = dict[str, Any]

_DUCKDB_TYPES = {
    "int": "INTEGER",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
    "string": "VARCHAR",
    "binary": "BLOB",
    "array<float>": "FLOAT[]",
}
_UNSAFE = re.compile(r"[^\w-]+")
# A value upstream that is no date is NULL in these.
_HOLDS_NO_ZERO_DATE = ("date", "timestamp", "timestamp_ntz")
# A value of a kept row that a later DDL could not convert is NULL.
_NOT_NULL_UPSTREAM = {"not_null": {"config": {"where": f"{DELETED_TS} IS NULL"}}}
# Jinja makes one line break of two characters.
_JINJA = re.compile(r"\{(?=[{%#])|\r")
# dbt quotes the names of columns in tests without escaping them, and renders them twice.
_UNQUOTABLE = re.compile(r'["{\r]')


@dataclass(frozen=True)
class DbtSources:
    """Describes the tables of a changefeed's lake."""

    feed: Changefeed
    lake: Lake

    def describe(self, tables: Iterable[Incarnation]) -> Properties:
        """Describe tables as a file of dbt's: a source per database."""
        ordered = sorted(tables, key=lambda table: (table.schema.database, table.schema.table))
        by_database = groupby(ordered, key=attrgetter("schema.database"))
        return {
            "version": 2,
            "sources": [self._describe_source(name, found) for name, found in by_database],
        }

    def _describe_source(self, database: str, tables: Iterable[Incarnation]) -> Properties:
        fresh = find_freshness(self.feed)
        return {
            "name": _make_name(database),
            "description": _escape(f"Tables of changefeed {self.feed.id}."),
            "config": {
                "freshness": {
                    "warn_after": _count_minutes(fresh.warn),
                    "error_after": _count_minutes(fresh.fail),
                }
            },
            "tables": [self._describe_table(table) for table in tables],
        }

    def _describe_table(self, table: Incarnation) -> Properties:
        schema = table.schema
        address = format_uri(self.lake.address(schema.database, schema.table))
        # A placeholder begins with a brace.
        location = _scan(address).replace("{", "{{").replace("}", "}}")
        key = make_table_path(self.feed.id, CURRENT, schema.database, schema.table)
        described: Properties = {
            "name": _make_name(schema.table),
            "description": _escape(_describe_status(table, address)),
            "config": {
                "loaded_at_query": _escape(self._query_resolved_ts(schema)),
                "meta": {
                    "external_location": _escape(location),
                    "dagster": {"asset_key": [_escape(part) for part in key]},
                },
            },
        }
        if tests := list(_test_key(schema)):
            described["data_tests"] = tests
        return described | {"columns": _describe_columns(table)}

    def _query_resolved_ts(self, schema: TableSchema) -> str:
        """Select the time up to which a table is complete.

        That is the lake's: a table without changes is as fresh as others.  One that stopped is
        complete up to there.
        """
        applied, tables = (
            _scan(format_uri(self.lake.path(name))) for name in ("applied", "tables")
        )
        database, table = map(quote_standard_text, (schema.database, schema.table))
        return (
            "SELECT epoch_ms(coalesce(max(stopped_ts) FILTER (status IN ('paused', 'waiting')),"
            f" (SELECT max(resolved_ts) FROM {applied})) >> 18) FROM {tables}"
            f' WHERE "database" = {database} AND "table" = {table} AND status <> \'dropped\''
        )


def _make_name(name: str) -> str:
    """Name a database or table: dbt makes names of tests from it, which may have no spaces."""
    safe = _UNSAFE.sub("_", name)
    if safe == name:
        return name
    return f"{safe.strip('_')[:40]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}".lstrip("_")


def _count_minutes(age: timedelta) -> Properties:
    return {"count": -(-age // timedelta(minutes=1)), "period": "minute"}


def _describe_status(table: Incarnation, address: str) -> str:
    reason = f": {escape_markdown(table.shown_reason)}" if table.shown_reason else ""
    return f"{table.shown_status}{reason}. Delta table: {address}"


def _describe_columns(table: Incarnation) -> list[Properties]:
    schema = table.schema
    key, by_name = schema.key, {column.name: column for column in schema.columns}
    described = []
    for column in list_delta_columns(schema, table.layout):
        one = _describe_column(column)
        is_known = not by_name[column.column].nullable and column.type not in _HOLDS_NO_ZERO_DATE
        tests: list[Any] = []
        if is_known:
            tests.append(_NOT_NULL_UPSTREAM if table.layout.archived else "not_null")
        if key == (column.column,):
            tests.append("unique")
        if tests and not _UNQUOTABLE.search(column.name):
            one["data_tests"] = tests
        described.append(one)
    return [*described, *map(_describe_column, list_own_columns(table.layout))]


def _describe_column(column: DeltaColumn) -> Properties:
    return {
        "name": _escape(column.name),
        "description": _escape(escape_markdown(column.comment)),
        "data_type": _name_type(column.type),
        "quote": True,
    }


def _test_key(schema: TableSchema) -> Iterator[Mapping[str, Any]]:
    """Test that the key of several columns is unique, which dbt itself can only do of a value."""
    names = {column.column: column.name for column in list_delta_columns(schema)}
    key = [names[name] for name in schema.key if name in names]
    if len(key) > 1 and len(key) == len(schema.key) and not any(map(_UNQUOTABLE.search, key)):
        value = ", ".join(f'"{name}"' for name in key)
        yield {"unique": {"arguments": {"column_name": f"row({value})"}}}


def _name_type(delta: str) -> str:
    """Name a type of Delta as DuckDB does."""
    if delta.startswith("decimal"):
        return "DECIMAL({},{})".format(*measure_decimal(delta))
    return _DUCKDB_TYPES.get(delta, delta.upper())


def _scan(address: str) -> str:
    return f"delta_scan({quote_standard_text(address)})"


def _escape(text: str) -> str:
    """Return a template of Jinja's for a text."""
    return _JINJA.sub(lambda match: f"{{{{ {match[0]!r} }}}}", text)
