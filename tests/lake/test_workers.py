"""The workers of Spark, and what this process does of their work while the session starts."""

from collections.abc import Iterable
from threading import Event
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.workers import start_session


def test_workers_use_the_allocator_of_the_c_library(spark: SparkSession) -> None:
    def name_allocator(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            name = pa.default_memory_pool().backend_name
            yield pa.RecordBatch.from_pydict({"name": [name] * batch.num_rows})

    (row,) = spark.range(1).mapInArrow(name_allocator, "name string").collect()
    assert row["name"] == "system"


def test_this_process_does_tasks_until_the_session_has_started() -> None:
    are_two_done, has_started = Event(), Event()

    def start() -> Any:
        assert are_two_done.wait(60)
        return object()

    def do(task: int) -> int:
        if task == 1:
            are_two_done.set()
            assert has_started.wait(60)
        return task * 10

    lake = LakeSession(start, Lake("/nowhere", "bulk"), None)
    doing, left = start_session(lake, do, range(5))
    assert lake.has_spark
    has_started.set()
    assert doing.result(60) == [0, 10]
    assert left == [2, 3, 4]


def test_without_a_session_no_further_task_is_done() -> None:
    is_one_there, has_failed = Event(), Event()
    done = []

    def start() -> Any:
        assert is_one_there.wait(60)
        raise RuntimeError("no Java")

    def do(task: int) -> None:
        is_one_there.set()
        assert has_failed.wait(60)
        done.append(task)

    lake = LakeSession(start, Lake("/nowhere", "bulk"), None)
    with pytest.raises(RuntimeError, match="no Java"):
        start_session(lake, do, range(5))
    has_failed.set()
    assert set(done) <= {0}
