"""Rows read from a table's data files in this process are those that Spark reads."""

from pathlib import Path

import duckdb
import numpy
import pyarrow as pa
import pytest
from pyarrow import fs
from pyspark.sql import SparkSession

from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.errors import ConfigError
from ticdc_assets.reading.files import StoredTable
from ticdc_assets.store.deletion_vector import read_deleted_rows
from ticdc_assets.store.delta_log import DeletionVector
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import StoredRows

FEED = changefeed_from_uri("file:///nowhere?protocol=canal-json", id="f")
FEATURES = {
    "delta.columnMapping.mode": "name",
    "delta.enableDeletionVectors": "true",
    "delta.enableTypeWidening": "true",
}
ROWS = 210_000
# Every kind of container of a roaring bitmap: array, bitset, and run.  The last condition makes
# runs in several neighbouring blocks of 65,536 rows.
DELETED = (
    "id % 5000 = 7",
    "id BETWEEN 70000 AND 120000 AND id % 3 = 1 OR id BETWEEN 130000 AND 200000",
)


def read(lake: LakeSession, version: int) -> pa.Table:
    """Read a table, rows by their ids."""
    stored = StoredRows(LakeReader(lake.location), "current/t1", version)
    assert stored.unknown_features == set()
    blocks = [pa.table(block) for block in stored.read()]
    rows = pa.concat_tables(blocks, promote_options="permissive") if blocks else pa.table({})
    return rows.sort_by("id") if rows.num_rows else pa.table({})


def read_with_spark(lake: LakeSession, version: int) -> pa.Table:
    path = lake.current_path("t1")
    rows = lake.spark.read.format("delta").option("versionAsOf", version).load(path).orderBy("id")
    return pa.table(rows.toArrow())


def create(lake: LakeSession, columns: str) -> None:
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in FEATURES.items())
    lake.spark.sql(
        f"CREATE TABLE delta.`{lake.current_path('t1')}` ({columns}) USING delta"
        f" TBLPROPERTIES ({listed})"
    )


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> LakeSession:
    return LakeSession(spark, Lake(str(tmp_path / "a b% [c]*"), "f"), FEED)


def test_deleted_rows_are_left_out_however_they_are_listed(lake: LakeSession) -> None:
    spark, path = lake.spark, lake.current_path("t1")
    create(lake, "id bigint")
    # One file of several row groups.
    rows = spark.range(ROWS).coalesce(1).write.format("delta").mode("append")
    rows.option("parquet.block.size", "200000").save(path)
    for condition in DELETED:
        spark.sql(f"DELETE FROM delta.`{path}` WHERE {condition}").collect()
    # What Spark itself is to read, as arrays: the rows are many.
    ids = numpy.arange(ROWS)
    is_bit = (ids >= 70_000) & (ids <= 120_000) & (ids % 3 == 1)
    is_run = (ids >= 130_000) & (ids <= 200_000)
    deleted = numpy.zeros(ROWS, bool)
    for version, more in enumerate((deleted, ids % 5000 == 7, is_bit | is_run), 1):
        deleted = deleted | more
        assert numpy.array_equal(read(lake, version)["id"].to_numpy(), ids[~deleted]), version
    left = lake.spark.read.format("delta").load(path)
    assert left.count() == ROWS - deleted.sum()
    newest = max(Path(path).glob("**/*.bin"), key=lambda file: file.stat().st_mtime_ns)
    newest.write_bytes(newest.read_bytes()[:-7] + b"damaged")
    with pytest.raises(ConfigError, match="a deletion vector has another checksum"):
        read(lake, 1 + len(DELETED))
    last = StoredRows(LakeReader(lake.location), "current/t1", 1 + len(DELETED))
    assert last.has_files
    newest.unlink()
    assert not last.has_files


