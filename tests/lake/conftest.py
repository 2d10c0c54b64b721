"""The session of the lake's tests, and how they share it.

It takes seconds to start and gigabytes to run, so there are no more test processes than a few, each
with one at most.

With `TICDC_TEST_SPARK` (a master's or a server's URL) the tests run there instead.
`tests/resources/test_spark.py` does so with those marked `any_spark`.
"""

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from resources.spark import get_session
from ticdc_assets.lake.store.codegen import CODEGEN_OFF


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    small = {
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    master = os.environ.get("TICDC_TEST_SPARK", "local[2]")
    if not master.startswith("sc://"):
        # Here are many plans and few rows; on Spark Connect plans are compiled, as users have it.
        small |= CODEGEN_OFF
        small["spark.driver.memory"] = "2g"
    spark = get_session(master=master, settings=small)
    yield spark
    spark.stop()
