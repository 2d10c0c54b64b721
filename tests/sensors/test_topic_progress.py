"""The sensor of topics on brokers: a run for whatever is new, and no run while nobody answers."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from resources.deployment import LakeResource
from tests.kafka_broker import Broker
from tests.made_lake import write_snapshot
from tests.servers import HOST, free_port
from ticdc_assets.assets.advance import FEED_TAG
from ticdc_assets.changefeed import Changefeed, changefeed_from_uri
from ticdc_assets.lake.store.lake import Lake
from ticdc_assets.protocols.message import Message
from ticdc_assets.sensors.checkpoint import CHECKPOINT_TAG, checkpoint_sensor


@dg.job
def job() -> None:
    pass


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as made:
        yield made


def tick(
    feed: Changefeed, root: Path, instance: dg.DagsterInstance
) -> dg.SensorResult | dg.SkipReason:
    resources = {"lake": LakeResource(root=str(root))}
    context = dg.build_sensor_context(instance=instance, resources=resources)
    result = checkpoint_sensor(feed, job)(context)
    assert isinstance(result, dg.SensorResult | dg.SkipReason)
    return result


def test_new_records_request_a_run_and_the_page_says_how_far_each_partition_is(
    broker: Broker, tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    topic = broker.create("observed", 2)
    feed = changefeed_from_uri(f"kafka://{broker.plain}/{topic}?protocol=simple", id="shop")
    assert isinstance(tick(feed, tmp_path, instance), dg.SkipReason)

    broker.send([Message(topic, n % 2, n // 2, None, b"v", 1) for n in range(5)])
    lake = Lake(str(tmp_path), "shop")
    offsets = '{"stage": "ingest", "offsets": {"observed-0": [[0, 1]]}}'
    write_deltalake(
        lake.path("raw"),
        pa.table({"batch": [1]}),
        commit_properties=CommitProperties(custom_metadata={"userMetadata": offsets}),
    )
    result = tick(feed, tmp_path, instance)
    assert isinstance(result, dg.SensorResult)
    (request,) = result.run_requests or []
    assert request.run_key == "shop@5 records of 2 partitions"
    (observation,) = result.asset_events
    shown = observation.metadata
    assert shown["ticdc/records_behind"].value == 3
    table = shown["ticdc/partitions"]
    assert isinstance(table, dg.TableMetadataValue)
    assert [record.data for record in table.records] == [
        {"partition": "observed-0", "newest": 3, "read": 2, "behind": 1},
        {"partition": "observed-1", "newest": 2, "read": 0, "behind": 2},
    ]

    # After a run that read all of it, nothing is requested until there is more.
    tags = {FEED_TAG: "shop", CHECKPOINT_TAG: "5 records of 2 partitions"}
    job.execute_in_process(instance=instance, tags=tags)
    write_snapshot(lake, 1, 470628459884838913)
    result = tick(feed, tmp_path, instance)
    assert isinstance(result, dg.SensorResult)
    assert not result.run_requests
    broker.send([Message(topic, 0, 3, None, b"v", 1)])
    result = tick(feed, tmp_path, instance)
    assert isinstance(result, dg.SensorResult)
    assert len(result.run_requests or []) == 1
    groups = broker.admin.list_consumer_groups().result(20)
    assert groups.valid == []


def test_a_broker_that_is_down_skips_the_tick_and_says_so(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    place = f"{HOST}:{free_port()}"
    result = tick(changefeed_from_uri(f"kafka://{place}/t?protocol=simple"), tmp_path, instance)
    assert isinstance(result, dg.SkipReason)
    assert f"no broker answers at {place}" in (result.skip_message or "")
