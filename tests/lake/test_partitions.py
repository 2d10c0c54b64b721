"""Partition DDL of one window, where rows lie in other partitions than their values say."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.lake.canal import FEED, ddl, placed, row, watermark
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.lake.log.applied import read_last_snapshot
from ticdc_assets.lake.store.lake import Lake, LakeSession
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

    done = advance(lake, RecordSource(lambda: placed(sent))).applied

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

    done = advance(lake, RecordSource(lambda: placed(sent))).applied

    assert done.problems == []
    ids = {t.schema.table: t.id for t in read_last_snapshot(lake).state.incarnations.values()}
    assert [r["id"] for r in lake.read(f"current/{ids['t']}").collect()] == [15]
