"""Set up a session for the size of the work that follows: few rows, or many.

Over few rows, Spark spends its time on planning and on starting jobs: generating code, planning
again between stages and splitting shuffles take longer there than the work itself.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ticdc_assets.store.lake import LakeSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEW_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}

# How many times more this process does while no session runs: to start one takes seconds, and its
# first jobs take as long again.
_BEFORE_SPARK = 4

# Settings by name; None is unset.
_Settings = Mapping[str, str | None]

# What each session was started with: the settings for many rows.
_started_with: "WeakKeyDictionary[SparkSession, _Settings]" = WeakKeyDictionary()


def count_little(lake: LakeSession, little: int) -> int:
    """Return how much work is better done here, of which `little` is once a session runs."""
    return little if lake.has_spark else little * _BEFORE_SPARK


@contextmanager
def sized_for(lake: LakeSession, *, small: bool) -> Iterator[None]:
    """Set the session up for small work, or for any other, and restore its settings afterwards.

    One that has not started yet is set up when it does.
    """
    outer = lake.set_up
    before = _read(lake.spark) if lake.has_spark else None
    lake.set_up = partial(_set_up, small=small)
    if lake.has_spark:
        lake.set_up(lake.spark)
    try:
        yield
    finally:
        lake.set_up = outer
        if before is not None:
            _configure(lake.spark, before)
        elif lake.has_spark:
            (outer or partial(_set_up, small=False))(lake.spark)


def _set_up(spark: "SparkSession", *, small: bool) -> None:
    many_rows = _started_with.setdefault(spark, _read(spark))
    _configure(spark, FEW_ROWS if small else many_rows)


def _read(spark: "SparkSession") -> _Settings:
    return {name: spark.conf.get(name, None) for name in FEW_ROWS}


def _configure(spark: "SparkSession", settings: _Settings) -> None:
    for name, value in settings.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
