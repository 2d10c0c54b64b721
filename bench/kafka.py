"""Measure how fast topics are read, against librdkafka alone and Spark's own connector.

Run as `python -m bench.kafka`: it starts a broker and produces a simulated changefeed of each
protocol to a topic.  Each topic is read with librdkafka and with Spark's connector, which discard
every record; into a Delta table by the connector; into `raw`; and into current tables, by a whole
advance, as are the same rows from a folder.  At the end, advances over a topic with nothing new,
and windows of a few records, are timed.  CPU time includes that of the broker.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from bench.figure import Figure, read_load
from bench.processes import Clock, Usage
from bench.spark_connector import add_connector, append_in_spark, discard_in_spark
from tests.kafka_broker import Broker, kafka_broker
from ticdc_assets.changefeed import Changefeed, load_changefeeds
from ticdc_assets.demo import SimulationOptions, prepare
from ticdc_assets.lake.advance import advance
from ticdc_assets.lake.raw.ingest_records import ingest_records
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources.dump import read_dump
from ticdc_assets.resources.kafka import read_topics
from ticdc_assets.resources.reading import open_source
from ticdc_assets.resources.source import read_topic_ends
from ticdc_assets.resources.spark import get_session
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.tables import create_tables

_KINDS = {
    "Simple JSON": SimulationOptions(protocol="simple"),
    "Simple Avro": SimulationOptions(protocol="simple", encoding="avro"),
    "Canal-JSON": SimulationOptions(protocol="canal-json"),
    "Open Protocol": SimulationOptions(protocol="open-protocol"),
}
_DISCARDED = "connector, discarded"
_RAW = "into raw"
_CURRENT = "into current"
_EACH = 500
_QUIET = 3
# New records of each partition in a small window.
_FEW = 20


def measure(*arguments: str) -> list[Figure]:
    """Measure every protocol, print the results, and return those that have a baseline."""
    parser = argparse.ArgumentParser(prog="python -m bench.kafka", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="rows per topic")
    parser.add_argument("--only", choices=_KINDS, help="measure one protocol")
    chosen = parser.parse_args(arguments)
    kinds = {chosen.only: _KINDS[chosen.only]} if chosen.only else _KINDS
    print(f"{os.cpu_count()} processors, load {read_load()} at the start")
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="bench-kafka-") as name:
        folder = Path(name)
        with kafka_broker(folder) as broker:
            spark = get_session(str(folder))
            add_connector(spark, folder / "jars")
            for number, (title, options) in enumerate(kinds.items()):
                topic = _produce(broker, folder / f"feed-{number}", options, chosen.rows)
                if not number:
                    # Run the code of Spark once before anything is measured.
                    _read_all_ways(spark, folder / "warm-up", topic)
                    from_folder = _read_folder(spark, folder / "folder", chosen.rows)
                print(f"\n{title}: {topic.records:,} records, {topic.size / 1e6:.0f} MB")
                usages = _read_all_ways(spark, folder / f"lake-{number}", topic)
                for way, usage in (usages | {"folder, into current": from_folder}).items():
                    print(_describe(way, usage, topic), flush=True)
                figures += _make_figures(title, usages, from_folder, topic)
            print("\nThe last topic again:")
            place = folder / f"lake-{len(kinds) - 1}"
            _measure_quiet(spark, topic.feed, place)
            _measure_small(spark, broker, topic.feed, place)
            spark.stop()
    print(f"load {read_load()} at the end")
    return figures


@dataclass(frozen=True)
class Topic:
    """A topic that holds a changefeed."""

    feed: Changefeed
    records: int
    size: int


def _read_all_ways(spark: SparkSession, place: Path, topic: Topic) -> dict[str, Usage]:
    feed, count = topic.feed, topic.records
    raw, current = (
        LakeSession(spark, Lake(str(place / name), feed.id), feed) for name in ("raw", "current")
    )
    # A lake creates its tables once.
    create_tables(raw)
    create_tables(current)
    ways: dict[str, Callable[[], object]] = {
        "librdkafka, discarded": partial(_discard, feed, count),
        _DISCARDED: partial(discard_in_spark, spark, feed),
        "connector, to Delta": partial(append_in_spark, spark, feed, place / "plain"),
        _RAW: lambda: ingest_records(raw, partial(read_topics, feed)).items,
        _CURRENT: lambda: advance(current, open_source(feed)).ingested.items,
    }
    return {name: _measure(name, work, count) for name, work in ways.items()}


def _read_folder(spark: SparkSession, place: Path, rows: int) -> Usage:
    """Take the same rows from a folder into current tables."""
    feed = _simulate(place, SimulationOptions(protocol="canal-json"), rows)
    lake = LakeSession(spark, Lake(str(place / "lake"), feed.id), feed)
    create_tables(lake)
    return _measure("folder", lambda: advance(lake, open_source(feed)).applied.rows, None)


def _make_figures(
    title: str, usages: Mapping[str, Usage], from_folder: Usage, topic: Topic
) -> list[Figure]:
    pairs = {
        _RAW: ("Spark reads, discards", usages[_DISCARDED]),
        _CURRENT: ("from a folder", from_folder),
    }
    return [
        Figure(
            group="topic",
            name=f"{title}, {name}",
            value=topic.records / usages[name].seconds,
            unit="records/s",
            baseline_name=baseline_name,
            baseline=topic.records / baseline.seconds,
            usage=usages[name],
        )
        for name, (baseline_name, baseline) in pairs.items()
    ]


def _simulate(folder: Path, options: SimulationOptions, rows: int) -> Changefeed:
    """Return a changefeed with this many rows, in a dump or in a folder."""
    transactions = max(rows // _EACH, 1)
    simulation = prepare(
        folder,
        replace(
            options,
            workload="bulk",
            history=False,
            transactions=transactions,
            flush_every=transactions,
            rows_each=_EACH,
        ),
    )
    for _ in simulation:
        pass
    return next(iter(load_changefeeds(simulation.changefeeds).values()))


def _produce(broker: Broker, folder: Path, options: SimulationOptions, rows: int) -> Topic:
    """Send a changefeed to a new topic."""
    dumped = _simulate(folder, replace(options, transport="dump"), rows)
    topic = broker.create(folder.name, options.partitions)
    records = [
        Message(topic, m.partition, m.offset, m.key, m.value, m.timestamp_ms)
        for m in read_dump(Path(dumped.location))
        if isinstance(m, Message)
    ]
    broker.send(records)
    size = sum(len(m.key or b"") + len(m.value or b"") for m in records)
    feed = replace(dumped, transport="kafka", scheme="kafka", location=broker.plain, topic=topic)
    return Topic(feed, len(records), size)


def _measure(name: str, work: Callable[[], object], count: int | None) -> Usage:
    clock = Clock()
    done = work()
    if count is not None and done not in (None, count):
        print(f"  DIFFERENT: {name}: {done} records instead of {count}")
    return clock.read_usage()


def _describe(name: str, usage: Usage, topic: Topic) -> str:
    rate = f"{topic.records / usage.seconds:12,.0f} records/s"
    rate += f"{topic.size / usage.seconds / 1e6:8.1f} MB/s"
    return f"  {name:22}{usage.seconds:8.2f} s{rate}{usage.cpu:8.1f} s of CPU"


def _measure_quiet(spark: SparkSession, feed: Changefeed, place: Path) -> None:
    """Time runs of a warm session over a topic to which nothing was sent."""
    lake = LakeSession(spark, Lake(str(place / "current"), feed.id), feed)
    for _ in range(_QUIET):
        started = time.monotonic()
        advance(lake, open_source(feed))
        print(f"  a run with nothing new: {time.monotonic() - started:.2f} s")


def _measure_small(spark: SparkSession, broker: Broker, feed: Changefeed, place: Path) -> None:
    """Time windows of a few records in a warm session."""
    raw = LakeSession(spark, Lake(str(place / "raw"), feed.id), feed)
    partitions = range(feed.partition_num or 1)
    for _ in range(_QUIET):
        starts = read_topic_ends(feed)
        broker.send(
            Message(feed.topic or "", number, 0, None, b"x" * 300, 1)
            for number in partitions
            for _ in range(_FEW)
        )
        ways: dict[str, Callable[[], object]] = {
            "connector, to Delta": partial(append_in_spark, spark, feed, place / "plain", starts),
            "into raw": partial(ingest_records, raw, partial(read_topics, feed)),
        }
        for name, work in ways.items():
            clock = Clock()
            work()
            wall, cpu = clock.read()
            few = _FEW * len(partitions)
            print(f"  {few} records, {name:22}{wall:8.2f} s{cpu:8.1f} s of CPU", flush=True)


def _discard(feed: Changefeed, count: int) -> int:
    consumer = Consumer({"bootstrap.servers": feed.location, "group.id": "bench"})
    partitions = consumer.list_topics(feed.topic).topics[feed.topic].partitions
    consumer.assign([TopicPartition(feed.topic or "", number, 0) for number in partitions])
    done = 0
    while done < count:
        done += len(consumer.consume(2000, timeout=1))
    consumer.close()
    return done


if __name__ == "__main__":
    measure(*sys.argv[1:])
