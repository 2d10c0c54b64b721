"""Alerts of lag and of sensors that are switched off: each state is posted once, and its end."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest

from tests.made_lake import write_snapshot
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.errors import ConfigError
from ticdc_assets.events.tso import compose
from ticdc_assets.resources.dagster_settings import WEBHOOK
from ticdc_assets.resources.deployment import LakeResource
from ticdc_assets.resources.max_lag import MAX_LAG
from ticdc_assets.sensors import lag
from ticdc_assets.sensors.lag import lag_sensors
from ticdc_assets.store.lake import Lake

HOUR = 3600.0


class World:
    """Two changefeeds with their folders and lakes, and the sensor over them."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance) -> None:
        self.folder = folder
        self.feeds = []
        for id in ("shop", "mail"):
            (folder / id).mkdir()
            self.feeds.append(changefeed_from_uri(f"file://{folder}/{id}?protocol=csv", id=id))
        self.instance = instance
        self.cursor: str | None = None
        self.snapshots = {"shop": 0, "mail": 0}
        self.restart()

    def restart(self) -> None:
        """Start the daemon again: all that is left is the cursor."""
        (self.sensor,) = lag_sensors(self.feeds)

    def writes(self, id: str, seconds_ago: float = 0) -> None:
        checkpoint = {"checkpoint-ts": ts(seconds_ago)}
        (self.folder / id / "metadata").write_text(json.dumps(checkpoint))

    def applies(self, id: str, seconds_ago: float = 0) -> None:
        self.snapshots[id] += 1
        lake = Lake(str(self.folder / "lake"), id)
        write_snapshot(lake, self.snapshots[id], ts(seconds_ago))

    def goes_on(self, id: str) -> None:
        self.writes(id)
        self.applies(id)

    def tick(self) -> str:
        """Return what the UI shows of a tick."""
        lake = LakeResource(root=str(self.folder / "lake"))
        context = dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, resources={"lake": lake}
        )
        result = self.sensor(context)
        assert isinstance(result, dg.SensorResult)
        self.cursor = result.cursor
        assert result.skip_reason is not None
        return result.skip_reason.skip_message or ""


def ts(seconds_ago: float) -> int:
    return compose(round((time.time() - seconds_ago) * 1000))


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as made:
        yield made


@pytest.fixture
def world(tmp_path: Path, instance: dg.DagsterInstance, webhook: list[dict[str, str]]) -> World:
    made = World(tmp_path, instance)
    for id in ("shop", "mail"):
        made.goes_on(id)
    return made


Take = Callable[[], list[str]]


@pytest.fixture
def take(webhook: list[dict[str, str]]) -> Take:
    """Return what was posted since the last call."""

    def take() -> list[str]:
        texts = [post["text"] for post in webhook]
        webhook.clear()
        return texts

    return take


def test_each_state_of_a_changefeed_is_posted_once_and_so_is_its_end(
    world: World, take: Take
) -> None:
    assert world.tick() == "every changefeed is up to date, every sensor is on"
    assert take() == []

    # TiCDC has stopped: nothing is written any more, and the lake has everything.
    world.applies("shop", HOUR)
    world.writes("shop", HOUR)
    assert world.tick() == "shop is stopped"
    (text,) = take()
    assert text.startswith("changefeed shop: stopped (lag: 60 min): its watermarks have stopped at")
    assert "`cdc cli changefeed query`" in text
    world.tick()
    world.restart()
    world.tick()
    assert take() == []

    # It runs again, and the lake is far behind it.
    world.writes("shop")
    world.tick()
    (text,) = take()
    assert text.startswith("changefeed shop: behind (lag: 60 min): ")
    # Whatever alternates, of one failure nothing is posted twice.
    shutil.move(world.folder / "shop", world.folder / "away")
    assert world.tick() == "shop is unreachable"
    assert [text.partition(" (")[0] for text in take()] == ["changefeed shop: unreachable"]
    shutil.move(world.folder / "away", world.folder / "shop")
    assert world.tick() == "shop is behind"
    assert take() == []

    world.goes_on("shop")
    world.tick()
    world.tick()
    assert take() == ["changefeed shop: up to date again"]
    world.applies("shop", HOUR)
    world.tick()
    assert [text.partition(" (")[0] for text in take()] == ["changefeed shop: behind"]


