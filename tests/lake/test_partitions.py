"""Partition DDL of one window, where the partition of a row is not certain."""

from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import SparkSession

from tests.lake.canal import FEED, change, ddl, placed, row, watermark
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.stream.problem import ROWS_IN_WRONG_PARTITIONS

CREATE = "CREATE TABLE `{}` (id int primary key)"
RANGES = """ PARTITION BY RANGE (id)
    (PARTITION a VALUES LESS THAN (10), PARTITION b VALUES LESS THAN (20))"""
EXCHANGE = "ALTER TABLE t EXCHANGE PARTITION {} WITH TABLE `{}` WITHOUT VALIDATION"


@pytest.mark.parametrize(
    ("statement", "paused"),
    [
        ("ALTER TABLE t TRUNCATE PARTITION b", {"t"}),
        ("ALTER TABLE t DROP PARTITION b", {"t"}),
        (EXCHANGE.format("b", "w"), {"t", "w"}),
    ],
)
def test_partition_ddl_pauses_a_table_that_an_exchange_of_its_window_gave_other_rows(
    spark: SparkSession, tmp_path: Path, statement: str, paused: set[str]
) -> None:
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), FEED)
    sent = [
        ddl("d", "t", 1, "CREATE", CREATE.format("t") + RANGES),
        ddl("d", "u", 2, "CREATE", CREATE.format("u")),
        ddl("d", "w", 3, "CREATE", CREATE.format("w")),
        row("d", "t", 5, id="1"),
        # It belongs in partition b, and the exchange puts it into a.
        row("d", "u", 5, id="15"),
        row("d", "w", 5, id="16"),
        ddl("d", "t", 11, "ALTER", EXCHANGE.format("a", "u")),
        ddl("d", "t", 12, "ALTER", statement),
        watermark(20),
    ]

    done = advance(lake, RecordSource(lambda _: placed(sent))).applied

    reasons = {problem.table: problem.reason for problem in done.problems}
    assert reasons.keys() == paused
    assert all(ROWS_IN_WRONG_PARTITIONS in reason for reason in reasons.values())
    tables = read_last_snapshot(lake).state.incarnations.values()
    assert {t.schema.table for t in tables if t.status == "paused"} == paused


def test_a_new_partitioning_puts_every_row_where_it_belongs(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), FEED)
    sent = [
        ddl("d", "t", 1, "CREATE", CREATE.format("t") + RANGES),
        ddl("d", "u", 2, "CREATE", CREATE.format("u")),
        row("d", "u", 5, id="15"),
        ddl("d", "t", 11, "ALTER", EXCHANGE.format("a", "u")),
        ddl("d", "t", 12, "ALTER", "ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 2"),
        ddl("d", "t", 13, "ALTER", "ALTER TABLE t TRUNCATE PARTITION p0"),
        watermark(20),
    ]

    done = advance(lake, RecordSource(lambda _: placed(sent))).applied

    assert done.problems == []
    ids = {t.schema.table: t.id for t in read_last_snapshot(lake).state.incarnations.values()}
    assert [r["id"] for r in lake.read(f"current/{ids['t']}").collect()] == [15]


DECLARED = replace(
    FEED, ddl_time_zone=ZoneInfo("Asia/Tokyo"), default_collation="utf8mb4_general_ci"
)


@pytest.mark.parametrize(
    ("feed", "paused", "left"),
    [
        (
            FEED,
            {"k": "ddl-time-zone", "s": "default-collation"},
            ("2020-02-02 09:00:00", "2024-05-31 15:00:00"),
        ),
        (DECLARED, {}, ("2020-02-02 00:00:00", "2024-06-01 00:00:00")),
    ],
)
def test_what_a_ddl_takes_from_its_session_is_declared_or_uncertain(
    spark: SparkSession,
    tmp_path: Path,
    feed: Changefeed,
    paused: dict[str, str],
    left: tuple[str, str],
) -> None:
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), feed.id), feed)
    below = " PARTITION BY {} (PARTITION a VALUES {}, PARTITION b VALUES {})"
    moments = below.format(
        "RANGE (id)",
        "LESS THAN (UNIX_TIMESTAMP('1970-01-01 09:00:10'))",
        "LESS THAN (UNIX_TIMESTAMP('1970-01-02'))",
    )
    texts = below.format("LIST COLUMNS (s)", "IN ('a')", "IN ('b')")
    added = "ALTER TABLE z ADD COLUMN c TIMESTAMP NULL DEFAULT '2020-02-02 09:00:00'"
    sent = [
        ddl("d", "k", 1, "CREATE", CREATE.format("k") + moments),
        ddl("d", "s", 2, "CREATE", "CREATE TABLE s (id int primary key, s varchar(20))" + texts),
        ddl("d", "n", 3, "CREATE", CREATE.format("n") + RANGES),
        ddl("d", "z", 4, "CREATE", "CREATE TABLE z (id int primary key, m timestamp)"),
        *(row("d", "k", 5, id=id) for id in ("5", "15")),
        change("INSERT", "d", "z", 5, {"id": "5", "m": "2024-05-31 15:00:00"}, m="timestamp"),
        row("d", "s", 5, id="5", s="A"),
        row("d", "s", 5, id="15", s="b"),
        # No partition takes it, so the partitions must be others.
        row("d", "n", 5, id="50"),
        *(
            ddl("d", table, 11, "ALTER", f"ALTER TABLE {table} TRUNCATE PARTITION a")
            for table in ("k", "s", "n")
        ),
        ddl("d", "z", 12, "ALTER", added),
        ddl("d", "z", 13, "ALTER", "ALTER TABLE z MODIFY COLUMN m DATETIME"),
        watermark(20),
    ]

    done = advance(lake, RecordSource(lambda _: placed(sent))).applied

    reasons = {(p.kind, p.table, p.commit_ts): p.reason for p in done.problems}
    # Only the work on rows shows it, at the end of the window.
    expected = {("paused", "n", 20): "no partition takes one of the rows"} | {
        ("paused", table, 20): setting for table, setting in paused.items()
    }
    if feed is FEED:
        expected |= {("approximate", "z", 12): "column c", ("approximate", "z", 13): "column m"}
    assert reasons.keys() == expected.keys()
    assert all(word in reasons[key] for key, word in expected.items())
    tables = read_last_snapshot(lake).state.incarnations.values()
    current = {t.schema.table: lake.read(f"current/{t.id}") for t in tables if t.status == "live"}
    assert current.keys() == {"k", "s", "n", "z"} - {"n", *paused}
    for name in current.keys() & {"k", "s"}:
        assert [r["id"] for r in current[name].collect()] == [15]
    assert [tuple(r) for r in current["z"].selectExpr("string(c)", "string(m)").collect()] == [left]
