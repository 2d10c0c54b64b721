"""Below a fold, row events are gone: whatever is above it is as before."""

import shutil
from collections import Counter
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from tests.lake.canal import FEED, ddl, placed, row, watermark
from tests.lake.folded_lake import FoldedLake
from tests.lake.test_definitions import without_extension
from tests.lake.versions_at import read_histories
from tests.usual import usual
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.errors import BelowFold, ConfigError
from ticdc_assets.lake import fold as folding
from ticdc_assets.lake import maintain as maintenance
from ticdc_assets.lake.advance import AdvanceResult, RecordSource, advance
from ticdc_assets.lake.apply import table_features
from ticdc_assets.lake.events import folded_events
from ticdc_assets.lake.history.changes_table import ChangesTable
from ticdc_assets.lake.history.history_table import HistoryTable
from ticdc_assets.lake.quarantine import list_faults
from ticdc_assets.log import applied
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.log.folds import read_folds
from ticdc_assets.protocols.message import Message
from ticdc_assets.store import old_files
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.views.asof import as_of


class Killed(BaseException):
    """What ends a run as a kill does: nothing catches it."""


@pytest.fixture
def folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FoldedLake:
    monkeypatch.setattr(old_files, "_COMMITS_TO_KEEP", 0)
    monkeypatch.setattr(table_features, "LARGE_TABLE", 1 << 20)
    return FoldedLake(tmp_path / "lake")


class Clock:
    """In place of `datetime`, of which days pass."""

    def __init__(self) -> None:
        self.day = 0

    def now(self, zone: tzinfo) -> datetime:
        return datetime.now(zone) + timedelta(days=self.day)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(applied, "datetime", clock)
    monkeypatch.setattr(maintenance, "_now", lambda: clock.now(UTC))
    return clock


def test_everything_above_a_fold_is_as_before(folded: FoldedLake) -> None:
    folded.go_on(3)
    before = folded.count_events()
    assert folded.maintain().fold.folded == before["row"] == 12
    floor = folded.fold.ts
    assert floor == folded.upstream.ts
    assert folded.count_events() == before - Counter(row=12)
    with pytest.raises(ConfigError, match=f"{floor - 1} .* is below the fold at {floor}"):
        as_of(folded.lake, floor - 1)
    folded.check()
    folded.go_on(3)
    assert folded.count_events()["row"] == 12
    folded.check()
    folded.rebuild()
    folded.check()
    # The next fold takes the place of this one, and so do its rows.
    folded.maintain()
    assert folded.fold.ts > floor
    assert folded.count_events()["row"] == 0
    folded.go_on(2)
    folded.rebuild()
    folded.check()


def test_what_arrives_below_a_fold_is_quarantined_and_changes_nothing(folded: FoldedLake) -> None:
    folded.go_on(3)
    folded.maintain()
    floor, sent = folded.fold.ts, [*folded.upstream.messages]
    folded.go_on(2)
    # A sender begins again from the first event on, and there is one that nobody has seen.
    new = [
        row("d", "t", floor, id="77", v="new"),
        ddl("d", "t", 3, "ALTER", "ALTER TABLE t ADD w INT"),
    ]
    folded.upstream.ts += 1
    folded.upstream.messages += [*sent, *new, watermark(folded.upstream.ts)]
    done = folded.run().applied
    rows = folded.upstream.truth.keys() & set(range(floor + 1))
    assert done.quarantined == len(rows) + 1 + 1
    assert {problem.kind for problem in done.problems} == {"quarantined"}
    assert sum(fault.count for fault in list_faults(folded.reader)) == done.quarantined
    read = folded.reader.read(folded.reader.open("quarantine"), ["error", "stage"])
    assert read.to_pylist() == [{"error": BelowFold.__name__, "stage": "apply"}] * done.quarantined
    folded.check()
    folded.rebuild()
    folded.check()
    # It is not in the way of the next fold, and goes with it.
    folded.maintain()
    assert folded.fold.ts > floor
    folded.go_on()
    assert folded.count_events()["row"] == 4
    folded.check()


def test_late_rows_above_a_fold_are_applied(folded: FoldedLake) -> None:
    folded.go_on(2)
    folded.maintain()
    folded.go_on(2)
    late = folded.fold.ts + 1
    folded.upstream.messages += [
        row("d", "t", late, id="77", v="late"),
        watermark(folded.upstream.ts + 1),
    ]
    for ts in folded.upstream.truth:
        if ts >= late:
            folded.upstream.truth[ts]["77"] = "late"
    assert folded.run().applied.replayed == 1
    folded.check()


STEPS: dict[str, tuple[Any, str]] = {
    "the fold is stated": (folding, "state_fold"),
    "a file is written": (folded_events, "_write_rest"),
    "files are committed": (folded_events, "_commit"),
    "its end is stated": (folding, "state_fold"),
}


# Every run takes each step once.
KILLS = usual(
    product(STEPS, (False, True)),
    lambda step, is_done: is_done == (list(STEPS).index(step) % 2 == 1),
)