def test_several_changefeeds_are_posted_together(world: World, take: Take) -> None:
    for id in ("shop", "mail"):
        world.applies(id, HOUR)
        world.writes(id, HOUR)
    world.tick()
    (text,) = take()
    assert [line.partition(" (")[0] for line in text.splitlines()] == [
        "changefeed shop: stopped",
        "changefeed mail: stopped",
    ]


def test_what_does_not_say_how_long_it_has_lasted_has_to_last_first(
    world: World, take: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A new changefeed, of which nothing is applied yet.
    shutil.rmtree(world.folder / "lake" / "mail")
    assert world.tick() == "mail is empty"
    assert take() == []
    monkeypatch.setattr(lag, "time", SimpleNamespace(time=lambda: time.time() + 599))
    world.tick()
    assert take() == []
    monkeypatch.setattr(lag, "time", SimpleNamespace(time=lambda: time.time() + 601))
    world.tick()
    world.tick()
    assert take() == ["changefeed mail: empty: nothing is applied yet"]
    world.snapshots["mail"] = 0
    world.goes_on("mail")
    world.tick()
    assert take() == ["changefeed mail: up to date again"]


def test_a_sensor_that_is_switched_off_is_posted_once(
    world: World, take: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = [
        ("SCHEDULE", "STOPPED", "mail_checkpoint"),
        ("SENSOR", "RUNNING", "alert_on_checks"),
        ("SENSOR", "STOPPED", "a_sensor_of_somebody_else"),
    ]

    def list_states(*_: object) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(
                instigator_type=SimpleNamespace(value=kind),
                status=SimpleNamespace(value=status),
                instigator_name=name,
            )
            for kind, status, name in states
        ]

    monkeypatch.setattr(dg.DagsterInstance, "all_instigator_state", list_states)
    world.tick()
    assert take() == []
    states.append(("SENSOR", "STOPPED", "shop_checkpoint"))
    assert world.tick() == "sensor shop_checkpoint is switched off"
    world.tick()
    assert take() == ["sensor shop_checkpoint is switched off"]
    states[-1] = ("SENSOR", "RUNNING", "shop_checkpoint")
    states.append(("SENSOR", "STOPPED", "reload_definitions"))
    world.tick()
    assert take() == [
        "sensor reload_definitions is switched off\nsensor shop_checkpoint is switched on again"
    ]


def test_an_alert_that_was_not_delivered_is_posted_by_the_next_tick(
    world: World, take: Take, answers: list[int]
) -> None:
    world.applies("shop", HOUR)
    answers += [503, 503, 503]
    with pytest.raises(RuntimeError, match="HTTP status 503"):
        world.tick()
    assert len(take()) == 3
    world.tick()
    assert len(take()) == 1


def test_only_sources_of_late_changefeeds_are_read(
    world: World, take: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    found = lag.read_source_states
    monkeypatch.setattr(
        lag,
        "read_source_states",
        lambda feeds, *rest: read.extend(feed.id for feed in feeds) or found(feeds, *rest),
    )
    world.tick()
    assert read == []
    world.applies("mail", HOUR)
    world.tick()
    assert read == ["mail"]


@pytest.mark.parametrize("cursor", ["", "{", '{"behind": 5}', '{"behind": {"shop": {}}}'])
def test_a_cursor_that_a_person_has_set_is_no_obstacle(world: World, cursor: str) -> None:
    world.cursor = cursor
    assert world.tick() == "every changefeed is up to date, every sensor is on"


def test_the_limit_is_a_setting_that_is_checked_when_definitions_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(WEBHOOK, raising=False)
    assert lag_sensors([]) == []
    monkeypatch.setenv(MAX_LAG, "soon")
    with pytest.raises(ConfigError, match=r"^TICDC_MAX_LAG: 'soon' must be a duration such as"):
        lag_sensors([])
