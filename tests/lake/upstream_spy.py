"""The connections of a lake to a real TiDB, and what they were given to do."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.sql_server import SqlServer
from ticdc_assets.resources.upstream import UpstreamDatabase
from ticdc_assets.upstream.snapshot import Row, UpstreamRows


@dataclass
class UpstreamSpy:
    """An upstream that remembers."""

    server: SqlServer
    read: list[int] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    connections: int = 0

    @contextmanager
    def open(self) -> Iterator[UpstreamRows]:
        self.connections += 1
        with UpstreamDatabase("f", self.server.upstream).open_rows() as rows:
            yield self.wrap(rows)

    def wrap(self, rows: UpstreamRows) -> UpstreamRows:
        return SpiedRows(self, rows)


@dataclass
class SpiedRows:
    spy: UpstreamSpy
    rows: UpstreamRows

    @property
    def is_tidb(self) -> bool:
        return self.rows.is_tidb

    def read_at(self, ts: int) -> None:
        self.spy.read.append(ts)
        self.rows.read_at(ts)

    def query(self, sql: str, values: Sequence[str] | None = None) -> Sequence[Row]:
        self.spy.sent.append(sql)
        return self.rows.query(sql, values)
