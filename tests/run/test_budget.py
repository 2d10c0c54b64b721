"""When a run continues with the next checkpoint, and why it ends."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.lock_waiter import LockWaiter
from ticdc_assets.changefeed import Changefeed, changefeed_from_uri
from ticdc_assets.log.applied_row import AppliedRow
from ticdc_assets.log.catalog import LakeCatalog, LakeTable
from ticdc_assets.resources.dagster_settings import POLL_INTERVAL
from ticdc_assets.run import RunBudget, budget
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.lock import locked

T1, T2, T3 = (470628459884838913 + (n << 30) for n in range(3))


class Clock:
    """A clock that only sleeping advances."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class World:
    """A folder that a changefeed writes to, a lake, and the budget of a run over them."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder = folder
        self.lake = Lake(str(folder / "lake"), "shop")
        self.queued_runs = 0
        self.clock = clock
        self.writes(T1)
        feed = changefeed_from_uri(f"file://{folder}?protocol=csv", id="shop")
        self.budget = RunBudget(feed, self.lake, lambda: self.queued_runs > 0)

    def writes(self, ts: int) -> None:
        (self.folder / "metadata").write_text(json.dumps({"checkpoint-ts": ts}))

    def end_reason(self, applied: int, *tables: str, idle: bool = False) -> str | None:
        after = _catalog(applied, *tables)
        return self.budget.find_end_reason(LakeCatalog(), after, is_idle=idle)


def _catalog(ts: int, *tables: str) -> LakeCatalog:
    line = AppliedRow(1, datetime.now(UTC), ts, 1, 1, {}, {}, (), None, 1)
    there = {name: LakeTable(name, "d", name, "live", None, None, 1, None) for name in tables}
    return LakeCatalog(there, line)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    clock = Clock()
    monkeypatch.setattr(budget, "time", clock)
    monkeypatch.delenv(POLL_INTERVAL, raising=False)
    return World(tmp_path, clock)


def test_a_run_continues_with_every_new_checkpoint_at_the_poll_interval(world: World) -> None:
    world.writes(T2)
    world.clock.now += 4
    begun = world.clock.now
    assert world.end_reason(T1) is None
    assert world.clock.now == begun + 11
    # A window that takes longer than the interval is followed by the next one at once.
    world.writes(T3)
    world.clock.now += 40
    assert world.end_reason(T2) is None
    assert world.clock.now == begun + 51
    assert world.end_reason(T3) == "the source has no newer checkpoint"


def test_a_run_ends_if_neither_lake_nor_source_make_progress(world: World) -> None:
    world.writes(T2)
    assert world.end_reason(0) is None
    assert world.end_reason(0) == "the source has no newer checkpoint"


def test_a_run_ends_after_three_minutes(world: World) -> None:
    world.writes(T2)
    world.clock.now += 181
    assert "has used its time" in (world.end_reason(T1) or "")


def test_a_run_does_not_sleep_for_long(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(POLL_INTERVAL, "600")
    world.writes(T2)
    begun = world.clock.now
    assert "too far away" in (world.end_reason(T1) or "")
    assert world.clock.now == begun


def test_a_run_ends_when_tables_are_created(world: World) -> None:
    world.writes(T2)
    assert "tables were created" in (world.end_reason(T1, "orders") or "")


def test_a_run_ends_for_a_queued_run(world: World) -> None:
    world.queued_runs = 1
    world.writes(T2)
    assert world.end_reason(T1) == "another run or command is waiting"


def test_a_run_ends_for_a_command_that_waits_for_the_lake(world: World) -> None:
    world.writes(T2)
    waiter = LockWaiter(world.lake)
    with locked(world.lake, "advance"):
        waiter.start()
        assert world.end_reason(T1) == "another run or command is waiting"
    waiter.join()
    assert world.end_reason(T1) is None


def test_a_run_reads_on_at_once_where_a_limit_stopped_it(world: World) -> None:
    begun = world.clock.now
    assert world.budget.find_end_reason(LakeCatalog(), _catalog(T1), has_more=True) is None
    assert world.clock.now == begun
    world.clock.now += 181
    reason = world.budget.find_end_reason(LakeCatalog(), _catalog(T1), has_more=True)
    assert "has used its time" in (reason or "")


def test_a_run_continues_as_long_as_its_topics_grow(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = iter([{"t-0": 5, "t-1": 2}, {"t-0": 5, "t-1": 3}, {"t-0": 5, "t-1": 3}])
    monkeypatch.setattr(budget, "read_topic_ends", lambda _: next(ends))
    feed = changefeed_from_uri("kafka://h:9092/t?protocol=simple", id="shop")
    world.budget = RunBudget(feed, world.lake, lambda: False)
    assert world.end_reason(T3) is None
    assert world.end_reason(T3) == "the source has no newer checkpoint"


def test_a_run_that_found_only_watermarks_ends_although_more_of_them_come(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "may_have_input", lambda *_: False)
    world.writes(T2)
    assert world.end_reason(T1, idle=True) == "the source has only newer watermarks"


def test_a_run_waits_behind_its_last_input_for_more_until_its_time_is_used(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    polled: list[int] = []

    def poll(feed: Changefeed, lake: Lake, applied_ts: int) -> bool:
        assert lake == world.lake
        polled.append(applied_ts)
        world.writes(T3 + len(polled))
        return len(polled) == 3

    monkeypatch.setattr(budget, "may_have_input", poll)
    world.writes(T2)
    begun = world.clock.now
    # Only behind a window without input is the source searched for input.
    assert world.end_reason(T1) is None
    assert polled == []
    world.writes(T3)
    assert world.end_reason(T2, idle=True) is None
    assert polled == [T2] * 3
    assert world.clock.now == begun + 4 * 15
    assert "has used its time" in (world.end_reason(T2, idle=True) or "")
    assert 165 <= world.clock.now - begun <= 180


def test_a_run_ends_behind_its_last_input_when_the_watermarks_stop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "may_have_input", lambda *_: False)
    world.writes(T2)
    assert world.end_reason(T1) is None
    world.writes(T3)
    assert world.end_reason(T2, idle=True) == "the source has no newer checkpoint"
