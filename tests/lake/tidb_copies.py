"""Copies compared with a real TiDB, of which the lake has no row."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from tests.lake.copies import compare
from tests.lake.upstream_copy import UpstreamCopy, read_schema
from tests.sql_server import SqlServer
from ticdc_assets.log.verifications import TableVerification
from ticdc_assets.resources.upstream import UpstreamDatabase
from ticdc_assets.upstream.snapshot import Row


def know(lake: UpstreamCopy, *ddls: str) -> None:
    """Let the lake know tables, of which it has no row."""
    for ddl in ddls:
        lake.put_images(read_schema("shop", ddl), [])


@contextmanager
def acting(server: SqlServer, act: Callable[[int], None], ts: int | None) -> Iterator[Any]:
    """Open the database, and act before each query, by its number."""
    with UpstreamDatabase("f", server.upstream).open_snapshot(ts) as snapshot:
        query, count = snapshot.query, iter(range(1_000_000))

        def act_and_query(sql: str) -> Sequence[Row]:
            act(next(count))
            return query(sql)

        snapshot.query = act_and_query  # type: ignore[method-assign]
        yield snapshot


def against(
    lake: UpstreamCopy,
    server: SqlServer,
    uri: str,
    *tables: str,
    act: Callable[[int], None] = lambda number: None,
    **options: Any,
) -> list[TableVerification]:
    return compare(lake, uri, *tables, open_upstream=partial(acting, server, act), **options)
