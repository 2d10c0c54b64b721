"""The workers of Spark."""

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import SparkSession


def test_workers_use_the_allocator_of_the_c_library(spark: SparkSession) -> None:
    def name_allocator(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            name = pa.default_memory_pool().backend_name
            yield pa.RecordBatch.from_pydict({"name": [name] * batch.num_rows})

    (row,) = spark.range(1).mapInArrow(name_allocator, "name string").collect()
    assert row["name"] == "system"
