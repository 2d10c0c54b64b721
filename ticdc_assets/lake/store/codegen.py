"""Disable Spark's code generation for small inputs, where it takes longer than the work."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

# Measured per table: from about this many rows on, generated code pays off.
CODEGEN_MIN_ROWS = 20_000

CODEGEN_OFF = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_CODEGEN_ON = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}


@contextmanager
def codegen(spark: SparkSession, *, enabled: bool) -> Iterator[None]:
    """Enable or disable code generation, and restore the session's settings afterwards."""
    before = {name: spark.conf.get(name) or "" for name in CODEGEN_OFF}
    try:
        _configure(spark, _CODEGEN_ON if enabled else CODEGEN_OFF)
        yield
    finally:
        _configure(spark, before)


def _configure(spark: SparkSession, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        spark.conf.set(name, value)