@pytest.mark.parametrize(("step", "is_done"), KILLS)
def test_a_fold_that_was_killed_goes_on(
    folded: FoldedLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, is_done: bool
) -> None:
    monkeypatch.setattr(folded_events, "_FILES_PER_COMMIT", 2)
    folded.go_on(4)
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    copied = FoldedLake(tmp_path / "copy", folded.upstream)
    copied.maintain()
    place, name = STEPS[step]
    call = getattr(place, name)
    calls = 0

    def kill(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls < (2 if step == "its end is stated" else 1):
            return call(*arguments)
        if is_done:
            call(*arguments)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(place, name, kill)
        with pytest.raises(Killed):
            folded.maintain()
    # Whoever reads, or runs, meanwhile meets a lake that is whole.
    folded.check()
    folded.go_on()
    folded.check()
    copied.run()
    folded.maintain(None)
    if not folded.fold.snapshot_id:
        # Nothing of it counted yet.
        return
    covered = folded.fold.covers(pc.field)
    assert folded.reader.read(folded.reader.open("events"), ["seq"], covered).num_rows == 0
    assert folded.fold == copied.fold
    assert folded.count_events() == copied.count_events()
    folded.rebuild()
    folded.check()


def test_a_snapshot_is_chosen_ahead_and_outlives_its_files(
    folded: FoldedLake, clock: Clock
) -> None:
    chosen = []
    for clock.day in (0, 5, 10, 20):
        folded.go_on()
        chosen.append(read_last_snapshot(folded.lake))
        # Each version but the newest is older than what is retained.
        folded.maintain(20)
    # One in ten days.
    assert [*read_folds(folded.reader).chosen] == [each.snapshot_id for each in chosen[2:]]
    assert (folded.fold.snapshot_id, folded.fold.ts) == (chosen[0].snapshot_id, chosen[0].ts)
    folded.rebuild()
    folded.check()


def test_what_needs_events_holds_a_fold_back(folded: FoldedLake) -> None:
    folded.go_on(2)
    upstream = folded.upstream
    last, stopped = read_last_snapshot(folded.lake), upstream.ts
    upstream.ts += 2
    upstream.messages += [
        ddl("d", "u", upstream.ts - 1, "CREATE", "CREATE TABLE `u` (`id` INT PRIMARY KEY)"),
        ddl("d", "u", upstream.ts - 1, "ALTER", "ALTER TABLE `u` DROP COLUMN `none`"),
        row("d", "u", upstream.ts, id="1"),
        watermark(upstream.ts),
    ]
    assert [problem.kind for problem in folded.run().applied.problems] == ["paused"]
    upstream.go_on()
    folded.run()
    done = folded.maintain(retain=7).fold
    assert done.held is not None
    assert done.held.startswith(f"d.u is paused since {stopped} ")
    assert (folded.fold.snapshot_id, folded.fold.ts) == (last.snapshot_id, stopped)
    folded.check()


def test_milliseconds_repeated_around_a_fold_stay_repetitions(
    folded: FoldedLake, clock: Clock
) -> None:
    plain = changefeed_from_uri("kafka://h:9092/t?protocol=canal-json", id=FEED.id)
    folded.lake = LakeSession(folded.lake._start, folded.lake.location, plain)
    sent: list[Message] = []

    def run(*repeated: Message) -> AdvanceResult:
        # Without the extension there is no watermark.
        new = [
            without_extension(each)
            for each in folded.upstream.messages
            if b"TIDB_W" not in each.value
        ]
        folded.upstream.messages.clear()
        sent.extend([*repeated, *new])
        return advance(folded.lake, RecordSource(lambda _: placed(sent)))

    for _ in range(3):
        folded.upstream.go_on()
        run()
    folded.maintain(20)
    clock.day = 1
    # A sender goes back behind the snapshot that was chosen, and its moment passes.
    folded.upstream.go_on()
    assert run(*sent[-6:]).applied.problems == []
    folded.check(18)
    clock.day = 20
    folded.maintain(20)
    assert folded.fold.through_ts < folded.fold.ts < read_last_snapshot(folded.lake).ts
    assert folded.count_events()["row"] < len(sent)
    folded.check(18)
    folded.rebuild()
    folded.check(18)
    # From there on, they cannot be compared.
    folded.upstream.go_on()
    assert {problem.kind for problem in run(*sent[1:4]).applied.problems} == {"quarantined"}
    folded.check(18)


@pytest.mark.parametrize("kind", [HistoryTable, ChangesTable])
def test_histories_go_on_or_begin_with_the_rows_at_a_fold(
    folded: FoldedLake, tmp_path: Path, kind: type[HistoryTable] | type[ChangesTable]
) -> None:
    declared = {"history": ("d.*",), "changes": ("d.*",)}
    early = FoldedLake(tmp_path / "lake", folded.upstream, **declared)
    folded.go_on(2)
    # It is declared, and not computed yet.
    assert early.maintain().fold.held is not None
    assert not early.fold.snapshot_id
    early.go_on()
    early.maintain()
    floor = early.fold.ts
    assert floor == early.upstream.ts
    early.go_on(2)

    def check(first: int) -> None:
        at = read_histories(early.lake, kind)
        for ts in [ts for ts in early.upstream.truth if ts >= first]:
            ((_, lines),) = at(ts).values()
            assert sorted(lines) == early.upstream.format(ts), ts

    check(0)
    # Begun anew, it has what is left.
    (id,) = read_last_snapshot(early.lake).versions
    shutil.rmtree(early.lake.path(kind(early.lake, id).name))
    early.go_on()
    check(floor)
    early.maintain()
    shutil.rmtree(early.lake.path(kind(early.lake, id).name))
    assert early.run().applied.problems == []
    check(early.fold.ts)
