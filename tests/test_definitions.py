"""The whole code location: it loads, or says what is wrong."""

import logging
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from tests.made_lake import schema, write_snapshot, write_tables
from ticdc_assets import definitions
from ticdc_assets.changefeed import changefeed_from_uri, load_changefeeds
from ticdc_assets.changefeed.upstream import Upstream
from ticdc_assets.errors import ConfigError
from ticdc_assets.store.lake import Lake

PROJECT = Path(__file__).resolve().parents[1]
DECLARED = """
[[changefeed]]
id = "shop"
sink-uri = "file:///somewhere?protocol=csv"

[[changefeed]]
id = "shop-2"
sink-uri = "kafka://broker:9092/topic?protocol=simple"

[[changefeed]]
id = "bucket"
sink-uri = "s3://bucket/prefix?protocol=canal-json&enable-tidb-extension=true"
"""
SECONDS = "must be a whole number of seconds, at least 1"
ALERTS = {"alert_on_failure", "alert_on_checks", "alert_on_checks_of_canceled"}
ALL_ALERTS = {*ALERTS, "alert_on_lag"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("TICDC_CHANGEFEEDS", "TICDC_LAKE", "TICDC_ALERT_WEBHOOK"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_every_kind_of_changefeed_loads(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TICDC_ALERT_WEBHOOK", "https://example.com/hook")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA-SECRET")
    file = here / "changefeeds.toml"
    file.write_text(DECLARED)
    graph = definitions.graph(load_changefeeds(file).values(), str(here / "lake"))

    dg.Definitions.validate_loadable(graph)
    repository = graph.get_repository_def()
    assert {sensor.name for sensor in repository.sensor_defs} == {
        *("shop_checkpoint", "shop__2_checkpoint", "bucket_checkpoint", "reload_definitions"),
        *ALL_ALERTS,
    }
    assert {schedule.name for schedule in repository.schedule_defs} == {
        *("maintain_shop_nightly", "maintain_shop__2_nightly", "maintain_bucket_nightly"),
    }
    assert {job.name for job in repository.get_all_jobs()} >= {
        *("advance_shop_job", "advance_shop__2_job", "maintain_shop", "rebuild_shop"),
    }
    assert all(
        schedule.default_status == dg.DefaultScheduleStatus.RUNNING
        for schedule in repository.schedule_defs
    )
    job = repository.get_job("advance_shop__2_job")
    assert job.tags["ticdc/changefeed"] == "shop-2"
    assert "AKIA-SECRET" not in repr(graph.resources)


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("TICDC_CHANGEFEEDS", "/no/where.toml", "no such file: /no/where.toml; name a"),
        ("TICDC_OWNERS", "bob", "must be e-mail addresses, or teams as `team:data`, separated by"),
        ("TICDC_SENSOR_SECONDS", "abc", f"{SECONDS}, not 'abc'"),
        ("TICDC_SENSOR_SECONDS_SHOP", "0", f"{SECONDS}, not '0'"),
        ("TICDC_PREVIEW_ROWS", "few", "must be a whole number of rows, not 'few'"),
        # It may hold a token.
        ("TICDC_ALERT_WEBHOOK", "ftp://token@host", "must be an http or https URL"),
    ],
)
def test_a_wrong_setting_is_an_error_and_no_graph(
    here: Path, monkeypatch: pytest.MonkeyPatch, setting: str, value: str, said: str
) -> None:
    (here / "changefeeds.toml").write_text(DECLARED)
    monkeypatch.setenv(setting, value)

    with pytest.raises(ConfigError) as raised:
        definitions.defs()

    assert str(raised.value).startswith(f"{setting}: {said}")


@pytest.mark.parametrize(
    ("declared", "setting"),
    [
        ('[[changefeed]]\nid = "x"\nsink-uri = "file:///x?protocol=what"', "protocol"),
        ('[[changefeed]]\nid = "x"\nsink-url = "file:///x?protocol=csv"', "sink-url"),
        ("changefeed = 5", "changefeed"),
        ("[changefeeds]", "changefeeds"),
    ],
)
def test_a_wrong_declaration_is_an_error_and_no_graph(
    here: Path, declared: str, setting: str
) -> None:
    (here / "changefeeds.toml").write_text(declared)
    with pytest.raises(ConfigError, match=rf"changefeeds.toml: .*\b{setting}\b"):
        definitions.defs()


@pytest.mark.parametrize("declared", [None, "", "# none yet", "changefeed = []"])
def test_a_first_start_without_any_changefeed_loads_and_says_so(
    here: Path, caplog: pytest.LogCaptureFixture, declared: str | None
) -> None:
    if declared is not None:
        (here / "changefeeds.toml").write_text(declared)
    with caplog.at_level(logging.WARNING, "dagster.ticdc"):
        graph = definitions.defs()

    dg.Definitions.validate_loadable(graph)
    (spec,) = graph.resolve_all_asset_specs()
    assert spec.key == dg.AssetKey("no_changefeed")
    for text in (spec.description or "", caplog.text):
        assert "No changefeed is declared" in text
        assert "TICDC_CHANGEFEEDS" in text


def test_changefeeds_with_similar_ids_load_together(here: Path) -> None:
    ends = ("job", "tables", "files", "nightly", "checkpoint", "job_job")
    ids = ["x", *(f"x_{end}" for end in ends), "load_x", "maintain_x", "verify_x", "advance_x"]
    upstream = Upstream("127.0.0.1", "u")
    feeds = [
        replace(changefeed_from_uri(f"file:///{id}?protocol=csv", id=id), upstream=upstream)
        for id in ids
    ]

    graph = definitions.graph(feeds, str(here / "lake"))

    dg.Definitions.validate_loadable(graph)
    jobs = {job.name for job in graph.get_repository_def().get_all_jobs()}
    assert {f"verify_{id}" for id in ids} <= jobs


def test_an_unreadable_lake_stops_no_other_changefeed(
    here: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TICDC_ALERT_WEBHOOK", "https://example.com/hook")
    feeds = [changefeed_from_uri(f"file:///{id}?protocol=csv", id=id) for id in ("good", "bad")]
    for feed in feeds:
        lake = Lake(str(here / "lake"), feed.id)
        write_snapshot(lake, 1, 470628459884838913)
        write_tables(lake, [schema("d", "t")])
    log = here / "lake" / "bad" / "tables" / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text()[:80])
    with caplog.at_level(logging.ERROR, "dagster.ticdc"):
        graph = definitions.graph(feeds, str(here / "lake"))

    dg.Definitions.validate_loadable(graph)
    repository = graph.get_repository_def()
    keys = repository.asset_graph.get_all_asset_keys()
    assert dg.AssetKey(["good", "current", "d", "t"]) in keys
    assert dg.AssetKey(["bad", "checkpoints"]) in keys
    error = repository.asset_graph.get(dg.AssetKey(["bad", "unreadable_lake"]))
    assert "bad/tables" in (error.description or "").replace("\\", "")
    assert "bad/tables" in caplog.text
    assert {sensor.name for sensor in repository.sensor_defs} == {
        *("good_checkpoint", "bad_checkpoint", "reload_definitions"),
        *ALL_ALERTS,
    }


# That a wrong setting is an error, tests show without `dg`.
@pytest.mark.parametrize("owner", ["team:data", pytest.param("bob", marks=pytest.mark.all_cases)])
def test_dg_check_defs_accepts_the_project_and_no_wrong_setting(here: Path, owner: str) -> None:
    (here / "changefeeds.toml").write_text(DECLARED)
    environment = {
        **os.environ,
        "TICDC_CHANGEFEEDS": str(here / "changefeeds.toml"),
        "TICDC_LAKE": str(here / "lake"),
        "TICDC_OWNERS": owner,
        "VIRTUAL_ENV": sys.prefix,
        "DAGSTER_HOME": str(here),
    }
    dg_command = str(Path(sys.executable).with_name("dg"))
    done = subprocess.run(
        [dg_command, "check", "defs"],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    printed = done.stdout + done.stderr
    assert done.returncode == (owner == "bob"), printed
    said = "All definitions loaded successfully"
    if owner == "bob":
        said = "ticdc_assets.errors.ConfigError: TICDC_OWNERS: must be e-mail addresses"
    assert said in printed


def test_a_thousand_tables_load(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    feed = changefeed_from_uri("file:///x?protocol=csv", id="shop")
    lake = Lake(str(here / "lake"), feed.id)
    write_snapshot(lake, 1, 470628459884838913)
    columns = [f"column_{number}" for number in range(20)]
    write_tables(lake, [schema(f"db{n % 7}", f"table_{n}", *columns) for n in range(1000)])

    begun = time.monotonic()
    repository = definitions.graph([feed], lake.root).get_repository_def()
    seconds = time.monotonic() - begun

    assert len(repository.asset_graph.get_all_asset_keys()) == 5 + 2 * 1000
    with capsys.disabled():
        print(f"\n1,000 tables of 21 columns: loaded in {seconds:.1f} s")


def test_dagster_accepts_the_instance_configuration(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "dagster.yaml").write_text((PROJECT / "dagster.yaml").read_text())
    with dg.DagsterInstance.from_config(str(here)) as instance:
        assert instance.run_retries_enabled
        assert instance.run_monitoring_enabled
        assert not instance.telemetry_enabled
        queue = instance.get_concurrency_config().run_queue_config
        assert queue is not None
        (limit,) = queue.tag_concurrency_limits
        assert limit["key"] == "ticdc/changefeed"
