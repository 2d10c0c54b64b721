"""The database upstream at one moment, on connections of `ticdc_assets.resources.upstream`."""

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from ticdc_assets.errors import ConfigError

# The values of a row, each as the server wrote it.
Row = tuple[bytes | None, ...]


class UpstreamError(ConfigError):
    """The database did not do what it had to; names the setting and what to do."""


class SnapshotTooOld(UpstreamError):
    """The server no longer keeps the rows of this TSO."""


class TableUnreadable(UpstreamError):
    """A table that the user may not read, that is locked, or whose definition has just changed."""


class TooMuchMemory(UpstreamError):
    """A query of one table needs more memory than the server grants it."""


class RowsUnreadable(Exception):
    """What the server cannot show at any time: such a table, such rows."""


class UpstreamRows(Protocol):
    """A connection that only reads, at one TSO after the other."""

    @property
    def is_tidb(self) -> bool: ...
    def read_at(self, ts: int) -> None:
        """Let the next queries read at a TSO; raise as `query` does."""
        ...

    def query(self, sql: str, values: Sequence[str] | None = None) -> Sequence[Row]:
        """Run a query; with parameters, their places are %s, and %% is a percent sign.

        Raise `SnapshotTooOld`, `RowsUnreadable`, or a `ConfigError` if it may work later.
        """
        ...


OpenUpstream = Callable[[], AbstractContextManager[UpstreamRows]]


class Reader(Protocol):
    """A connection that only reads, at one moment."""

    def query(self, sql: str) -> Sequence[Row]: ...
    def stream(self, sql: str) -> Generator[Sequence[Row]]:
        """Run a query and yield its rows as they come, some at a time; to be closed."""
        ...

    def renew(self) -> None:
        """Begin another transaction: a long one holds locks that make DDL upstream wait."""


class Pace:
    """Keeps the rows that upstream reads to a number per second, over all connections."""

    def __init__(self, rows_per_second: int | None) -> None:
        self._seconds_per_row = 1 / rows_per_second if rows_per_second else 0.0
        self._lock = threading.Lock()
        self._free_at = 0.0

    def spend(self, rows: int) -> None:
        """Wait until as much time has passed as these rows may take."""
        with self._lock:
            self._free_at = max(self._free_at, time.monotonic()) + rows * self._seconds_per_row
            pause = self._free_at - time.monotonic()
        if self._seconds_per_row and pause > 0:
            time.sleep(pause)


class UpstreamSnapshot:
    """The database at one moment, on one or more connections.

    `ts` is the TSO of the moment; None where the server has none.
    """

    def __init__(
        self, readers: Sequence[Reader], pace: Pace, *, is_tidb: bool, ts: int | None = None
    ) -> None:
        self.is_tidb = is_tidb
        self.ts = ts
        self.pace = pace
        self.connections = len(readers)
        # What `query` took; its callers are several threads.
        self.statements = 0
        self.bytes_received = 0
        self._lock = threading.Lock()
        self._free: queue.SimpleQueue[Reader] = queue.SimpleQueue()
        for reader in readers:
            self._free.put(reader)

    @contextmanager
    def borrow(self) -> Iterator[Reader]:
        """Wait for a connection that is free, and keep it."""
        reader = self._free.get()
        try:
            yield reader
        finally:
            self._free.put(reader)

    def query(self, sql: str) -> Sequence[Row]:
        """Run a query on a connection that is free."""
        with self.borrow() as reader:
            rows = reader.query(sql)
        size = sum(len(value) for row in rows for value in row if value is not None)
        with self._lock:
            self.statements += 1
            self.bytes_received += size
        return rows

    def renew(self) -> None:
        """Let go of what was read; no query may be running."""
        for _ in range(self.connections):
            with self.borrow() as reader:
                reader.renew()
