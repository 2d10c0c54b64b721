"""The database upstream has to let its user read the tables of the changefeed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.made_lake import schema, write_tables
from tests.mariadb_server import MariaDb
from tests.servers import HOST
from ticdc_assets.changefeed import Changefeed, changefeed_from_uri
from ticdc_assets.changefeed.client_settings import Reference
from ticdc_assets.changefeed.upstream import Upstream
from ticdc_assets.resources.inspect_upstream import inspect_upstream
from ticdc_assets.resources.upstream import UpstreamDatabase
from ticdc_assets.store.lake import Lake
from ticdc_assets.upstream.snapshot import Row, RowsUnreadable

FEED = changefeed_from_uri("file:///x?protocol=csv", id="shop")


def inspect(feed: Changefeed, root: Path) -> list[str]:
    found = inspect_upstream(feed, str(root))
    assert {(f.changefeed, f.subject) for f in found} <= {("shop", "upstream")}
    assert all(f.fix is None for f in found if f.result == "ok")
    return [f"{f.result}: {f.setting or ''}: {f.message}" for f in found]


def test_a_changefeed_without_a_database_has_no_finding(tmp_path: Path) -> None:
    assert inspect(FEED, tmp_path) == []


def test_a_user_needs_the_right_to_read(
    mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    users = ("check_reader", "check_writer", "check_nobody")
    mariadb.run(
        "CREATE DATABASE check_rights",
        "CREATE TABLE check_rights.orders (id int PRIMARY KEY)",
        "CREATE TABLE check_rights.`a``b` (id int PRIMARY KEY)",
        *(f"CREATE USER {user}@'%' IDENTIFIED BY 'pw-{user}-0123'" for user in users),
        "GRANT SELECT ON check_rights.* TO check_reader@'%'",
        "GRANT SELECT ON check_rights.orders TO check_writer@'%'",
        "GRANT INSERT ON check_rights.* TO check_writer@'%'",
    )
    server = f"MySQL or MariaDB at {HOST}:{mariadb.port}"
    place = "changefeed shop.upstream: user"
    for user, password, said in (
        ("check_reader", "pw-check_reader-0123", f"ok: : {server} shows this user 2 tables"),
        ("check_writer", "pw-check_writer-0123", f"failure: {place}: cannot read check_rights.a`b"),
        ("check_nobody", "pw-check_nobody-0123", f"failure: {place}: {server} shows this user no"),
        ("check_reader", "pw-of-somebody-else", f"failure: {place}: Access denied"),
    ):
        monkeypatch.setenv("SHOP_PASSWORD", password)
        upstream = Upstream(HOST, user, mariadb.port, Reference("env", "SHOP_PASSWORD"))
        (finding,) = inspect(replace(FEED, upstream=upstream), tmp_path)
        assert finding.startswith(said)
        assert password not in finding


class Rows:
    """A database that shows three tables, and lets nobody read one of them."""

    is_tidb = True

    def __init__(self) -> None:
        self.moments: list[int] = []

    def read_at(self, ts: int) -> None:
        self.moments.append(ts)

    def query(self, sql: str, values: Sequence[str] | None = None) -> Sequence[Row]:
        if "information_schema" in sql:
            return [(b"Shop", b"Orders"), (b"shop", b"secret"), (b"other", b"t")]
        if "NOW" in sql:
            return [(b"1700000000000",)]
        if "`secret`" in sql or "tidb_ddl_job" in sql:
            raise RowsUnreadable("denied")
        return []


def test_tables_of_the_lake_that_the_database_does_not_show_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = Rows()

    @contextmanager
    def open_rows(_: object) -> Iterator[Rows]:
        yield rows

    monkeypatch.setattr(UpstreamDatabase, "open_rows", open_rows)
    feed = replace(FEED, upstream=Upstream("h", "u"), filter_rules=("shop.*",))
    # Names differ in case alone, and dropped tables are gone upstream, too.
    tables = [schema("shop", name) for name in ("orders", "gone", "lost")]
    write_tables(Lake(str(tmp_path), "shop"), tables, gone="dropped")
    place = "changefeed shop.upstream: user"
    hidden, *found = inspect(feed, tmp_path)
    assert hidden.startswith(f"warning: {place}: which DDL TiDB is in the middle of is not known")
    assert found == [
        f"failure: {place}: cannot read shop.secret",
        f"warning: {place}: TiDB at h:4000 does not show this user shop.lost of the lake",
    ]
    assert rows.moments == [1700000000000 << 18]
