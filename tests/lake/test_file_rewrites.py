"""Data files are written again without some rows, whatever Delta features their table has."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from ticdc_assets.store.delta_log import LOG_FOLDER, read_newest_state
from ticdc_assets.store.file_rewrites import FileRewrite, RowChoice, commit_rewrite
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.purge import purge
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import StoredRows

_FEATURES = (
    "'delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name',"
    " 'delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported'"
)
_OF_LOAD = 2


def test_rows_go_that_a_deletion_vector_deletes_and_a_kept_version_is_written_in_its_place(
    spark: SparkSession, tmp_path: Path
) -> None:
    reader = LakeReader(Lake(str(tmp_path), "f"))
    path = reader.location.path("t")
    table = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} (`a b` INT, v STRING) USING delta TBLPROPERTIES ({_FEATURES})")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN `a b` TYPE BIGINT")
    rows = spark.range(10, numPartitions=1).selectExpr("id AS `a b`", "concat('row ', id) AS v")
    rows.write.format("delta").mode("append").save(path)
    # Version 2 is what a load wrote, say; row 3 is deleted by a vector since, and 5 is there.
    spark.sql(f"DELETE FROM {table} WHERE `a b` IN (3, 4)")
    found = read_newest_state(reader, "t")
    assert found is not None
    (version, state), names = found, StoredRows(reader, "t", found[0]).physical_names
    assert [file.deleted_rows for file in state.files] == [2]
    assert names["v"] != "v"
    gone = pa.array(["row 3", "row 5"])

    def choose(rows: pa.Table) -> pa.Array:
        return pc.is_in(rows[names["v"]], value_set=gone).combine_chunks()

    rewrite = FileRewrite(reader, "t", RowChoice((names["v"],), choose))
    assert commit_rewrite(rewrite) == version + 1
    assert commit_rewrite(rewrite) == version + 1
    assert purge(rewrite, lambda: None, (_OF_LOAD,)) is not None
    spark.catalog.clearCache()
    kept = [0, 1, 2, 6, 7, 8, 9]
    for option, ids in (({}, kept), ({"versionAsOf": _OF_LOAD}, sorted([*kept, 4]))):
        read = spark.read.format("delta").options(**option).load(path).orderBy("a b").collect()
        assert [tuple(row) for row in read] == [(id, f"row {id}") for id in ids]
    # Spark goes on with the table.
    spark.sql(f"INSERT INTO {table} VALUES (99, 'new')")
    assert spark.read.format("delta").load(path).count() == len(kept) + 1
    for file in Path(path).rglob("*.parquet"):
        if file.parent.name != LOG_FOLDER:
            texts = pq.read_table(file)[names["v"]].to_pylist()
            assert not {"row 3", "row 5"} & {*texts}
    logs = b"".join(file.read_bytes() for file in (Path(path) / LOG_FOLDER).glob("*.json"))
    assert b"row 0" in logs
    assert len(list((Path(path) / LOG_FOLDER).glob("0*.json"))) == 3
