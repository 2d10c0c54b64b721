"""Loading from a real TiDB while clients write and alter: rows of one TSO, then their changes."""

import re
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from tests.lake.tidb_feed import TidbFeed, TidbLake, busy, read_truth, wait_for_writes
from tests.tidb_server import Tidb
from ticdc_assets.errors import ConfigError
from ticdc_assets.load import upstream_pages, upstream_source
from ticdc_assets.load.load import TableResult, load_tables
from ticdc_assets.load.upstream_source import open_upstream_source
from ticdc_assets.upstream.snapshot import UpstreamSnapshot

OpenSnapshot = Callable[[int | None], AbstractContextManager[UpstreamSnapshot]]
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
def lake(request: pytest.FixtureRequest, tmp_path: Path, feed: TidbFeed) -> TidbLake:
    start_spark = partial(request.getfixturevalue, "spark")
    return TidbLake.make(feed, tmp_path / "lake", start_spark, filter_rules=PATTERNS)


def test_a_load_has_the_rows_of_its_tso_while_clients_write_and_alter_and_changes_follow(
    tidb: Tidb, feed: TidbFeed, lake: TidbLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_pages, "_ROWS_PER_PAGE", 20)
    monkeypatch.setattr(upstream_source, "_BYTES_PER_PORTION", 1)
    with busy(feed, *TABLES) as clients:
        with lake.open_source() as source:
            ts, spend, changed = source.read_ts(), source.snapshot.pace.spend, dict[str, int]()
            lock = threading.Lock()

            def alter(rows: int) -> None:
                # One after the other, as pages come: some tables are read already, some are not.
                with lock:
                    left = [name for name in ALTERED if name not in changed]
                    if left:
                        changed[left[0]] = feed.alter(left[0], *ALTERED[left[0]])
                spend(rows)

            source.snapshot.pace.spend = alter  # type: ignore[method-assign]
            results = {result.name: result for result in load_tables(lake.session, source)}
        assert set(changed) == set(ALTERED)
        assert min(changed.values()) > ts
        wait_for_writes(clients)

    left_out = results.pop("live.keyless")
    assert left_out.outcome == "left out"
    loaded = lake.read_loaded()
    assert set(loaded) == {*TABLES, *ALTERED} == {name[5:] for name in results}
    for table, found in loaded.items():
        expected = read_truth(feed, table, ts)
        assert results[f"live.{table}"] == TableResult(f"live.{table}", "loaded", len(expected))
        assert found == (ts, expected)
    assert sorted(source.skipped) == [
        ("live.numbers", "a sequence"),
        ("live.seen", "a view: it has no rows of its own"),
    ]

    until = tidb.now()
    assert lake.advance(until) == []
    names = {*TABLES, *ALTERED, "moved_on"} - {"moved", "gone"}
    assert lake.show() == {table: read_truth(feed, table, until) for table in names}
    verdicts = {name: found.verdict for name, found in lake.verify().items()}
    assert verdicts == dict.fromkeys(names, "equal")


def test_as_of_the_middle_of_a_ddl_a_table_is_as_it_was_before_or_is_not_loaded(
    tidb: Tidb, feed: TidbFeed, lake: TidbLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_source, "_POLL_INTERVAL", 0.0)
    hidden = []
    for table, (kind, sql) in ALTERED.items():
        before = read_truth(feed, table, tidb.now())
        done = feed.alter(table, kind, sql)
        if table in ("moved", "gone"):
            # Readers see it no more, or by another name.
            with pytest.raises(ConfigError, match=f"has no table live.{table}"):
                lake.load(done - 1, f"live.{table}")
            continue
        (result,) = lake.load(done - 1, f"live.{table}").values()
        if result.outcome == "failed":
            assert sql in (result.reason or "")
            hidden.append(table)
            # The reason says as of when it can be loaded.
            at = re.search(r"--at (\d+)", result.reason or "")
            assert at is not None
            assert lake.load(int(at[1]), f"live.{table}")[f"live.{table}"].outcome == "loaded"
        assert lake.read_loaded()[table][1] == before, table

        # A load that may choose takes a TSO at which the DDL has ended.
        takes = [done - 1, done]
        database = lake.database

        def open_snapshot(
            ts: int | None, takes: list[int] = takes, open: OpenSnapshot = database.open_snapshot
        ) -> AbstractContextManager[UpstreamSnapshot]:
            return open(takes.pop(0))

        names = [f"live.{table}"]
        with open_upstream_source(
            open_snapshot, "h:4000", lake.session.feed, None, names
        ) as source:
            assert source.snapshot.ts == (done if table in hidden else done - 1)
    assert "shrunk" in hidden
