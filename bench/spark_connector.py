"""Spark's own Kafka connector, a baseline of `bench.kafka`: the project itself does not load it."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.resources.jars import Jar, fetch_jars

# The connector of this Spark and what it depends on.  Version 4.1.1 of its token provider does not
# resolve everywhere; this one works.
_JARS = [
    Jar(
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",
        "9c1ce986f548e6b1dcb0e2dfe2f253a0bc58f2232a32a0c9c6c674dd25a8570c",
    ),
    Jar(
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    ),
    Jar(
        "org.apache.kafka:kafka-clients:3.9.1",
        "7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9",
    ),
    Jar(
        "org.apache.commons:commons-pool2:2.12.1",
        "5273c8bc8c0dca2211175c0d27efbd7228efae99689aac001a8e1ef8e872e9ef",
    ),
]


def add_connector(spark: SparkSession, folder: Path) -> None:
    """Download the connector and add it to a session that runs."""
    fetch_jars(folder, _JARS)
    for jar in _JARS:
        spark.sql(f"ADD JAR {shlex.quote(str(folder / jar.file_name))}")


def discard_in_spark(spark: SparkSession, feed: Changefeed) -> None:
    """Read a topic as a whole, in all tasks, and drop the records."""
    _read(spark, feed).write.format("noop").mode("overwrite").save()


def append_in_spark(
    spark: SparkSession, feed: Changefeed, place: Path, starts: Mapping[str, int] | None = None
) -> None:
    """Append a topic to a Delta table: all of it, or what follows an offset of each partition."""
    _read(spark, feed, starts).write.format("delta").mode("append").save(str(place))


def _read(
    spark: SparkSession, feed: Changefeed, starts: Mapping[str, int] | None = None
) -> DataFrame:
    offsets = {name.rpartition("-")[2]: offset for name, offset in (starts or {}).items()}
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", feed.location)
        .option("subscribe", feed.topic or "")
        .option("startingOffsets", json.dumps({feed.topic: offsets}) if offsets else "earliest")
        .load()
    )
