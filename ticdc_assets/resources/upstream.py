"""Read the upstream database: TiDB at any TSO, MySQL and MariaDB as they are now.

A connection only reads.  TiDB reads at a TSO with `tidb_snapshot`, with which it accepts no write;
the others get a read-only transaction with a consistent snapshot.  All values come back as bytes.

Where TiDB chooses the TSO, one more connection keeps the transaction open that has it: as long as
that is open, TiDB's garbage collection keeps its rows (up to `tidb_gc_max_wait_time`).
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.converters import escape_bool
from pymysql.cursors import SSCursor
from pymysql.err import InterfaceError, MySQLError

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.changefeed.upstream import Upstream
from ticdc_assets.errors import ConfigError
from ticdc_assets.resources.reference import read_reference
from ticdc_assets.resources.server_session import LONG, Server
from ticdc_assets.resources.tls import is_of_tls, list_for_mysql, require_files
from ticdc_assets.safe_text import describe_error
from ticdc_assets.upstream.snapshot import (
    Pace,
    Row,
    RowsUnreadable,
    SnapshotTooOld,
    TableUnreadable,
    TooMuchMemory,
    UpstreamError,
    UpstreamRows,
    UpstreamSnapshot,
)
from ticdc_assets.upstream.sql import decode

# In seconds.  A query reads a bounded range of a table; without an index on it, the whole table.
_CONNECT_TIMEOUT = 10
_READ_TIMEOUT = 3600
# Without TiDB: for a lock on a table that another session holds, LOCK TABLES … WRITE or DDL.
_LOCK_WAIT = 30
# "… can't retry" and "GC life time is shorter than …": the snapshot is older than TiDB keeps.
_TOO_OLD = (8055, 9006)
# No connection, or one that broke.
_LOST = (1040, 1053, 2003, 2006, 2013)
DENIED = (1044, 1045, 1227)
# Of one table: SELECT denied, unknown column, no such table, its definition has changed.
_UNREADABLE = (1142, 1143, 1054, 1146, 1356, 1412)
# Of the rows that a query names, however often it is sent: no such database, table or column, a
# value or a statement that the server does not accept, texts that cannot be compared.
_OF_ROWS = (1049, 1054, 1064, 1146, 1264, 1267, 1292, 1300, 1356, 1366, 3854, 3988)
# `tidb_mem_quota_query`, which the server's text names.
_NO_MEMORY = 8175
# No lock on a table in time.
_LOCKED = 1205
_FUTURE = "read timestamp to a future time"
_NO_SAFE_POINT = "can not get 'tikv_gc_safe_point'"
_BEGIN = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
# Rows that a stream yields at a time: as many, or as many bytes.
_ROWS_AT_A_TIME, _BYTES_AT_A_TIME = 10_000, 8 << 20


@dataclass(frozen=True)
class UpstreamDatabase:
    """The declared database of a changefeed, and how much load it may get."""

    feed: str
    upstream: Upstream
    max_connections: int = 4
    rows_per_second: int | None = None

    @contextmanager
    def open_snapshot(self, ts: int | None) -> Iterator[UpstreamSnapshot]:
        """Open the database as it was at a TSO, by default the newest; without TiDB, as it is now.

        Without TiDB, `ts` is what the caller says of this moment.
        """
        with ExitStack() as connections:
            first = self._connect(connections)
            server = self._identify(first)
            is_tidb = server.is_tidb
            opened = [first]
            if is_tidb and ts is None:
                ts = _Reader(self, first, server).hold_newest()
                opened = [self._connect(connections)]
            # Snapshots of two transactions differ; those of one TSO are the same.
            count = self.max_connections if is_tidb else 1
            opened += (self._connect(connections) for _ in range(count - 1))
            tso = ts if is_tidb else None
            readers = [_Reader(self, connection, server, tso) for connection in opened]
            for reader in readers:
                reader.begin()
            yield UpstreamSnapshot(readers, Pace(self.rows_per_second), is_tidb=is_tidb, ts=ts)

    @contextmanager
    def open_rows(self) -> Iterator[UpstreamRows]:
        """Open a connection on which rows are read at one TSO after the other."""
        with ExitStack() as connections:
            connection = self._connect(connections)
            server = self._identify(connection)
            rows = _Rows(self, connection, server.is_tidb)
            server.set_up(rows.query)
            yield rows

    def _connect(self, connections: ExitStack) -> pymysql.Connection:
        stated = self.upstream
        setting = self.place("password")
        password = (
            read_reference(stated.password, setting=setting) if stated.password is not None else ""
        )
        require_files(stated.tls, self.place)
        try:
            connection = pymysql.connect(
                host=stated.host,
                port=stated.port,
                user=stated.user,
                # As bytes: pymysql takes text for Latin-1, and clients of MySQL send UTF-8.
                password=password.encode(),
                charset="utf8mb4",
                use_unicode=False,
                # Nothing is converted: every value is what the server wrote.  The client itself
                # sends a number where a server begins transactions by default.
                conv={bool: escape_bool},
                connect_timeout=_CONNECT_TIMEOUT,
                read_timeout=_READ_TIMEOUT,
                write_timeout=_CONNECT_TIMEOUT,
                autocommit=True,
                local_infile=False,
                **list_for_mysql(stated.tls),
            )
        except (MySQLError, OSError) as error:
            raise self.explain(error) from None
        connections.callback(_close, connection)
        return connection

    def _identify(self, connection: pymysql.Connection) -> Server:
        ((version,),) = _Rows(self, connection, is_tidb=False).query("SELECT VERSION()")
        return Server(decode(version).lower())

    def place(self, setting: str = "") -> str:
        """Name a setting of the declaration."""
        return f"changefeed {self.feed}.upstream" + (f": {setting}" if setting else "")

    def advise(self, code: int) -> str:
        """Say what to do about a connection that the server denies, or that is lost."""
        if code in DENIED:
            return "check user and password, and grant it SELECT on the tables"
        return f"{self.upstream.address} must be reachable; run it again to continue"

    def explain(self, error: Exception) -> UpstreamError:
        """Make an error that names the setting and what to do."""
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        text = str(error.args[1]) if len(error.args) > 1 else str(error)
        # What the client says of a connection that broke before is empty.
        reason = describe_error(RuntimeError(text or "the connection is lost"))
        if code in _TOO_OLD:
            fix = "TiDB no longer has the rows of this TSO: take a newer one, or raise"
            return SnapshotTooOld(f"{reason}; {fix} tidb_gc_life_time", setting=self.place())
        if _NO_SAFE_POINT in text:
            fix = "TiDB reads no past before its garbage collector has run: run it again later"
            return UpstreamError(f"{reason}; {fix}", setting=self.place())
        if is_of_tls(text):
            fix = "check ca, cert and key: the server's certificate must be of ca and for its host"
            return UpstreamError(f"{reason}; {fix}", setting=self.place("ca"))
        if code in DENIED:
            return UpstreamError(f"{reason}; {self.advise(code)}", setting=self.place("user"))
        if code in _UNREADABLE:
            return TableUnreadable(reason, setting=self.place("user"))
        if code == _NO_MEMORY:
            return TooMuchMemory(reason, setting=self.place())
        if code == _LOCKED:
            fix = "another session locks the table, or changes its definition: run it again later"
            return TableUnreadable(f"{reason}; {fix}", setting=self.place())
        if code in _LOST or isinstance(error, OSError | InterfaceError):
            return UpstreamError(f"{reason}; {self.advise(code)}", setting=self.place("host"))
        return UpstreamError(reason, setting=self.place())


@dataclass(frozen=True)
class _Reader:
    """One connection: at a TSO of TiDB, or else in a transaction."""

    database: UpstreamDatabase
    connection: pymysql.Connection
    server: Server
    tso: int | None = None

    def begin(self) -> None:
        self.server.set_up(self.query)
        if self.tso is not None:
            self.query(f"SET @@tidb_snapshot = '{self.tso}'")
            return
        self.query(f"SET SESSION net_write_timeout = {LONG}")
        self.query(f"SET SESSION lock_wait_timeout = {_LOCK_WAIT}")
        self.query("SET SESSION TRANSACTION READ ONLY")
        self.query(_BEGIN)

    def hold_newest(self) -> int:
        """Begin a transaction of TiDB's that stays open, and return its TSO."""
        self.query(f"SET SESSION wait_timeout = {LONG}")
        self.query("START TRANSACTION")
        ((ts,),) = self.query("SELECT @@tidb_current_ts")
        if not int(ts or 0):
            raise UpstreamError("TiDB states no TSO: give --at", setting=self.database.place())
        return int(ts or 0)

    def renew(self) -> None:
        # With `tidb_snapshot`, there is no transaction.
        if self.tso is None:
            self.query("COMMIT")
            self.query(_BEGIN)

    def query(self, sql: str) -> Sequence[Row]:
        self._revive()
        try:
            return _execute(self.connection, sql)
        except (MySQLError, OSError) as error:
            raise self.database.explain(error) from None

    def stream(self, sql: str) -> Generator[Sequence[Row]]:
        self._revive()
        cursor = self.connection.cursor(SSCursor)
        has_ended = False
        try:
            cursor.execute(sql)
            yield from _fetch(cursor)
            has_ended = True
        except (MySQLError, OSError) as error:
            raise self.database.explain(error) from None
        finally:
            if not has_ended and self._can_end():
                # Else closing the cursor reads the rest, also of a connection that broke.
                result: Any = cursor._result
                if result is not None:
                    result.unbuffered_active = False
                _close(self.connection)
            cursor.close()

    def _can_end(self) -> bool:
        """Whether closing the connection loses no transaction."""
        return self.tso is not None or not self.connection.open

    def _revive(self) -> None:
        """Connect again, where a new connection reads the same rows."""
        if self.tso is None or self.connection.open:
            return
        try:
            self.connection.connect()
        except (MySQLError, OSError) as error:
            raise self.database.explain(error) from None
        self.begin()


