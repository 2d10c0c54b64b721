"""Set up a session for the size of the work that follows: few rows, or many.

Over few rows, Spark spends its time on planning and on starting jobs: generating code, planning
again between stages and splitting shuffles take longer there than the work itself.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

FEW_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}

# Settings by name; None is unset.
_Settings = Mapping[str, str | None]

# What each session was started with: the settings for many rows.
_started_with: WeakKeyDictionary[SparkSession, _Settings] = WeakKeyDictionary()


@contextmanager
def sized_for(spark: SparkSession, *, small: bool) -> Iterator[None]:
    """Set the session up for small work, or for any other, and restore its settings afterwards."""
    before = {name: spark.conf.get(name, None) for name in FEW_ROWS}
    many_rows = _started_with.setdefault(spark, before)
    try:
        _configure(spark, FEW_ROWS if small else many_rows)
        yield
    finally:
        _configure(spark, before)


def expect_many_rows(spark: SparkSession) -> None:
    """Set the session up for many rows, within a `sized_for` that expected few."""
    _configure(spark, _started_with[spark])


def _configure(spark: SparkSession, settings: _Settings) -> None:
    for name, value in settings.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
