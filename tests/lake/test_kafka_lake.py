"""The lake of topics on a real broker: accepted gaps, and partitions that say nothing."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from tests.kafka_broker import Broker
from tests.lake.addresses import need_none
from tests.lake.canal import ddl, row, watermark
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.errors import LostRecords
from ticdc_assets.events import tso
from ticdc_assets.lake.advance import advance, replay_tables
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources.catalog import read_ingested_offsets
from ticdc_assets.resources.reading import open_source
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.views.asof import as_of

_CREATE = "CREATE TABLE `{}` (`id` INT PRIMARY KEY)"


def open_lake(root: Path, broker: Broker, topic: str) -> LakeSession:
    uri = f"kafka://{broker.plain}/{topic}?protocol=canal-json&enable-tidb-extension=true"
    feed = changefeed_from_uri(uri, id="shop")
    return LakeSession(need_none, Lake(str(root / "lake"), feed.id), feed)


def send(broker: Broker, topic: str, partition: int, *messages: Message) -> None:
    broker.send(Message(topic, partition, 0, None, m.value, 1) for m in messages)


def create(table: str, ts: int) -> Message:
    return ddl("d", table, ts, "CREATE", _CREATE.format(table))


def statuses(lake: LakeSession) -> dict[str, str]:
    tables = read_last_snapshot(lake).state.incarnations.values()
    return {table.schema.table: table.shown_status for table in tables}


def read_quarantine(lake: LakeSession) -> list[dict[str, Any]]:
    rows = DeltaTable(lake.path("quarantine")).to_pyarrow_table()
    return list(rows.sort_by("seq").to_pylist())


def test_an_accepted_gap_stays_in_the_lake_and_marks_the_tables_that_may_lack_rows(
    tmp_path: Path, broker: Broker
) -> None:
    topic = broker.create("gapped", 2)
    lake = open_lake(tmp_path, broker, topic)
    send(broker, topic, 0, create("a", 10), row("d", "a", 12, id="1"), watermark(20))
    send(broker, topic, 1, row("d", "a", 12, id="2"), watermark(20))
    assert advance(lake, open_source(lake.feed)).applied.resolved_ts == 20
    assert statuses(lake) == {"a": "live"}

    send(broker, topic, 0, watermark(27), create("b", 28), watermark(40))
    send(broker, topic, 0, create("c", 50), watermark(60))
    send(broker, topic, 1, row("d", "a", 25, id="3"), watermark(27), row("d", "b", 29, id="4"))
    send(broker, topic, 1, watermark(40), row("d", "c", 55, id="5"), watermark(60))
    broker.remove_records(topic, 1, 5)
    with pytest.raises(LostRecords, match=r"^topic gapped, partition 1, offsets 2 to 4: "):
        advance(lake, open_source(lake.feed))
    assert read_last_snapshot(lake).ts == 20

    done = advance(lake, open_source(lake.feed, accept_gaps=True))
    assert done.applied.resolved_ts == 60
    assert statuses(lake) == {"a": "partial", "b": "partial", "c": "live"}
    (lost,) = read_quarantine(lake)
    assert (lost["error"], lost["source"], lost["number"]) == ("LostRecords", "gapped-1", 2)
    assert "offsets 2 to 4" in lost["reason"]
    (table,) = [t for t in as_of(lake).tables() if t.schema.table == "a"]
    assert "offsets 2 to 4" in (table.shown_reason or "")
    assert sorted(as_of(lake).lines(table)) == [b'{"id":"1"}\n', b'{"id":"2"}\n']

    # Neither the next run nor a rebuild forgets it.
    send(broker, topic, 0, watermark(70))
    send(broker, topic, 1, row("d", "a", 65, id="6"), watermark(70))
    assert advance(lake, open_source(lake.feed)).applied.resolved_ts == 70
    ids = frozenset(read_last_snapshot(lake).state.incarnations)
    replay_tables(lake, read_last_snapshot(lake), ReplayRequest(ids, 0), lambda *_: None)
    assert statuses(lake) == {"a": "partial", "b": "partial", "c": "live"}


def test_a_topic_that_is_made_again_with_fewer_partitions_goes_on(
    tmp_path: Path, broker: Broker
) -> None:
    topic = broker.create("again", 2)
    lake = open_lake(tmp_path, broker, topic)
    send(broker, topic, 0, watermark(5), create("a", 10), row("d", "a", 12, id="1"), watermark(20))
    send(broker, topic, 1, watermark(20))
    broker.remove_records(topic, 0, 1)
    assert advance(lake, open_source(lake.feed)).applied.resolved_ts == 20

    broker.delete(topic)
    broker.wait_until_gone(topic)
    broker.create(topic, 1)
    send(broker, topic, 0, watermark(50), row("d", "a", 55, id="3"), watermark(60))
    with pytest.raises(LostRecords, match="deleted and made again"):
        advance(lake, open_source(lake.feed))
    done = advance(lake, open_source(lake.feed, accept_gaps=True))
    # The other partition sends nothing more.
    assert done.applied.resolved_ts == 60
    lost = read_quarantine(lake)
    # The first gap has the place of the second one: what the lake began behind.
    assert [(each["source"], each["number"]) for each in lost] == [
        ("again-0", 0),
        ("again-0", 0),
        ("again-1", 0),
    ]
    tomorrow = tso.compose(int(time.time() + 86400) * 1000)
    send(broker, topic, 0, create("b", 70), create("c", tomorrow), watermark(tomorrow + 1))
    assert advance(lake, open_source(lake.feed)).applied.resolved_ts == tomorrow + 1
    assert statuses(lake) == {"a": "partial", "b": "partial", "c": "live"}


def test_a_partition_without_a_watermark_holds_the_resolved_ts_back(
    tmp_path: Path, broker: Broker
) -> None:
    topic = broker.create("silent", 2)
    lake = open_lake(tmp_path, broker, topic)
    send(broker, topic, 0, create("a", 10), row("d", "a", 12, id="1"), watermark(20))
    assert advance(lake, open_source(lake.feed)).applied.resolved_ts == 0
    send(broker, topic, 1, watermark(15))
    assert advance(lake, open_source(lake.feed)).applied.resolved_ts == 15
    broker.grow(topic, 3)
    send(broker, topic, 0, watermark(30))
    send(broker, topic, 1, watermark(30))
    assert advance(lake, open_source(lake.feed)).applied.resolved_ts == 15
    assert read_ingested_offsets(lake.location) == {"silent-0": 4, "silent-1": 2, "silent-2": 0}
    send(broker, topic, 2, watermark(30))
    assert advance(lake, open_source(lake.feed)).applied.resolved_ts == 30
    # Nothing new: no batch, and no Spark job to ingest it.
    assert advance(lake, open_source(lake.feed)).ingested.batches == 0


def test_offsets_without_a_record_are_read_once(tmp_path: Path, broker: Broker) -> None:
    """The marker of a transaction has an offset, and a new partition has none: both are stated."""
    topic = broker.create("marked")
    lake = open_lake(tmp_path, broker, topic)
    messages = create("a", 10), row("d", "a", 12, id="1"), watermark(20)
    producer = Producer({"bootstrap.servers": broker.plain, "transactional.id": "marked"})
    producer.init_transactions(20)
    for message in messages:
        producer.begin_transaction()
        producer.produce(topic, message.value, partition=0)
        producer.commit_transaction(20)
    lake = LakeSession(need_none, lake.location, replace(lake.feed, max_records=5))
    for records, read, has_more in [(3, 5, True), (0, 6, False), (0, 6, False)]:
        ingested = advance(lake, open_source(lake.feed)).ingested
        assert (ingested.items, ingested.has_more) == (records, has_more)
        assert read_ingested_offsets(lake.location) == {"marked-0": read}
    assert ingested.batches == 0
    broker.grow(topic, 2)
    assert advance(lake, open_source(lake.feed)).ingested.batches == 1
    assert read_ingested_offsets(lake.location) == {"marked-0": 6, "marked-1": 0}
    send(broker, topic, 0, row("d", "a", 25, id="2"), watermark(30))
    send(broker, topic, 1, watermark(30))
    assert advance(lake, open_source(lake.feed)).applied.resolved_ts == 30
    (table,) = as_of(lake).tables()
    assert sorted(as_of(lake).lines(table)) == [b'{"id":"1"}\n', b'{"id":"2"}\n']
