"""The session of the lake's tests, and how they share it.

All test processes have theirs in one Java machine (`shared_java`), which takes seconds to start and
gigabytes to run.

With `TICDC_TEST_SPARK` (a master's or a server's URL) the tests run there instead.
`tests/resources/test_spark.py` does so with those marked `any_spark`.
"""

import os
import zlib
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.lake import shared_java
from ticdc_assets.lake.apply import table_features
from ticdc_assets.resources.spark import get_session
from ticdc_assets.store.work_size import FEW_ROWS


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    master = os.environ.get("TICDC_TEST_SPARK")
    if master is None:
        of_process = tmp_path_factory.getbasetemp()
        has_others = "PYTEST_XDIST_WORKER" in os.environ
        folder = (of_process.parent if has_others else of_process) / "shared-java"
        folder.mkdir(exist_ok=True)
        yield shared_java.open_session(folder, tests=os.getppid() if has_others else os.getpid())
        return
    small = {"spark.sql.shuffle.partitions": "2", "spark.databricks.delta.snapshotPartitions": "1"}
    if not master.startswith("sc://"):
        # On Spark Connect plans are compiled, as users have it.
        small |= FEW_ROWS | {"spark.driver.memory": "2g"}
    spark = get_session(master=master, settings=small)
    yield spark
    spark.stop()


@pytest.fixture(autouse=True)
def table_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every table count as large in some of the tests: large ones are written differently.

    Those tests take about twice as long: one in 36 of every run, and one in twelve of a run of all
    cases.  Tests of that difference set the size themselves.
    """
    one_in = 36 if "not all_cases" in request.config.option.markexpr else 12
    if zlib.crc32(request.node.name.encode()) % one_in == 14 % one_in:
        monkeypatch.setattr(table_features, "LARGE_TABLE", -1)
