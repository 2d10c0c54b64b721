"""Copies in databases: DuckDB files, and servers of PostgreSQL's and MySQL's protocols."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote as quote_url

import duckdb
import pyarrow as pa

from ticdc_assets.changefeed.upstream import Upstream
from ticdc_assets.resources.copy_names import Template
from ticdc_assets.resources.reference import read_reference
from ticdc_assets.resources.tls import SETTINGS as TLS_SETTINGS
from ticdc_assets.resources.tls import require_files, write_for_postgresql
from ticdc_assets.resources.upstream import UpstreamDatabase
from ticdc_assets.safe_text import describe_error, redact
from ticdc_assets.upstream.snapshot import TableUnreadable, UpstreamError
from ticdc_assets.upstream.sql import decode, quote_text
from ticdc_assets.verify.batches import RowSource, SqlTable

_SETTING = "--against"

_ROWS_PER_BATCH = 65_536
# DuckDB's row groups have 122,880 rows each.
_ROWS_PER_UNIT = 16 * 122_880
# Types that Arrow has, too.
_PLAIN_IN_DUCKDB = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"),
    *("UBIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_NS"),
    *("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP WITH TIME ZONE", "BLOB", "VARCHAR"),
)
_PLAIN_IN_POSTGRES = (
    *("int2", "int4", "int8", "float4", "float8", "bool", "bytea", "date", "time"),
    *("timestamp", "timestamptz", "_text", "_varchar", "_float4", "_float8"),
)


def quote_name(name: str) -> str:
    """Quote a name in standard SQL."""
    return '"' + name.replace('"', '""') + '"'


class QueriedRows:
    """A table of which an SQL query per unit gives the rows as Arrow."""

    def __init__(
        self,
        columns: Mapping[str, str],
        units: Sequence[str],
        query: Callable[[str], AbstractContextManager[pa.RecordBatchReader]],
        state: str | None,
    ) -> None:
        """`columns` are expressions by name, and `units` what follows after FROM."""
        self._expressions = columns
        self._units = units
        self._query = query
        self.state = state
        self.bytes_read = 0
        with query(f"SELECT {', '.join(columns.values())} FROM {units[0]} LIMIT 0") as rows:
            self.columns = dict(zip(columns, rows.schema.types, strict=True))

    @property
    def units(self) -> int:
        return len(self._units)

    def read(self, unit: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        listed = ", ".join(self._expressions[name] for name in columns)
        with self._query(f"SELECT {listed} FROM {self._units[unit]}") as rows:
            for batch in rows:
                self.bytes_read += batch.nbytes
                yield batch.rename_columns(list(columns))


# --- DuckDB ------------------------------------------------------------------


@dataclass(frozen=True)
class DuckDbCopy:
    """A DuckDB file."""

    path: str
    templates: Sequence[Template]

    @property
    def shown(self) -> str:
        return redact(f"duckdb:{self.path}")

    @contextmanager
    def open(self, database: str, table: str) -> Iterator[RowSource | None]:
        try:
            if not os.path.isfile(self.path):
                raise TableUnreadable(f"there is no file {self.path}", setting=_SETTING)
            with duckdb.connect(self.path, read_only=True) as connection:
                yield self._open(connection, database, table)
        except duckdb.Error as error:
            raise TableUnreadable(describe_error(error), setting=_SETTING) from None

    def _open(
        self, connection: duckdb.DuckDBPyConnection, database: str, table: str
    ) -> RowSource | None:
        for template in self.templates:
            schema, name = template.fill_parts(database, table, "main")
            columns = connection.execute(
                "SELECT column_name, data_type FROM information_schema.columns"
                " WHERE table_schema = ? AND table_name = ? AND table_catalog = current_database()"
                " ORDER BY ordinal_position",
                [schema, name],
            ).fetchall()
            if columns:
                return self._open_table(connection, schema, name, columns)
        return None

    def _open_table(
        self,
        connection: duckdb.DuckDBPyConnection,
        schema: str,
        name: str,
        columns: Sequence[tuple[str, str]],
    ) -> RowSource:
        place = f"{quote_name(schema)}.{quote_name(name)}"
        found = connection.execute(
            "SELECT estimated_size FROM duckdb_tables() WHERE schema_name = ? AND table_name = ?"
            " AND database_name = current_database()",
            [schema, name],
        ).fetchone()
        units = [place]
        if found is not None and all(column.lower() != "rowid" for column, _ in columns):
            # A view has no row ids, nor a table whose own column is named so.  Rows that were
            # deleted leave gaps in them.
            (last,) = connection.execute(f"SELECT max(rowid) FROM {place}").fetchone() or (None,)
            starts = range(0, (last or 0) + 1, _ROWS_PER_UNIT)
            units = [f"{place} WHERE rowid >= {n} AND rowid < {n + _ROWS_PER_UNIT}" for n in starts]
        expressions = {column: _write_duckdb(column, type) for column, type in columns}
        stat = os.stat(self.path)

        @contextmanager
        def query(sql: str) -> Iterator[pa.RecordBatchReader]:
            yield connection.cursor().execute(sql).to_arrow_reader(_ROWS_PER_BATCH)

        state = f"{stat.st_size} {stat.st_mtime_ns} {place}"
        return QueriedRows(expressions, units, query, state)


def _write_duckdb(name: str, type: str) -> str:
    is_plain = type in _PLAIN_IN_DUCKDB or type.startswith("DECIMAL(") or type.endswith("[]")
    return quote_name(name) if is_plain else f"{quote_name(name)}::VARCHAR"


# --- PostgreSQL --------------------------------------------------------------


@dataclass(frozen=True)
class PostgresCopy:
    """A database of PostgreSQL's protocol."""

    server: Upstream
    dbname: str
    templates: Sequence[Template]

    @property
    def shown(self) -> str:
        return f"postgresql://{quote_url(self.server.user)}@{self.server.address}/{self.dbname}"

    @contextmanager
    def open(self, database: str, table: str) -> Iterator[RowSource | None]:
        from adbc_driver_postgresql import dbapi

        require_files(self.server.tls, _place)
        try:
            with dbapi.connect(self._make_uri()) as connection:
                # The first statement of a transaction, in which all passes see the same rows.
                with connection.cursor() as cursor:
                    for statement in _POSTGRES_SESSION:
                        cursor.execute(statement)
                yield self._open(connection, database, table)
        except dbapi.Error as error:
            raise UpstreamError(describe_error(error), setting=_SETTING) from None

    def _make_uri(self) -> str:
        server = self.server
        user = quote_url(server.user, safe="")
        if server.password is not None:
            password = read_reference(server.password, setting=_SETTING)
            user += f":{quote_url(password, safe='')}"
        tls = write_for_postgresql(server.tls)
        return f"postgresql://{user}@{server.address}/{quote_url(self.dbname, safe='')}{tls}"

    def _open(self, connection: Any, database: str, table: str) -> RowSource | None:
        for template in self.templates:
            schema, name = template.fill_parts(database, table, "public")
            with connection.cursor() as cursor:
                cursor.execute(_POSTGRES_COLUMNS.format(*map(_quote_literal, (schema, name))))
                columns = cursor.fetchall()
            if columns:
                place = f"{quote_name(schema)}.{quote_name(name)}"
                expressions = {column: _write_postgres(column, type) for column, type in columns}
                # No other connection would see the rows of this moment.
                return QueriedRows(expressions, [place], _querying(connection), None)
        return None