def _fetch(cursor: SSCursor) -> Iterator[Sequence[Row]]:
    """Yield rows as they come, in lists of bounded size."""
    rows: list[Row] = []
    size = 0
    while (row := cursor.fetchone()) is not None:
        rows.append(row)
        size += sum(map(len, filter(None, row)))
        if len(rows) >= _ROWS_AT_A_TIME or size >= _BYTES_AT_A_TIME:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


@dataclass(frozen=True)
class _Rows:
    """A connection that reads at any TSO."""

    database: UpstreamDatabase
    connection: pymysql.Connection
    is_tidb: bool

    def read_at(self, ts: int) -> None:
        self.query(f"SET @@tidb_snapshot = '{ts}'")

    def query(self, sql: str, values: Sequence[str] | None = None) -> Sequence[Row]:
        try:
            return _execute(self.connection, sql, None if values is None else tuple(values))
        except (MySQLError, OSError) as error:
            code, text = error.args[0] if error.args else 0, describe_error(error)
            if code in _OF_ROWS or _FUTURE in text:
                raise RowsUnreadable(text) from None
            raise self.database.explain(error) from None


def _execute(
    connection: pymysql.Connection, sql: str, values: tuple[str, ...] | None = None
) -> Sequence[Row]:
    """Run a query and return all of its rows."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        rows: Any = cursor.fetchall()
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
        reason = (
            "declares no database upstream: add [changefeed.upstream], with host and user, to its"
            " declaration"
        )
        raise ConfigError(reason, setting=f"changefeed {feed.id}")
    limits = {"max_connections": max_connections, "rows_per_second": rows_per_second}
    for name, limit in limits.items():
        # A rate of 0 or less would mean no limit.
        if limit is not None and limit < 1:
            raise ConfigError("must be a positive number", setting=name)
    return UpstreamDatabase(feed.id, feed.upstream, max_connections, rows_per_second)
