"""The loop of windows: when it continues, and what it returns when a window fails."""

import logging
from pathlib import Path
from typing import Any, cast

import pytest

from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.advance import AdvanceResult
from ticdc_assets.lake.apply.apply import ApplyResult
from ticdc_assets.lake.events.event_commits import DecodeResult
from ticdc_assets.lake.raw.ingest_records import IngestResult
from ticdc_assets.log.catalog import LakeCatalog
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.plan.state import Incarnation, State
from ticdc_assets.run import (
    AppliedWindows,
    RunBudget,
    advance_windows,
    find_tables,
    rebuild_tables,
    windows,
)
from ticdc_assets.schema.catalog import key_of
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.tables import create_tables
from ticdc_assets.stream.problem import Problem
from ticdc_assets.views.names import LakeNames

FEED = changefeed_from_uri("file:///data?protocol=csv", id="shop")
LOG = logging.getLogger("test")


class Budget:
    """A budget for a number of windows."""

    def __init__(self, count: int) -> None:
        self.left = count

    def find_end_reason(
        self, before: LakeCatalog, after: LakeCatalog, *, has_more: bool, is_idle: bool
    ) -> str | None:
        assert not is_idle
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


def test_tables_are_rebuilt_by_name_and_any_that_is_not_there_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    names = (("shop", "Orders"), ("shop", "customers"))
    tables = [
        Incarnation(id=f"t{number}", schema=TableSchema(*name, ()), created_ts=1)
        for number, name in enumerate(names)
    ]
    state = State(
        incarnations={table.id: table for table in tables},
        names=[(key_of(table.schema), table.id) for table in tables],
    )
    snapshot = Snapshot(state)
    lake = LakeSession(cast(Any, None), Lake(str(tmp_path), FEED.id), FEED)
    create_tables(lake)
    known = LakeNames(LakeReader(lake.location), FEED, snapshot)

    assert find_tables(known, ["shop.orders"], "tables") == {"t0"}
    assert find_tables(known, ["shop.orders", "shop.customers"], "tables") == {"t0", "t1"}
    with pytest.raises(ConfigError, match=r"^tables: no table shop\.nope in the lake"):
        find_tables(known, ["shop.orders", "shop.nope"], "tables")
    with pytest.raises(ConfigError, match=r"^tables: names no table: list them as database\.t"):
        find_tables(known, [], "tables")

    requests: list[ReplayRequest] = []

    def replay(_: object, __: object, request: ReplayRequest, ___: object) -> ApplyResult:
        requests.append(request)
        return ApplyResult(1, problems=[Problem("history", "why", "shop", "orders")])

    monkeypatch.setattr(windows, "replay_tables", replay)
    rebuild_tables(lake, snapshot, frozenset({"t0"}), LOG)

    assert requests == [ReplayRequest(frozenset({"t0"}), 0)]
    assert len(caplog.messages) == 1


def test_what_catalogs_lack_is_a_problem_of_the_run_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lacks = Problem("catalog", "glue: does not answer")
    monkeypatch.setattr(windows, "update_catalogs", lambda *_: [lacks])

    for fails_at in (None, 2):
        done = run(tmp_path, monkeypatch, 2, fails_at)
        assert done.result.applied.problems == [lacks]
        assert (done.failure is None) is (fails_at is None)
    said = [record.getMessage() for record in caplog.records]
    assert [line for line in said if "catalog" in line] == ["catalog: glue: does not answer"] * 2
