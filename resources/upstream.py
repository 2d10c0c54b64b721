"""Read the upstream database: TiDB at any TSO, MySQL and MariaDB as they are now.

A connection only reads.  TiDB reads at a TSO with `tidb_snapshot`, with which it accepts no write;
the others get a read-only transaction with a consistent snapshot.  All values come back as bytes.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.err import MySQLError

from resources.reference import read_reference
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.changefeed.upstream import Upstream
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.events.large_rows import RowsUnreadable, UpstreamRows
from ticdc_assets.lake.verify.side import Value
from ticdc_assets.lake.verify.upstream_side import (
    Pace,
    SnapshotTooOld,
    TableUnreadable,
    UpstreamSnapshot,
)
from ticdc_assets.safe_text import describe_error

# In seconds.  A query reads a bounded range of a table; without an index on it, the whole table.
_CONNECT_TIMEOUT = 10
_READ_TIMEOUT = 3600
# "… can't retry" and "GC life time is shorter than …": the snapshot is older than TiDB keeps.
_TOO_OLD = (8055, 9006)
# No connection, or one that broke.
_LOST = (1040, 1053, 2003, 2006, 2013)
_DENIED = (1044, 1045, 1227)
# Of one table: SELECT denied, unknown column, no such table, its definition has changed.
_UNREADABLE = (1142, 1143, 1054, 1146, 1356, 1412)
# Of the rows that a query names, however often it is sent: no such database, table or column, a
# value or a statement that the server does not accept, texts that cannot be compared.
_OF_ROWS = (1049, 1054, 1064, 1146, 1264, 1267, 1292, 1300, 1356, 1366, 3854, 3988)
_FUTURE = "read timestamp to a future time"
_BEGIN = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
# What every connection sets: values as the server has them, whatever its own settings are.
_SESSION = (
    "SET SESSION sql_mode = ''",
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
)


@dataclass(frozen=True)
class UpstreamDatabase:
    """The declared database of a changefeed, and how much load it may get."""

    feed: str
    upstream: Upstream
    max_connections: int = 4
    rows_per_second: int | None = None

    @contextmanager
    def open_snapshot(self, ts: int) -> Iterator[UpstreamSnapshot]:
        """Open the database as it was at a TSO, or as it is now if it is not TiDB."""
        with ExitStack() as connections:
            first = self._connect(connections)
            is_tidb = b"tidb" in self._ask_version(first).lower()
            # Snapshots of two transactions differ; those of one TSO are the same.
            count = self.max_connections if is_tidb else 1
            opened = [first, *(self._connect(connections) for _ in range(count - 1))]
            readers = [_Reader(self, connection, is_tidb) for connection in opened]
            for reader in readers:
                reader.begin(ts)
            yield UpstreamSnapshot(readers, Pace(self.rows_per_second), is_tidb=is_tidb)

    @contextmanager
    def open_rows(self) -> Iterator[UpstreamRows]:
        """Open a connection on which rows are read at one TSO after the other."""
        with ExitStack() as connections:
            connection = self._connect(connections)
            rows = _Rows(self, connection, b"tidb" in self._ask_version(connection).lower())
            reader = _Reader(self, connection)
            for statement in _SESSION:
                reader.query(statement)
            yield rows

    def _connect(self, connections: ExitStack) -> pymysql.Connection:
        stated = self.upstream
        setting = self.place("password")
        password = (
            read_reference(stated.password, setting=setting) if stated.password is not None else ""
        )
        if stated.ca is not None and not os.access(stated.ca, os.R_OK):
            raise ConfigError(f"the file cannot be read: {stated.ca}", setting=self.place("ca"))
        try:
            connection = pymysql.connect(
                host=stated.host,
                port=stated.port,
                user=stated.user,
                password=password,
                charset="utf8mb4",
                use_unicode=False,
                # Nothing is converted: every value is what the server wrote.
                conv={},
                connect_timeout=_CONNECT_TIMEOUT,
                read_timeout=_READ_TIMEOUT,
                write_timeout=_CONNECT_TIMEOUT,
                autocommit=True,
                local_infile=False,
                ssl_ca=stated.ca,
                ssl_verify_cert=stated.ca is not None,
                ssl_verify_identity=stated.ca is not None,
                ssl_disabled=stated.ca is None,
            )
        except (MySQLError, OSError) as error:
            raise self.explain(error) from None
        connections.callback(_close, connection)
        return connection

    def _ask_version(self, connection: pymysql.Connection) -> bytes:
        rows = _Reader(self, connection).query("SELECT VERSION()")
        return rows[0][0] or b""

    def place(self, setting: str = "") -> str:
        """Name a setting of the declaration."""
        return f"changefeed {self.feed}.upstream" + (f": {setting}" if setting else "")

    def explain(self, error: Exception) -> ConfigError:
        """Make an error that names the setting and what to do."""
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        text = str(error.args[1]) if len(error.args) > 1 else str(error)
        reason = describe_error(RuntimeError(text))
        if code in _DENIED:
            fix = "check user and password, and grant it SELECT on the tables"
            return ConfigError(f"{reason}; {fix}", setting=self.place("user"))
        if code in _UNREADABLE:
            return TableUnreadable(reason, setting=self.place("user"))
        if code in _LOST or isinstance(error, OSError):
            fix = f"{self.upstream.address} must be reachable; then run it again to continue"
            return ConfigError(f"{reason}; {fix}", setting=self.place("host"))
        return ConfigError(reason, setting=self.place())


@dataclass(frozen=True)
class _Reader:
    """One connection."""

    database: UpstreamDatabase
    connection: pymysql.Connection
    is_tidb: bool = False

    def begin(self, ts: int) -> None:
        for statement in _SESSION:
            self.query(statement)
        if self.is_tidb:
            self.query(f"SET @@tidb_snapshot = '{ts}'")
            return
        self.query("SET SESSION TRANSACTION READ ONLY")
        self.query(_BEGIN)

    def renew(self) -> None:
        # With `tidb_snapshot`, there is no transaction.
        if not self.is_tidb:
            self.query("COMMIT")
            self.query(_BEGIN)

    def query(self, sql: str) -> Sequence[tuple[Value, ...]]:
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(sql)
                rows: Any = cursor.fetchall()
        except (MySQLError, OSError) as error:
            if error.args and error.args[0] in _TOO_OLD:
                raise SnapshotTooOld(describe_error(error)) from None
            raise self.database.explain(error) from None
        return tuple(rows)


@dataclass(frozen=True)
class _Rows:
    """A connection that reads at any TSO."""

    database: UpstreamDatabase
    connection: pymysql.Connection
    is_tidb: bool

    def read_at(self, ts: int) -> None:
        self.query(f"SET @@tidb_snapshot = '{ts}'")

    def query(self, sql: str, values: Sequence[str] | None = None) -> Sequence[tuple[Value, ...]]:
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(sql, None if values is None else tuple(values))
                rows: Any = cursor.fetchall()
        except (MySQLError, OSError) as error:
            code, text = error.args[0] if error.args else 0, describe_error(error)
            if code in _OF_ROWS or _FUTURE in text:
                raise RowsUnreadable(text) from None
            if code in _TOO_OLD:
                raise SnapshotTooOld(text) from None
            raise self.database.explain(error) from None
        return tuple(rows)


def _close(connection: pymysql.Connection) -> None:
    """Close a connection; one that is lost is closed already."""
    if connection.open:
        connection.close()


def find_upstream(
    feed: Changefeed, *, max_connections: int = 4, rows_per_second: int | None = None
) -> UpstreamDatabase:
    """Return the database that a changefeed declares; raise a `ConfigError` if it declares none."""
    if feed.upstream is None:
        reason = "is missing: declare the database in [changefeed.upstream], with host and user"
        raise ConfigError(reason, setting=f"changefeed {feed.id}.upstream")
    return UpstreamDatabase(feed.id, feed.upstream, max_connections, rows_per_second)
