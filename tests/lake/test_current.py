"""Current tables: row counts from Delta's log, and rows without a key."""

from collections import Counter
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.lake.readers import READERS
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import Column, ColumnType, Index, TableSchema
from ticdc_assets.lake.apply import table_features
from ticdc_assets.lake.apply.current_table import CurrentTable
from ticdc_assets.lake.apply.exact_texts import MAP
from ticdc_assets.rows.columns import COMMIT_TS, INEXACT, list_delta_columns
from ticdc_assets.rows.merging import PUT
from ticdc_assets.store.delta_log import count_rows
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader

FEED = changefeed_from_uri("file:///nowhere?protocol=canal-json", id="f")
SCHEMA = TableSchema(
    "d",
    "t",
    (Column("id", ColumnType("int"), nullable=False), Column("v", ColumnType("int"))),
    (Index("PRIMARY", ("id",), unique=True, primary=True),),
)


def test_rows_are_counted_from_the_log_as_a_reader_counts_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = LakeSession(spark, Lake(str(tmp_path / "a b% `c"), "f"), FEED)
    table = CurrentTable(lake, "t1")
    rows = spark.range(100).selectExpr("cast(id as int) id", "1 v", "5L _commit_ts")
    table.write_whole(rows.where("id < 0"), SCHEMA, "")
    spark.sql(
        f"ALTER TABLE {table.sql} SET TBLPROPERTIES"
        " ('delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '5')"
    ).collect()
    table.append(rows, "")
    spark.sql(f"DELETE FROM {table.sql} WHERE id % 10 = 0").collect()
    spark.sql(f"UPDATE {table.sql} SET v = 2 WHERE id % 10 = 1").collect()
    final = spark.sql("SELECT id < 95 `⌗put`, id, 3 v, 9L _commit_ts FROM range(91, 120)")
    final = final.selectExpr("`⌗put`", "cast(id as int) id", "v", "_commit_ts")
    final = final.unionAll(final.selectExpr("true", "id + 100", "v", "_commit_ts"))
    table.merge(final, SCHEMA)
    spark.sql(f"OPTIMIZE {table.sql}").collect()
    table.write_whole(rows.limit(7), SCHEMA, "")
    spark.sql(f"DELETE FROM {table.sql} WHERE id = 1").collect()
    reader = LakeReader(lake.location)
    versions = range(table.version + 1)
    counts = [READERS["delta-rs 1.6"](table.path, version).num_rows for version in versions]
    assert [count_rows(reader, "current/t1", version) for version in versions] == counts
    assert counts[:5] == [0, 0, 100, 90, 90]
    assert 0 < counts[-1] < 7
    assert list(Path(table.path, "_delta_log").glob("*.checkpoint*.parquet"))
    with pytest.raises(ConfigError, match=r"version \d+ is not in the Delta log"):
        count_rows(reader, "current/t1", table.version + 1)


# Each value may be any column's NULL, and names may be what a merge calls its own.
KEYLESS = TableSchema(
    "d",
    "k",
    (
        Column("#put", ColumnType("int")),
        Column("a.b", ColumnType("varchar")),
        Column("#copies", ColumnType("double")),
        Column("on", ColumnType("datetime")),
        Column("bytes", ColumnType("blob")),
    ),
)
VALUES: tuple[list[Any], ...] = (
    [None, 0, 7],
    [None, "", "NULL", "é`'"],
    [None, 0.0, 1.5],
    [None, datetime(1000, 1, 1), datetime(2024, 2, 29, 12)],
    [None, b"", b"\0\xff"],
    # The exact text of the second column.
    [None, (("a.b", "\\xff"),), (("a.b", "\\xfe"),)],
)


def plain(value: Any) -> Any:
    """A value as `VALUES` has it."""
    if isinstance(value, dict):
        return tuple(value.items())
    return bytes(value) if isinstance(value, bytearray) else value


def test_rows_without_a_key_are_replaced_copy_by_copy(spark: SparkSession, tmp_path: Path) -> None:
    random = Random(1)
    pool = sorted({tuple(map(random.choice, VALUES)) for _ in range(40)}, key=repr)
    there = Counter({row: random.choice([0, 1, 1, 2, 5]) for row in pool})
    table = CurrentTable(LakeSession(spark, Lake(str(tmp_path), "f"), FEED), "k1")
    types = [f"`{c.name}` {c.type}" for c in list_delta_columns(KEYLESS)]
    stored = ", ".join([*types, f"{COMMIT_TS} bigint", f"{INEXACT} {MAP}"])

    def add_ts(row: tuple[Any, ...], ts: int) -> tuple[Any, ...]:
        *values, exact = row
        return (*values, ts, exact and dict(exact))

    table.write_whole(spark.createDataFrame([], stored), KEYLESS, "")
    for _ in range(3):
        rows = [add_ts(row, 5) for row in there.elements()]
        table.append(spark.createDataFrame(rows, stored), "")
    there = Counter({row: 3 * count for row, count in there.items()})
    for ts in (6, 7):
        gone = random.sample(pool, 20)
        put = random.choices(pool, k=15)
        listed = [(*add_ts(row, ts), False) for row in gone]
        listed += [(*add_ts(row, ts), True) for row in put]
        table.merge(spark.createDataFrame(listed, f"{stored}, `{PUT}` boolean"), KEYLESS)
        there = Counter({row: there[row] for row in pool if row not in gone}) + Counter(put)
        rows = table.rows(table.version).drop(COMMIT_TS)
        found = Counter(tuple(map(plain, row)) for row in rows.collect())
        assert found == +there


@pytest.mark.parametrize("large", [False, True])
def test_only_files_with_removed_rows_are_rewritten(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    monkeypatch.setattr(table_features, "LARGE_TABLE", -1 if large else 1 << 20)
    table = CurrentTable(LakeSession(spark, Lake(str(tmp_path), "f"), FEED), "k2")
    schema = TableSchema("d", "k", (Column("v", ColumnType("int")),))
    table.write_whole(spark.sql("SELECT 1 v, 5L _commit_ts WHERE false"), schema, "")
    for start in (0, 100, 200):
        rows = spark.sql(f"SELECT int(id % 50 + {start}) v, 5L _commit_ts FROM range(100)")
        table.append(rows.coalesce(1), "")
    assert table.adapt_to_size(schema) == large
    before = set(DeltaTable(table.path).file_uris())
    listed = spark.sql(
        f"SELECT 103 v, 9L _commit_ts, false `{PUT}`"
        " UNION ALL SELECT explode(array(103, 999, 999)), 9L, true"
    )
    table.merge(listed, schema)
    after = table.rows(table.version)
    # The file that 103 is in has a deletion vector, in a large table; only it is written again.
    assert len(before - set(DeltaTable(table.path).file_uris())) == (0 if large else 1)
    counts = Counter(row["v"] for row in after.where("v IN (103, 104, 999)").collect())
    assert counts == {103: 1, 104: 2, 999: 2}
    assert after.count() == 301
