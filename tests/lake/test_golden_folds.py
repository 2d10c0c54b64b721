"""A golden dataset whose row events are folded on the way equals TiDB at every point above."""

from functools import cache
from pathlib import Path
from random import Random
from zlib import crc32

import pyarrow.compute as pc
import pytest

from tests.lake import golden_runs
from tests.lake.golden_runs import (
    GoldenLake,
    compare,
    cuts,
    list_truth_points,
    unexpected_problems,
)
from tests.lake.test_retention import start_no_spark
from tests.usual import usual
from ticdc_assets.lake.advance import replay_tables
from ticdc_assets.lake.apply import table_features
from ticdc_assets.lake.maintain import maintain
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.log.folds import Fold, read_folds
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.asof import as_of
from ticdc_assets.views.ledger import build_ledger

# Rows that state their commit ts in a topic, in files; milliseconds; the version of their table.
QUICK = ("lifecycle/canal-json",)
SOME = (
    *(*QUICK, "lifecycle/storage-csv-default"),
    *("lifecycle/simple-json-replayed", "lifecycle/storage-csv-full"),
)


def fold(golden: GoldenLake) -> Fold:
    """Fold everything that can be folded now."""
    maintain(golden.lake, read_last_snapshot(golden.lake), retain_days=0, keep_events_days=0)
    return read_folds(LakeReader(golden.lake.location)).newest


def require_complete(golden: GoldenLake) -> None:
    ledger = build_ledger(LakeReader(golden.lake.location), read_last_snapshot(golden.lake))
    assert ledger.adds_up, [table for table in ledger.tables if not table.adds_up] or ledger.source


def read_all(golden: GoldenLake) -> dict[str, list[bytes]]:
    shown = as_of(golden.lake)
    return {table.id: list(shown.lines(table)) for table in shown.tables()}


def rebuild(golden: GoldenLake) -> None:
    """Rebuild every table; none changes."""
    before = read_all(golden)
    request = ReplayRequest(frozenset(before), 0)
    replay_tables(golden.lake, read_last_snapshot(golden.lake), request, lambda *_: None)
    assert read_all(golden) == before


def count_covered(golden: GoldenLake, fold: Fold) -> int:
    reader = LakeReader(golden.lake.location)
    return reader.read(reader.open("events"), ["batch"], fold.covers(pc.field)).num_rows


@pytest.mark.parametrize("dataset", usual(SOME, QUICK.__contains__, pytest.mark.all_golden))
def test_a_folded_lake_is_what_tidb_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dataset: str
) -> None:
    monkeypatch.setattr(golden_runs, "read_lines", lambda _, shown, table: [*shown.lines(table)])
    monkeypatch.setattr(table_features, "LARGE_TABLE", 1 << 20)
    golden = GoldenLake(cache(start_no_spark), tmp_path, dataset)  # type: ignore[arg-type]
    apply_with_folds(golden, Random(crc32(dataset.encode())))


def apply_with_folds(golden: GoldenLake, random: Random) -> None:
    points = list_truth_points(golden.dataset)
    chosen = random.sample(points[:-1], min(4, len(points) - 1))
    folds: list[Fold] = []
    for number, cut in enumerate(cuts(golden.dataset, sorted(chosen), random, 2)):
        golden.advance(cut)
        require_complete(golden)
        if number in (1, 3):
            folds.append(fold(golden))
            assert not count_covered(golden, folds[-1])
            require_complete(golden)
    assert folds[-1].snapshot_id
    # What a sender repeats from below a fold is reported, and changes nothing.
    assert [text for text in unexpected_problems(golden) if "below the fold" not in text] == []
    for ts in [ts for ts in points if ts >= folds[-1].ts]:
        compare(golden, ts)
    rebuild(golden)
    require_complete(golden)
    compare(golden, points[-1])
