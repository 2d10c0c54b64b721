"""Loading from a real TiDB while clients write and alter: rows of one TSO, then their changes."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lake.canal import FEED, placed
from tests.lake.test_load import read_rows
from tests.lake.tidb_feed import TidbFeed, busy, wait_for_writes
from tests.tidb_server import Tidb
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.lake.log.loads import read_loads
from ticdc_assets.load import upstream_pages, upstream_source
from ticdc_assets.load.load import TableResult, load_tables
from ticdc_assets.load.upstream_source import UpstreamSource
from ticdc_assets.resources.load_source import open_database
from ticdc_assets.resources.upstream import UpstreamDatabase
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.verify.verify import Environment, verify
from ticdc_assets.views.asof import as_of

PATTERNS = ("live.*", "!live.hid*")
# Clients write to them all the while, and each has an own way of finding its rows.
TABLES = {
    "clustered": "(id int PRIMARY KEY, v varchar(20))",
    "unclustered": "(id int, v varchar(20), PRIMARY KEY (id) NONCLUSTERED)",
    "by_row": "(id int NOT NULL, v varchar(20), UNIQUE KEY (id)) SHARD_ROW_ID_BITS = 4",
    "parts": "(id int PRIMARY KEY, v varchar(20)) PARTITION BY RANGE (id)"
    " (PARTITION p0 VALUES LESS THAN (200), PARTITION `p 1` VALUES LESS THAN (2000))",
    "hashed": "(id int PRIMARY KEY, v varchar(20)) PARTITION BY HASH (id) PARTITIONS 3",
}
# What happens to the others while the load reads.
ALTERED = {
    "grown": ("ALTER", "ALTER TABLE grown ADD COLUMN w int NOT NULL DEFAULT 7"),
    "shrunk": ("ALTER", "ALTER TABLE shrunk DROP COLUMN v"),
    "moved": ("RENAME", "RENAME TABLE moved TO moved_on"),
    "emptied": ("TRUNCATE", "TRUNCATE TABLE emptied"),
    "gone": ("ERASE", "DROP TABLE gone"),
    "parted": ("ALTER", "ALTER TABLE parted TRUNCATE PARTITION p0"),
    "typed": ("ALTER", "ALTER TABLE typed MODIFY COLUMN v varchar(40) NOT NULL DEFAULT 'x'"),
}
OF_PARTS = " PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (50), PARTITION p1 VALUES"
OF_PARTS += " LESS THAN (1000))"


@pytest.fixture
def feed(tidb: Tidb) -> TidbFeed:
    rows = ", ".join(f"({id}, 'v{id}')" for id in range(1, 101))
    tidb.run(
        *("DROP DATABASE IF EXISTS live", "CREATE DATABASE live", "USE live"),
        *(f"CREATE TABLE {name} {columns}" for name, columns in TABLES.items()),
        *(
            f"CREATE TABLE {name} (id int PRIMARY KEY, v varchar(20))"
            + OF_PARTS * (name == "parted")
            for name in ALTERED
        ),
        *(f"INSERT INTO {name} VALUES {rows}" for name in ALTERED),
        "CREATE TABLE hidden (id int PRIMARY KEY)",
        "CREATE TABLE keyless (v int)",
        "CREATE VIEW seen AS SELECT 1",
        "CREATE SEQUENCE numbers",
    )
    return TidbFeed(tidb, "live")


@pytest.fixture
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> LakeSession:
    declared = replace(FEED, start_ts=1, filter_rules=PATTERNS)
    # Rows are few: Spark starts only if a table is to count as large.
    return LakeSession(
        lambda: request.getfixturevalue("spark"), Lake(str(tmp_path / "lake"), "f"), declared
    )


@contextmanager
def opened(lake: LakeSession, server: Tidb, ts: int | None = None) -> Iterator[UpstreamSource]:
    with open_database(UpstreamDatabase("f", server.upstream), lake.feed, ts) as source:
        yield source


def list_rows(server: Tidb, table: str, ts: int) -> list[dict[str, str | None]]:
    """List the rows that the server shows at a TSO, each value as a text."""
    found = server.read_at(ts, f"SHOW COLUMNS FROM live.{table}")
    names = [name if isinstance(name, str) else name.decode() for name, *_ in found]
    rows = server.read_at(ts, f"SELECT * FROM live.{table}")
    return sorted(
        ({n: None if v is None else str(v) for n, v in zip(names, r, strict=True)} for r in rows),
        key=lambda row: int(row["id"] or ""),
    )


def show(lake: LakeSession) -> dict[str, list[dict[str, str | None]]]:
    """Return the rows of the tables that the newest snapshot has."""
    seen = as_of(lake)
    return {
        table.schema.table: sorted(
            map(json.loads, seen.lines(table)), key=lambda row: int(row["id"])
        )
        for table in seen.tables()
    }


def test_a_load_has_the_rows_of_its_tso_while_clients_write_and_alter_and_changes_follow(
    tidb: Tidb, feed: TidbFeed, lake: LakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_pages, "_ROWS_PER_PAGE", 20)
    monkeypatch.setattr(upstream_source, "_BYTES_PER_PORTION", 1)
    with busy(feed, *TABLES) as clients:
        with opened(lake, tidb) as source:
            ts, spend, changed = source.read_ts(), source.snapshot.pace.spend, dict[str, int]()

            def alter(rows: int) -> None:
                # One after the other, as pages come: some tables are read already, some are not.
                with lock:
                    left = [name for name in ALTERED if name not in changed]
                    if left:
                        changed[left[0]] = feed.alter(left[0], *ALTERED[left[0]])
                spend(rows)

            lock = threading.Lock()
            source.snapshot.pace.spend = alter  # type: ignore[method-assign]
            results = {result.name: result for result in load_tables(lake, source)}
        assert set(changed) == set(ALTERED)
        assert min(changed.values()) > ts
        wait_for_writes(clients)

    left_out = results.pop("live.keyless")
    assert left_out.outcome == "left out"
    loaded = {load.schema.table: load for load in read_loads(LakeReader(lake.location))}
    assert set(loaded) == {*TABLES, *ALTERED} == {name[5:] for name in results}
    for table, load in loaded.items():
        expected = list_rows(tidb, table, ts)
        assert results[f"live.{table}"] == TableResult(f"live.{table}", "loaded", len(expected))
        assert load.ts == ts
        assert sorted(read_rows(lake, load), key=lambda row: int(row["id"] or "")) == expected
    assert sorted(source.skipped) == [
        ("live.numbers", "a sequence"),
        ("live.seen", "a view: it has no rows of its own"),
    ]

    until = tidb.now()
    done = advance(lake, RecordSource(lambda _: placed(feed.messages(until))))
    assert done.applied.problems == []
    names = {*TABLES, *ALTERED, "moved_on"} - {"moved", "gone"}
    assert show(lake) == {table: list_rows(tidb, table, until) for table in names}

    database = UpstreamDatabase("f", tidb.upstream)
    environment = Environment(
        LakeReader(lake.location), lake.feed, lambda: lake, database.open_snapshot
    )
    found = list(verify(environment, (), lambda _: None))
    assert {each.table: (each.verdict, each.reason) for each in found} == dict.fromkeys(
        names, ("equal", None)
    )
