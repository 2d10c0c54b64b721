"""What Delta's log tells of a current table is what counting its rows tells."""

from itertools import combinations_with_replacement
from pathlib import Path

from pyspark.sql import SparkSession

from ticdc_assets.events import Column, ColumnType, Index, TableSchema
from ticdc_assets.lake.current import CurrentTable, growth, row_counts
from ticdc_assets.lake.tables import Lake

SCHEMA = TableSchema(
    "d",
    "t",
    (Column("id", ColumnType("int"), nullable=False), Column("v", ColumnType("int"))),
    (Index("PRIMARY", ("id",), unique=True, primary=True),),
)


def test_growth_is_the_difference_of_counts(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "a b%20`c"), "f")
    table = CurrentTable(spark, lake, "t1")
    table.create(SCHEMA)
    rows = spark.range(100).selectExpr("cast(id as int) id", "1 v", "5L _commit_ts")
    table.append(rows)
    spark.sql(f"DELETE FROM {table.sql} WHERE id % 10 = 0").collect()
    spark.sql(f"UPDATE {table.sql} SET v = 2 WHERE id % 10 = 1").collect()
    final = spark.sql("SELECT id < 95 `#put`, id, 3 v, 9L _commit_ts FROM range(91, 120)")
    final = final.selectExpr("`#put`", "cast(id as int) id", "v", "_commit_ts")
    table.merge(
        final.unionAll(final.selectExpr("true", "id + 100", "v", "_commit_ts")), SCHEMA, ["id"]
    )
    spark.sql(f"OPTIMIZE {table.sql}").collect()
    told = table.version
    table.overwrite(rows.limit(7), SCHEMA)
    counts = [table.count(version) for version in range(table.version + 1)]
    assert counts[:4] == [0, 100, 90, 90]
    assert counts[-1] == 7
    assert row_counts(spark, lake, {"t1": 2}) == {"t1": 90}
    for since, through in combinations_with_replacement(range(len(counts)), 2):
        grew = growth(spark, lake, {"t1": (since, through)})
        right = {"t1": counts[through] - counts[since]}
        # What overwrites does not tell how many rows there were.
        assert grew == right or (through > told and grew == {})
    assert growth(spark, lake, {}) == {}
