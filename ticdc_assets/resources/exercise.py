"""Run one statement of each kind that a run needs, so that Java has loaded and compiled their code.

`python -m ticdc_assets.resources.exercise` does so in the session that a run would have.
"""

import tempfile
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from ticdc_assets.resources.spark import close_session, get_session
from ticdc_assets.store.work_size import FEW_ROWS


def exercise(spark: SparkSession, folder: str) -> None:
    """Write, merge and read a table in a folder that does not exist yet."""
    table = f"delta.`{folder}`"
    spark.sql(
        f"CREATE TABLE {table} (id bigint, a string, at timestamp) USING delta CLUSTER BY (id)"
    )
    rows = spark.range(9).mapInArrow(_pass, "id bigint")
    rows = rows.selectExpr("id", "string(id) a", "now() at")
    rows.write.format("delta").mode("append").save(folder)
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT id, max_by(a, at) a FROM {table} GROUP BY id) s"
        " ON t.id = s.id WHEN MATCHED AND s.id = 3 THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET a = s.a"
        " WHEN NOT MATCHED THEN INSERT (id, a) VALUES (s.id, s.a)"
    )
    spark.sql(
        f"SELECT *, row_number() OVER (PARTITION BY a ORDER BY at) FROM {table} t"
        f" LEFT ANTI JOIN {table} s ON t.id = s.id + 1"
    ).collect()
    spark.sql(f"SELECT from_json(to_json(struct(*)), 'id bigint').id FROM {table}").toArrow()
    few = spark.createDataFrame(pa.table({"id": [1, 2], "a": ["x", None]}))
    few.selectExpr("id", "row_number() OVER (PARTITION BY id ORDER BY a) AS nth").toArrow()


def _pass(batches: Iterable[Any]) -> Iterable[Any]:
    yield from batches


def main() -> None:
    """Exercise the session that a run would have."""
    spark = get_session(settings=FEW_ROWS)
    with tempfile.TemporaryDirectory() as scratch:
        exercise(spark, f"{scratch}/table")
    close_session(spark)


if __name__ == "__main__":
    main()
