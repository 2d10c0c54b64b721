"""A lake without Spark whose row events can be folded."""

from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from tests.lake.canal import FEED, placed
from tests.lake.test_retention import Upstream, start_no_spark
from ticdc_assets.lake.advance import AdvanceResult, RecordSource, advance, replay_tables
from ticdc_assets.lake.maintain import MaintainResult, maintain
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.log.folds import Fold, read_folds
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.asof import as_of
from ticdc_assets.views.ledger import build_ledger


class FoldedLake:
    """A lake without Spark, of a table that changes all the time."""

    def __init__(self, root: Path, upstream: Upstream | None = None, **settings: Any) -> None:
        feed = replace(FEED, **settings)
        self.lake = LakeSession(cache(start_no_spark), Lake(str(root), feed.id), feed)
        self.reader = LakeReader(self.lake.location)
        self.upstream = upstream or Upstream()
        self._checks = 0

    def go_on(self, windows: int = 1) -> None:
        for _ in range(windows):
            self.upstream.go_on()
            assert self.run().applied.problems == []

    def run(self) -> AdvanceResult:
        return advance(self.lake, RecordSource(lambda _: placed(self.upstream.messages)))

    def maintain(self, days: float | None = 0, retain: float = 0) -> MaintainResult:
        last = read_last_snapshot(self.lake)
        return maintain(self.lake, last, retain_days=retain, keep_events_days=days)

    @property
    def fold(self) -> Fold:
        return read_folds(self.reader).newest

    def read_events(self, *columns: str) -> list[dict[str, Any]]:
        rows = self.reader.read(self.reader.open("events"), columns)
        return list(rows.to_pylist())

    def count_events(self) -> Counter[str]:
        return Counter(event["kind"] for event in self.read_events("kind"))

    def check(self, shift: int = 0) -> None:
        """Compare TSOs with upstream's rows then, and recount everything.

        The first and the last one that are there; of the others a fifth, another one each time.
        """
        floor = self.fold.ts
        points = sorted(ts for ts in self.upstream.truth if ts << shift >= floor)
        self._checks += 1
        for ts in sorted({points[0], points[-1], *points[self._checks % 5 :: 5]}):
            seen = as_of(self.lake, ts << shift)
            lines = list(seen.lines(seen.find("d.t")[0]))
            assert lines == self.upstream.format(ts), ts
        ledger = build_ledger(self.reader, read_last_snapshot(self.lake))
        assert ledger.adds_up, ledger

    def rebuild(self) -> None:
        last = read_last_snapshot(self.lake)
        request = ReplayRequest(frozenset(last.versions), 0)
        assert replay_tables(self.lake, last, request, lambda *_: None).replayed == 1
