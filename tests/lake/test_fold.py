"""Below a fold, row events are gone: whatever is above it is as before."""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.lake.canal import FEED, placed, row, watermark
from tests.lake.test_retention import Upstream, start_no_spark
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake import fold as folding
from ticdc_assets.lake.advance import AdvanceResult, RecordSource, advance, replay_tables
from ticdc_assets.lake.events import folded_events
from ticdc_assets.lake.log.applied import read_last_snapshot
from ticdc_assets.lake.log.folds import read_folds
from ticdc_assets.lake.maintain import maintain
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.store import old_files
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.asof import as_of
from ticdc_assets.views.ledger import build_ledger


class FoldedLake:
    """A lake without Spark, of a table that changes all the time."""

    def __init__(self, root: Path) -> None:
        self.lake = LakeSession(cache(start_no_spark), Lake(str(root), FEED.id), FEED)
        self.reader = LakeReader(self.lake.location)
        self.upstream = Upstream()

    def go_on(self, windows: int = 1) -> AdvanceResult:
        for _ in range(windows):
            self.upstream.go_on()
            done = self.run()
        return done

    def run(self) -> AdvanceResult:
        return advance(self.lake, RecordSource(lambda _: placed(self.upstream.messages)))

    def fold(self) -> int:
        """Fold at the newest snapshot; return its ts."""
        maintain(self.lake, read_last_snapshot(self.lake), retain_days=0, keep_events_days=0)
        return read_folds(self.reader).newest.ts

    def count_rows(self, where: pc.Expression | None = None) -> int:
        is_row = pc.field("kind") == "row"
        where = is_row if where is None else is_row & where
        return self.reader.read(self.reader.open("events"), ["batch"], where).num_rows

    def count_others(self) -> int:
        where = pc.field("kind") != "row"
        return self.reader.read(self.reader.open("events"), ["batch"], where).num_rows

    def check(self, above: int) -> None:
        """Compare every TSO from one on with what was upstream then, and recount everything."""
        for ts in (ts for ts in self.upstream.truth if ts >= above):
            seen = as_of(self.lake, ts)
            lines = list(seen.lines(seen.find("d.t")[0]))
            assert lines == self.upstream.format(ts), ts
        ledger = build_ledger(self.reader, read_last_snapshot(self.lake))
        assert ledger.adds_up, ledger

    def rebuild(self) -> None:
        applied = read_last_snapshot(self.lake)
        request = ReplayRequest(frozenset(applied.versions), 0)
        assert replay_tables(self.lake, applied, request, lambda *_: None).replayed == 1


@pytest.fixture
def folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FoldedLake:
    monkeypatch.setattr(old_files, "_COMMITS_TO_KEEP", 0)
    return FoldedLake(tmp_path)


def test_everything_above_a_fold_is_as_before(folded: FoldedLake) -> None:
    folded.go_on(4)
    others = folded.count_others()
    floor = folded.fold()
    assert floor == folded.upstream.ts
    assert (folded.count_rows(), folded.count_others()) == (0, others)
    with pytest.raises(ConfigError, match=f"{floor - 1} .* is below the fold at {floor}"):
        as_of(folded.lake, floor - 1)
    folded.check(floor)
    folded.go_on(4)
    assert folded.count_rows() == 16
    folded.check(floor)
    folded.rebuild()
    folded.check(floor)
    # The next fold takes the place of this one, and so do its rows.
    newer = folded.fold()
    assert newer > floor
    assert folded.count_rows() == 0
    folded.go_on(2)
    folded.rebuild()
    folded.check(newer)