def test_columns_are_those_of_the_version_whatever_the_age_of_a_file(lake: LakeSession) -> None:
    spark, path = lake.spark, lake.current_path("t1")
    columns = "id int, `a.b` string, d decimal(5,2), gone int, m map<string, string>"
    create(lake, columns)
    table = f"delta.`{path}`"
    for statement in (
        f"INSERT INTO {table} VALUES (1, 'x', 1.25, 5, map('k', 'v')), (2, NULL, NULL, 6, NULL)",
        f"ALTER TABLE {table} RENAME COLUMN `a.b` TO `c,d`",
        f"ALTER TABLE {table} DROP COLUMN gone",
        f"ALTER TABLE {table} ADD COLUMN (gone string FIRST)",
        f"ALTER TABLE {table} ALTER COLUMN id TYPE bigint",
        f"ALTER TABLE {table} ALTER COLUMN d TYPE decimal(12,4)",
        f"INSERT INTO {table} VALUES ('new', {1 << 40}, 'y', 7.0625, NULL)",
    ):
        spark.sql(statement).collect()
    # Each has what all statements before it did to the columns.
    for version in (0, 1, 3, 6, 7):
        expected = read_with_spark(lake, version).to_pydict() if version else {}
        assert read(lake, version).to_pydict() == expected, version


def test_duckdb_scans_files_without_deleted_rows_by_itself(lake: LakeSession) -> None:
    spark, path = lake.spark, lake.current_path("t1")
    table = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {table} (id bigint, `a.b` string, _commit_ts bigint) USING delta"
        " TBLPROPERTIES ('delta.columnMapping.mode' = 'name',"
        " 'delta.enableDeletionVectors' = 'true')"
    )
    for statement in (
        f"INSERT INTO {table} SELECT id, concat('x', id), 1 FROM range(0, 100, 1, 1)",
        f'ALTER TABLE {table} RENAME COLUMN `a.b` TO `c,"d`',
        f"INSERT INTO {table} SELECT id, concat('y', id), 2 FROM range(100, 200, 1, 1)",
        f"DELETE FROM {table} WHERE id > 190",
    ):
        spark.sql(statement).collect()
    stored = StoredRows(LakeReader(lake.location), "current/t1", 4)
    schema = pa.schema(
        {"ID": pa.int64(), 'c,"d': pa.string(), "_commit_ts": pa.int64(), "later": pa.float32()}
    )
    readable = StoredTable(stored, schema)
    expected = [(n, f"{'xy'[n // 100]}{n}", 1 + n // 100, None) for n in range(191)]
    with duckdb.connect() as connection:
        relation = readable.duckdb(connection)
        assert sorted(relation.fetchall()) == expected
        wanted = relation.filter(duckdb.ColumnExpression("ID") >= 99)
        assert sorted(wanted.fetchall()) == expected[99:]
        assert wanted.explain().count("ARROW_SCAN") == 4
    rows = readable.arrow()
    assert rows.schema == schema
    assert sorted(zip(*rows.to_pydict().values(), strict=True)) == expected
    # No file has this column, and the rows count all the same.
    assert readable.arrow(["later"]).num_rows == len(expected)


# The bitmap of the example in Delta's protocol, in the format that Delta writes, in Z85.
INLINE = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"


def test_a_vector_in_the_log_is_read() -> None:
    vector = DeletionVector("i", INLINE, 6)

    assert read_deleted_rows(fs.LocalFileSystem(), vector).tolist() == [3, 4, 7, 11, 18, 29]


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        (DeletionVector("i", INLINE, 7), "6 rows"),
        (DeletionVector("i", INLINE[:30], 6), "damaged"),
        # The format of the example itself, which Delta no longer writes.
        (
            DeletionVector("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 6),
            "another format",
        ),
        (DeletionVector("i", "~", 6), "damaged"),
        (DeletionVector("p", "s3://other/file.bin", 6), "Spark alone"),
    ],
)
def test_a_damaged_vector_is_an_error(vector: DeletionVector, reason: str) -> None:
    with pytest.raises(OSError, match=reason):
        read_deleted_rows(fs.LocalFileSystem(), vector)
