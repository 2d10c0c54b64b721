"""Whether Spark compiles its plans: of little work that takes longer than the work itself."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

# From about so many rows on, of one table, it pays.
WORTHWHILE = 20_000

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_COMPILED = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}


@contextmanager
def set_codegen(spark: SparkSession, wanted: bool) -> Iterator[None]:
    """Have plans compiled, or not; afterwards the session is as it was."""
    before = {name: spark.conf.get(name) or "" for name in INTERPRETED}
    try:
        _set(spark, _COMPILED if wanted else INTERPRETED)
        yield
    finally:
        _set(spark, before)


def _set(spark: SparkSession, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        spark.conf.set(name, value)