_POSTGRES_SESSION = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL TimeZone = 'UTC'",
    "SET LOCAL IntervalStyle = 'postgres'",
)
_POSTGRES_COLUMNS = """SELECT a.attname::text, t.typname::text FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_type t ON t.oid = a.atttypid
    WHERE n.nspname = {} AND c.relname = {} AND a.attnum > 0 AND NOT a.attisdropped
    AND c.relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY a.attnum"""


def _quote_literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _querying(connection: Any) -> Callable[[str], AbstractContextManager[pa.RecordBatchReader]]:
    @contextmanager
    def query(sql: str) -> Iterator[pa.RecordBatchReader]:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            yield cursor.fetch_record_batch()

    return query


def _write_postgres(name: str, type: str) -> str:
    column = quote_name(name)
    if type in _PLAIN_IN_POSTGRES:
        return column
    if type in ("bit", "varbit"):
        # Its bytes, the most significant one first.
        return f"int8send(lpad({column}::text, 64, '0')::bit(64)::int8)"
    return f"{column}::text"


# --- MySQL -------------------------------------------------------------------


def _place(setting: str = "") -> str:
    """Name the option of a setting of a server."""
    return f"--{setting}" if setting in TLS_SETTINGS else _SETTING


class _CopyDatabase(UpstreamDatabase):
    """A server of which errors name the option."""

    def place(self, setting: str = "") -> str:
        return _place(setting)


@dataclass(frozen=True)
class MySqlCopy:
    """A database of MySQL's protocol, which hashes its rows itself."""

    server: Upstream
    schema: str
    templates: Sequence[Template]

    @property
    def shown(self) -> str:
        return f"mysql://{quote_url(self.server.user)}@{self.server.address}/{self.schema}"

    @contextmanager
    def open(self, database: str, table: str) -> Iterator[SqlTable | None]:
        with _CopyDatabase("", self.server).open_snapshot(None) as snapshot:
            for template in self.templates:
                schema, name = template.fill_parts(database, table, self.schema)
                found = snapshot.query(
                    "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
                    f" WHERE TABLE_SCHEMA = {quote_text(schema)}"
                    f" AND TABLE_NAME = {quote_text(name)}"
                )
                if found:
                    yield SqlTable(snapshot, decode(found[0][0]), decode(found[0][1]))
                    return
            yield None
