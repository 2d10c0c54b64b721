"""The sensor of topics on brokers: a run for whatever is new, and no run while nobody answers."""

import json
import time
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from tests.kafka_broker import Broker
from tests.lake.canal import row, watermark
from tests.made_lake import write_snapshot
from tests.servers import HOST, free_port
from ticdc_assets.assets.advance import FEED_TAG
from ticdc_assets.changefeed import Changefeed, changefeed_from_uri
from ticdc_assets.events.tso import compose
from ticdc_assets.naming import FeedNames
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources.deployment import LakeResource
from ticdc_assets.resources.kafka import Brokers
from ticdc_assets.sensors.checkpoint import CHECKPOINT_TAG, checkpoint_sensor
from ticdc_assets.store.arrow import make_table
from ticdc_assets.store.contracts import CONTRACTS
from ticdc_assets.store.lake import Lake


@dg.job
def job() -> None:
    pass


def tick(
    feed: Changefeed, root: Path, instance: dg.DagsterInstance
) -> dg.SensorResult | dg.SkipReason:
    resources = {"lake": LakeResource(root=str(root))}
    context = dg.build_sensor_context(instance=instance, resources=resources)
    result = checkpoint_sensor(FeedNames(feed), job)(context)
    assert isinstance(result, dg.SensorResult | dg.SkipReason)
    return result


def ingest(lake: Lake, offsets: dict[str, list[list[int]]]) -> None:
    """Commit a batch that states how far the partitions were read."""
    commit(lake, json.dumps({"stage": "ingest", "offsets": offsets}))


def commit(lake: Lake, metadata: str) -> None:
    write_deltalake(
        lake.path("raw"),
        pa.table({"batch": [1]}),
        mode="append",
        commit_properties=CommitProperties(custom_metadata={"userMetadata": metadata}),
    )


def list_partitions(result: dg.SensorResult) -> list[dict[str, object]]:
    """Return the rows of the table on the source's page."""
    (observation,) = result.asset_events
    table = observation.metadata["ticdc/partitions"]
    assert isinstance(table, dg.TableMetadataValue)
    return [dict(record.data) for record in table.records]


def test_new_records_request_a_run_and_the_page_says_how_far_each_partition_is(
    broker: Broker, tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    topic = broker.create("observed", 2)
    feed = changefeed_from_uri(f"kafka://{broker.plain}/{topic}?protocol=simple", id="shop")
    assert isinstance(tick(feed, tmp_path, instance), dg.SkipReason)

    broker.send([Message(topic, n % 2, n // 2, None, b"v", 1) for n in range(5)])
    lake = Lake(str(tmp_path), "shop")
    ingest(lake, {"observed-0": [[0, 1]]})
    commit(lake, "what a person wrote")
    ts = compose(int(time.time() * 1000) - 60_000)
    write_snapshot(lake, 1, ts, watermarks={"observed-0": ts, "observed-1": 0})
    result = tick(feed, tmp_path, instance)
    assert isinstance(result, dg.SensorResult)
    (request,) = result.run_requests or []
    assert request.run_key == "shop@5 records of 2 partitions"
    (observation,) = result.asset_events
    assert observation.metadata["ticdc/records_behind"].value == 3
    first, second = list_partitions(result)
    assert 59 < float(str(first.pop("seconds_behind"))) < 600
    first_offsets = {"partition": "observed-0", "newest": 3, "read": 2, "behind": 1}
    assert first == {**first_offsets, "resolved_ts": str(ts)}
    second_offsets = {"partition": "observed-1", "newest": 2, "read": 0, "behind": 2}
    assert second == {**second_offsets, "resolved_ts": "none yet", "seconds_behind": ""}
    groups = broker.admin.list_consumer_groups().result(20)
    assert groups.valid == []


def test_runs_follow_each_other_until_everything_is_read(
    broker: Broker, tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    topic = broker.create("followed")
    feed = changefeed_from_uri(f"kafka://{broker.plain}/{topic}?protocol=simple", id="shop")
    broker.send([Message(topic, 0, n, None, b"v", 1) for n in range(5)])
    lake = Lake(str(tmp_path), "shop")
    write_snapshot(lake, 1, 470628459884838913)
    ingest(lake, {"followed-0": [[0, 1]]})
    # A run that succeeded and left records behind had used its time: another one follows at once.
    tags = {FEED_TAG: "shop", CHECKPOINT_TAG: "5 records of 1 partitions"}
    job.execute_in_process(instance=instance, tags=tags)
    result = tick(feed, tmp_path, instance)
    assert isinstance(result, dg.SensorResult)
    (request,) = result.run_requests or []
    assert request.run_key == "shop@5 records of 1 partitions#2"

    # After one that read all of it, nothing is requested until there is more.
    ingest(lake, {"followed-0": [[0, 4]]})
    result = tick(feed, tmp_path, instance)
    assert isinstance(result, dg.SensorResult)
    assert not result.run_requests
    broker.send([Message(topic, 0, 5, None, b"v", 1)])
    result = tick(feed, tmp_path, instance)
    assert isinstance(result, dg.SensorResult)
    assert len(result.run_requests or []) == 1


def test_watermarks_alone_request_no_run_until_something_else_comes(
    broker: Broker, tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    topic, ts = broker.create("idle"), 470628459884838913
    uri = f"kafka://{broker.plain}/{topic}?protocol=canal-json&enable-tidb-extension=true"
    feed, lake = changefeed_from_uri(uri, id="shop"), Lake(str(tmp_path), "shop")

    def send(*messages: Message) -> None:
        sent = sum(ends.end for ends in Brokers(feed).read_ends()[topic].partitions.values())
        broker.send([Message(topic, 0, sent + n, None, m.value, 1) for n, m in enumerate(messages)])

    send(watermark(ts))
    ids = Brokers(feed).read_ids([topic])
    commit(lake, json.dumps({"stage": "ingest", "offsets": {"idle-0": [[0, 0]]}, "topics": ids}))
    write_deltalake(lake.path("events"), make_table(CONTRACTS["events"], []))
    write_snapshot(lake, 1, ts, watermarks={"idle-0": ts})
    tags = {FEED_TAG: "shop", CHECKPOINT_TAG: "1 records of 1 partitions"}
    job.execute_in_process(instance=instance, tags=tags)
    send(*(watermark(ts + n) for n in range(1, 50)))
    result = tick(feed, tmp_path, instance)
    assert isinstance(result, dg.SensorResult)
    assert result.skip_reason is not None
    assert "only watermarks came" in (result.skip_reason.skip_message or "")
    send(row("d", "t", ts + 99, id="1"), watermark(ts + 99))
    result = tick(feed, tmp_path, instance)
    assert isinstance(result, dg.SensorResult)
    assert len(result.run_requests or []) == 1


def test_a_broker_that_is_down_skips_the_tick_and_says_so(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ticdc_assets.resources.kafka.PATIENCE", 1.0)
    place = f"{HOST}:{free_port()}"
    result = tick(changefeed_from_uri(f"kafka://{place}/t?protocol=simple"), tmp_path, instance)
    assert isinstance(result, dg.SkipReason)
    assert f"no broker answers at {place}" in (result.skip_message or "")
