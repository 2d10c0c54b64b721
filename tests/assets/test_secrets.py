"""A changefeed whose every credential is marked: neither Dagster nor the lake keeps one."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import boto3
import dagster as dg
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.lake.conftest import spark
from tests.servers import free_port, s3_server
from ticdc_assets import definitions
from ticdc_assets.demo import SimulationOptions, prepare
from ticdc_assets.resources import deployment
from ticdc_assets.resources.dagster_settings import WEBHOOK
from ticdc_assets.resources.deployment import LakeResource
from ticdc_assets.resources.storage import Folder
from ticdc_assets.sensors.alert import alert_on_failure

__all__ = ["spark"]

MARK = "hunter"
CREDENTIALS = "&".join(
    f"{name}={MARK}-{name}%2F%2B"
    for name in (
        "access-key",
        "secret-access-key",
        "session-token",
        "sse-kms-key-id",
        "external-id",
    )
)


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Put a shop's changefeed into a bucket and declare it; yield the folder of the declaration."""
    simulation = prepare(tmp_path / "shop", SimulationOptions(transactions=6, flush_every=6))
    for _ in simulation:
        pass
    data = tmp_path / "shop" / "data"
    for name in ("AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN"):
        monkeypatch.setenv(name, f"{MARK}-of-the-environment")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDTEST")
    monkeypatch.setenv(WEBHOOK, f"http://127.0.0.1:{free_port()}/{MARK}?token={MARK} {MARK}")
    (tmp_path / "server").mkdir()
    with s3_server(tmp_path / "server") as url:
        client = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
        client.create_bucket(Bucket="changes")
        for file in data.rglob("*"):
            if file.is_file():
                key = f"shop/{file.relative_to(data)}"
                client.put_object(Bucket="changes", Key=key, Body=file.read_bytes())
        place = f"endpoint={url}&region=us-east-1"
        uri = f"s3://changes/shop?protocol=csv&{place}&{CREDENTIALS}"
        feeds = tmp_path / "shop" / "changefeeds.toml"
        here = f"file://{data}?protocol=csv"
        text = feeds.read_text()
        assert here in text
        feeds.write_text(text.replace(here, uri))
        monkeypatch.setenv("TICDC_CHANGEFEEDS", str(feeds))
        monkeypatch.setenv("TICDC_LAKE", str(tmp_path / "lake"))
        yield tmp_path


def test_a_run_keeps_no_credential(
    declared: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(deployment, "get_session", lambda *_, **__: spark)
    with dg.instance_for_test() as instance:
        loaded = definitions.defs()
        job = loaded.resolve_job_def("advance_shop_job")
        assert job.execute_in_process(instance=instance).success
        resources = {"lake": LakeResource(root=str(declared / "lake"))}
        context = dg.build_sensor_context(instance=instance, resources=resources)
        ticked = loaded.resolve_sensor_def("shop_checkpoint")(context)
        assert isinstance(ticked, dg.SkipReason | dg.SensorResult)
        # From now on the store fails, and a library quotes what it was given.
        monkeypatch.setattr(Folder, "entries", fail)
        failed = job.execute_in_process(instance=instance, raise_on_error=False)
        ended = dg.build_run_status_sensor_context(
            sensor_name="alert",
            dagster_event=failed.get_run_failure_event(),
            dagster_instance=instance,
            dagster_run=failed.dagster_run,
        )
        with pytest.raises(RuntimeError, match="cannot reach the webhook") as alert:
            alert_on_failure(ended.for_run_failure())
        made = instance.get_runs()
        events = [entry.to_json() for run in made for entry in instance.all_logs(run.run_id)]
        runs = [str((run.tags, run.run_config, run.status)) for run in made]
    assert len(runs) == 2
    specs = [str((s, s.description, s.metadata)) for s in loaded.resolve_all_asset_specs()]
    printed = capfd.readouterr()
    texts = [*events, *runs, *specs, str(ticked), str(alert.value), caplog.text, *printed]
    assert not [text for text in texts if MARK in text]
    assert sum(len(text) for text in texts) > 10_000
    assert list(find_in_lake(declared / "lake", MARK)) == []
    assert list(find_in_lake(declared / "lake", "customers"))
    assert not [setting for setting in spark.conf.getAll.items() if MARK in str(setting)]


def fail(_: Folder) -> None:
    raise OSError(f"https://h/p?sig={MARK}: {unquote(CREDENTIALS)}")


def find_in_lake(lake: Path, text: str) -> Iterator[Path]:
    """Yield the files of a lake that have a text in a value or a path."""
    for file in lake.rglob("*"):
        if file.suffix == ".parquet":
            content = json.dumps(pq.ParquetFile(file).read().to_pylist(), default=str)
            content += str(pq.ParquetFile(file).schema_arrow)
        else:
            content = file.read_text(errors="replace") if file.is_file() else ""
        if text in content or text in file.name:
            yield file
