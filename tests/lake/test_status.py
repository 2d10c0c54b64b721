"""How far a changefeed is: one that is idle has not stopped, and only lag is a problem."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.made_lake import schema, write_snapshot, write_tables
from ticdc_assets.events.tso import compose
from ticdc_assets.events.written import write_json
from ticdc_assets.plan.state import State, UnknownTable
from ticdc_assets.store.arrow import arrow_schema, make_table
from ticdc_assets.store.contracts import QUARANTINE
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.lock import locked
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.writer import LakeWriter
from ticdc_assets.views.status import (
    LakeState,
    SourceState,
    judge,
    read_lake_progress,
    read_lake_state,
)

NOW = datetime(2026, 3, 14, 9, 26, tzinfo=UTC)
LIMIT = 600.0


def ago(minutes: float) -> int:
    return compose(round((NOW.timestamp() - 60 * minutes) * 1000))


def source(minutes: float | None, wrote: float | None = 0, **more: object) -> SourceState:
    checkpoint = None if minutes is None else ago(minutes)
    newest = None if wrote is None else NOW - timedelta(minutes=wrote)
    return SourceState(checkpoint, newest, **more)  # type: ignore[arg-type]


GONE = SourceState(reason="no broker answers", is_readable=False)
SILENT = SourceState(has_watermarks=False, reason="no watermarks")


@pytest.mark.parametrize(
    ("source", "applied", "state", "is_late", "lags"),
    [
        # An idle changefeed, whose watermarks go on, and a busy one.
        (source(0.1), 0.2, "up to date", False, (12, 6, 6)),
        # TiCDC has stopped.  Within the limit, that is none of anybody's business.
        (source(9, wrote=9), 9, "up to date", False, (540, 540, 0)),
        (source(11, wrote=11), 11, "stopped", True, (660, 660, 0)),
        # It writes, but its watermarks do not move.
        (source(11, wrote=0), 11, "stopped", True, (660, 660, 0)),
        # Nothing advances the lake.
        (source(0), 11, "behind", True, (660, 0, 660)),
        # What it has is in the lake, except for watermarks, which a run will apply.
        (source(0, has_only_watermarks=True), 11, "up to date", False, (660, 0, 660)),
        (source(11, has_only_watermarks=True), 12, "stopped", True, (720, 660, 60)),
        # Each within the limit, and together beyond it.
        (source(6), 12, "behind", True, (720, 360, 360)),
        # Both: first of all, TiCDC has to run.
        (source(20, wrote=20), 30, "stopped", True, (1800, 1200, 600)),
        # Thousands of rows came since the newest watermark, or TiCDC has ended in their middle.
        (source(None, wrote=0), 11, "behind", True, (660, None, None)),
        (source(None, wrote=11), 11, "stopped", True, (660, None, None)),
        # The source of a lake that is fresh enough may be away for a moment.
        (GONE, 9, "unreachable", False, (540, None, None)),
        (GONE, 11, "unreachable", True, (660, None, None)),
        (GONE, None, "unreachable", True, (None, None, None)),
        (source(None, wrote=None, reason="no data yet"), None, "empty", True, (None, None, None)),
        (source(1), None, "empty", True, (None, 60, None)),
        # Without watermarks nobody can tell, however long ago the last event was.
        (SILENT, 1000, "unknown", False, (None, None, None)),
        # TiDB's clock is ahead of this one, and a ts is not from this world.
        (source(-1), -1, "up to date", False, (0, 0, 0)),
        (SourceState((1 << 63) - 1), 1, "up to date", False, (60, 0, 60)),
    ],
)
def test_a_changefeed_is_judged_by_its_lag_and_by_who_is_to_blame(
    source: SourceState,
    applied: float | None,
    state: str,
    is_late: bool,
    lags: tuple[float | None, ...],
) -> None:
    lake = LakeState(resolved_ts=0 if applied is None else ago(applied))
    lag = judge(source, lake, LIMIT, NOW)
    assert (lag.state, lag.is_late) == (state, is_late)
    assert (lag.seconds, lag.checkpoint_seconds, lag.lake_seconds) == lags
    assert bool(lag.reason) == (state != "up to date")


def test_a_lake_that_cannot_be_read_is_late() -> None:
    lag = judge(source(0), LakeState(reason="is damaged"), LIMIT, NOW)
    assert (lag.state, lag.reason, lag.is_late) == ("unreadable", "is damaged", True)


def test_the_state_of_a_lake_counts_what_needs_a_person(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path), "shop")
    assert read_lake_state(lake) == read_lake_progress(lake) == LakeState()
    names = ("a", "b", "c", "d", "e", "f")
    tables = [schema("shop", name) for name in names]
    unknown = [UnknownTable("shop", "g", None, stopped_ts=1, stopped_snapshot_id=0)]
    write_snapshot(lake, 1, ago(5), state=write_json(State(unknown_tables=unknown)))
    write_tables(lake, tables, a="paused", b="paused", c="waiting", d="partial", e="dropped")
    LakeWriter(lake).create("quarantine", arrow_schema(QUARANTINE), {})
    for reason in ("one", "two"):
        row = (1, 1, 0, "decode", *[None] * 3, "t", 0, 7, "MalformedMessage", reason, None)
        LakeWriter(lake).append(LakeReader(lake).open("quarantine"), make_table(QUARANTINE, [row]))
    with locked(lake, "rebuild"):
        write_snapshot(lake, 2, ago(1))
    found = read_lake_state(lake)
    assert found.resolved_ts == read_lake_progress(lake).resolved_ts == ago(1)
    assert (found.tables, found.paused, found.waiting, found.partial) == (6, 2, 2, 1)
    assert found.quarantined == 2
    assert found.last_run is not None
    assert (found.last_run.command, found.last_run.result) == ("rebuild", "ok")

    for file in Path(lake.path("tables")).glob("*.parquet"):
        file.write_bytes(b"damaged")
    assert "cannot be read" in (read_lake_state(lake).reason or "")
    # What only a sensor needs can still be read.
    assert read_lake_progress(lake).reason is None
