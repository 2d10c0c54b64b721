"""When a run goes on with its changefeed, and what it ends for."""

import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from ticdc_assets.assets import run_budget
from ticdc_assets.assets.run_budget import RunBudget
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.lake.log.catalog import AppliedRow, LakeCatalog, LakeTable
from ticdc_assets.lake.store.lake import Lake
from ticdc_assets.lake.store.lock import is_lock_wanted, locked

T1, T2, T3 = (470628459884838913 + (n << 30) for n in range(3))


class Clock:
    """Time that passes only by what is waited."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class World:
    """A folder that a changefeed writes to, a lake, and a run that stays with them."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance, clock: Clock) -> None:
        self.folder = folder
        self.lake = Lake(str(folder / "lake"), "shop")
        self.instance = instance
        self.clock = clock
        self.writes(T1)
        feed = changefeed_from_uri(f"file://{folder}?protocol=csv", id="shop")
        self.stay = RunBudget(feed, self.lake, instance)

    def writes(self, ts: int) -> None:
        (self.folder / "metadata").write_text(json.dumps({"checkpoint-ts": ts}))

    def is_over(self, applied: int, *tables: str) -> str | None:
        return self.stay.is_over(LakeCatalog(), _catalog(applied, *tables))


def _catalog(ts: int, *tables: str) -> LakeCatalog:
    line = AppliedRow(1, datetime.now(UTC), ts, 1, {}, {}, [], None, 1)
    there = {name: LakeTable(name, "d", name, "live", None, None, 1, None) for name in tables}
    return LakeCatalog(there, line)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    clock = Clock()
    monkeypatch.setattr(run_budget, "time", clock)
    monkeypatch.delenv(run_budget.INTERVAL, raising=False)
    with dg.DagsterInstance.ephemeral() as instance:
        yield World(tmp_path, instance, clock)


def test_it_goes_on_with_every_new_checkpoint_at_the_interval(world: World) -> None:
    world.writes(T2)
    world.clock.now += 4
    begun = world.clock.now
    assert world.is_over(T1) is None
    assert world.clock.now == begun + 11
    # Work that takes longer than the interval is followed by more at once.
    world.writes(T3)
    world.clock.now += 40
    assert world.is_over(T2) is None
    assert world.clock.now == begun + 51
    assert world.is_over(T3) == "the source has got no further"


def test_it_ends_where_the_lake_does_not_get_on_and_the_source_neither(world: World) -> None:
    world.writes(T2)
    assert world.is_over(0) is None
    assert world.is_over(0) == "the source has got no further"


def test_it_ends_after_a_while(world: World) -> None:
    world.writes(T2)
    world.clock.now += 181
    assert "long enough" in (world.is_over(T1) or "")


def test_it_does_not_rest_for_long(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(run_budget.INTERVAL, "600")
    world.writes(T2)
    begun = world.clock.now
    assert "for a while" in (world.is_over(T1) or "")
    assert world.clock.now == begun


def test_it_ends_when_tables_come(world: World) -> None:
    world.writes(T2)
    assert "tables have come" in (world.is_over(T1, "orders") or "")


def test_it_ends_for_a_run_in_the_queue(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def count(filters: dg.RunsFilter) -> int:
        return 1 if filters.statuses == [dg.DagsterRunStatus.QUEUED] else 0

    # Only a code location can put one there.
    monkeypatch.setattr(world.instance, "get_runs_count", count)
    world.writes(T2)
    assert world.is_over(T1) == "others wait"


def test_it_ends_for_a_command_that_waits_for_the_lake(world: World) -> None:
    world.writes(T2)

    def command() -> None:
        with locked(world.lake, waiting=lambda _: None):
            pass

    waiter = threading.Thread(target=command)
    with locked(world.lake):
        waiter.start()
        until = time.monotonic() + 30
        while not is_lock_wanted(world.lake) and time.monotonic() < until:
            time.sleep(0.01)
        assert world.is_over(T1) == "others wait"
    waiter.join(30)
    assert not waiter.is_alive()
    assert world.is_over(T1) is None
