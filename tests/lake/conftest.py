"""The session of the lake's tests, and how they share it.

A session takes seconds to start, so with `-n` the tests that use one are dealt to two processes at
most, whole files at a time; all others are spread as they come.

With `TICDC_TEST_SPARK` (a master's or a server's URL) the tests run there instead.
`tests/resources/test_spark.py` does so with those marked `any_spark`.
"""

import os
import zlib
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from resources.spark import session
from ticdc_assets.lake.compiling import INTERPRETED

GROUPS = 2


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    small = {
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    master = os.environ.get("TICDC_TEST_SPARK", "local[2]")
    if not master.startswith("sc://"):
        # Here are many plans and few rows; on Spark Connect plans are compiled, as users have it.
        small |= INTERPRETED
        small["spark.driver.memory"] = "2g"
    spark = session(master=master, settings=small)
    yield spark
    spark.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and "spark" in item.fixturenames:
            group = zlib.crc32(str(item.path.name).encode()) % GROUPS
            item.add_marker(pytest.mark.xdist_group(f"spark-{group}"))
