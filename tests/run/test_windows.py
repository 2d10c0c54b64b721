"""The loop of windows: when it continues, and what it returns when a window fails."""

import logging
from pathlib import Path
from typing import Any, cast

import pytest

from resources.catalog import read_catalog
from tests.made_lake import schema, write_snapshot, write_tables
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.advance import AdvanceResult
from ticdc_assets.lake.apply.apply import ApplyResult
from ticdc_assets.lake.events.event_commits import DecodeResult
from ticdc_assets.lake.log.catalog import LakeCatalog
from ticdc_assets.lake.raw.ingest_records import IngestResult
from ticdc_assets.lake.store.lake import Lake, LakeSession
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.run import (
    AppliedWindows,
    RunBudget,
    advance_windows,
    replay_named_tables,
    windows,
)

FEED = changefeed_from_uri("file:///data?protocol=csv", id="shop")
LOG = logging.getLogger("test")


class Budget:
    """A budget for a number of windows."""

    def __init__(self, count: int) -> None:
        self.left = count

    def find_end_reason(
        self, before: LakeCatalog, after: LakeCatalog, *, has_more: bool
    ) -> str | None:
        assert has_more is (self.left % 2 == 0)
        self.left -= 1
        return None if self.left else "enough"


def run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, count: int, fails_at: int | None = None
) -> AppliedWindows:
    """Run windows of ten rows each over no lake at all."""
    started: list[int] = []

    def advance(*_: object, **__: object) -> AdvanceResult:
        started.append(len(started) + 1)
        if started[-1] == fails_at:
            raise RuntimeError(f"window {fails_at}")
        decoded = DecodeResult(10, 0, 0, (), 5, 1, 1)
        ingested = IngestResult(1, 1, 5, 1, has_more=(count - started[-1]) % 2 == 1)
        return AdvanceResult(ingested, decoded, ApplyResult(started[-1], rows=10))

    monkeypatch.setattr(windows, "advance", advance)
    lake = LakeSession(cast(Any, None), Lake(str(folder), "shop"), FEED)
    budget = cast(RunBudget, Budget(count))
    return advance_windows(lake, cast(Any, None), budget, LakeCatalog(), LOG)


def test_windows_follow_each_other_until_the_budget_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run(tmp_path, monkeypatch, 3)

    assert done.result.decoded.rows == 30
    assert done.result.applied.resolved_ts == 3
    assert done.failure is None


def test_a_window_that_fails_ends_the_run_with_what_was_done_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "test"):
        done = run(tmp_path, monkeypatch, 5, fails_at=3)

    assert done.result.applied.rows == 20
    assert str(done.failure) == "window 3"
    assert "advance failed; reporting completed windows" in caplog.text


def test_a_first_window_that_fails_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RuntimeError, match="window 1"):
        run(tmp_path, monkeypatch, 5, fails_at=1)


def test_a_selected_table_that_the_lake_no_longer_has_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place = Lake(str(tmp_path), "shop")
    write_snapshot(place, 1, 470628459884838913)
    write_tables(place, [schema("shop", "Orders"), schema("shop", "old")], old="dropped")
    requests: list[ReplayRequest] = []

    def replay(_: object, __: object, request: ReplayRequest, ___: object) -> ApplyResult:
        requests.append(request)
        return ApplyResult(1)

    monkeypatch.setattr(windows, "replay_tables", replay)
    monkeypatch.setattr(windows, "read_existing_snapshot", lambda _: None)
    lake, before = LakeSession(cast(Any, None), place, FEED), read_catalog(place)
    selected = [("shop", "orders"), ("shop", "old")]
    replay_named_tables(lake, selected, before, LOG)

    assert requests == [ReplayRequest(frozenset({"t0"}), 0)]
    gone = "the lake no longer has it; reload the code location"
    assert caplog.messages == [f"shop.old is not replayed: {gone}"]
    with pytest.raises(ConfigError, match=f"^selection: all of it: {gone}$"):
        replay_named_tables(lake, selected[1:], before, LOG)
