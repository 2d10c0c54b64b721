"""Measure how fast topics are read, against librdkafka alone.

Run as `python -m bench.kafka`: it starts a broker, produces a simulated changefeed of each protocol
to a topic, and reads that topic three times: with librdkafka, which discards every record; as the
records that the lake ingests; and into `raw`.  CPU time is that of this process and of Spark.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from resources.dump import read_dump
from resources.kafka import read_topics
from resources.spark import get_session
from tests.kafka_broker import Broker, kafka_broker
from ticdc_assets.changefeed import Changefeed, load_changefeeds
from ticdc_assets.demo import SimulationOptions, prepare
from ticdc_assets.lake.raw.ingest_records import ingest_records
from ticdc_assets.lake.store.lake import Lake, LakeSession
from ticdc_assets.lake.store.tables import create_tables
from ticdc_assets.protocols.message import Message
from ticdc_assets.stream.offsets import ReadOffsets

_KINDS = {
    "Simple JSON": SimulationOptions(protocol="simple"),
    "Simple Avro": SimulationOptions(protocol="simple", encoding="avro"),
    "Canal-JSON": SimulationOptions(protocol="canal-json"),
    "Open Protocol": SimulationOptions(protocol="open-protocol"),
}
_EACH = 500


def main() -> None:
    """Measure every protocol and print a table for each."""
    parser = argparse.ArgumentParser(prog="python -m bench.kafka", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="rows per topic")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with kafka_broker(folder) as broker:
            spark = get_session(str(folder))
            for number, (title, options) in enumerate(_KINDS.items()):
                feed, size, count = _produce(
                    broker, folder / f"feed-{number}", options, chosen.rows
                )
                if not number:
                    # Run the code of Spark once before anything is measured.
                    _ingest(spark, folder / "warm-up", feed)
                print(f"\n{title}: {count:,} records, {size / 1e6:.0f} MB")
                _measure("librdkafka", partial(_discard, feed, count), count, size)
                _measure("records", partial(_read, feed), count, size)
                place = folder / f"lake-{number}"
                _measure("into raw", partial(_ingest, spark, place, feed), count, size)
            spark.stop()


def _produce(
    broker: Broker, folder: Path, options: SimulationOptions, rows: int
) -> tuple[Changefeed, int, int]:
    transactions = max(rows // _EACH, 1)
    simulation = prepare(
        folder,
        replace(
            options,
            transport="dump",
            workload="bulk",
            transactions=transactions,
            flush_every=transactions,
            rows_each=_EACH,
            history=False,
        ),
    )
    for _ in simulation:
        pass
    dumped = next(iter(load_changefeeds(simulation.changefeeds).values()))
    topic = broker.create(folder.name, options.partitions)
    records = [
        Message(topic, m.partition, m.offset, m.key, m.value, m.timestamp_ms)
        for m in read_dump(Path(dumped.location))
        if isinstance(m, Message)
    ]
    broker.send(records)
    size = sum(len(m.key or b"") + len(m.value or b"") for m in records)
    feed = replace(dumped, transport="kafka", scheme="kafka", location=broker.plain, topic=topic)
    return feed, size, len(records)


def _measure(name: str, work: Callable[[], int], count: int, size: int) -> None:
    wall, cpu = time.monotonic(), time.process_time()
    done = work()
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    rate = f"{count / wall:12,.0f} records/s{size / wall / 1e6:8.1f} MB/s"
    print(f"  {name:12}{wall:8.2f} s{rate}   CPU of this process {cpu:.2f} s", end="")
    print("" if done == count else f"  DIFFERENT: {done:,} records")


def _discard(feed: Changefeed, count: int) -> int:
    consumer = Consumer({"bootstrap.servers": feed.location, "group.id": "bench"})
    partitions = consumer.list_topics(feed.topic).topics[feed.topic].partitions
    consumer.assign([TopicPartition(feed.topic or "", number, 0) for number in partitions])
    done = 0
    while done < count:
        done += len(consumer.consume(2000, timeout=1))
    consumer.close()
    return done


def _read(feed: Changefeed) -> int:
    return sum(1 for _ in read_topics(feed, ReadOffsets()))


def _ingest(spark: SparkSession, folder: Path, feed: Changefeed) -> int:
    lake = LakeSession(spark, Lake(str(folder), feed.id), feed)
    create_tables(lake)
    return ingest_records(lake, partial(read_topics, feed)).items


if __name__ == "__main__":
    main()
