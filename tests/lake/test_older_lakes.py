"""A lake of any format goes on: it is read, advanced and rebuilt as a new one."""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.lake.older_lakes import ARCHIVES, FEED, LAST, WINDOWS, send, unpack
from tests.lake.versions_at import read_rows
from ticdc_assets.lake.advance import advance, replay_tables
from ticdc_assets.lake.apply import table_features
from ticdc_assets.lake.history.changes_table import ChangesTable
from ticdc_assets.lake.history.history_table import HistoryTable
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.store.format import FORMAT, read_format
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.asof import as_of

BORN = '"born":"2024-02-29"'
K = {20: ["twice", "twice"], 40: ["twice"], 60: ["once", "twice"], 80: ["twice"]}
S = {20: ["p"], 40: ["p"], 60: ["p", "q"], 80: ["p", "q"]}
T = {
    20: [f'"1","v":"x",{BORN}', '"2","v":"y","born":"0000-00-00"'],
    40: [f'"1","v":"xx",{BORN},"n":"7"', '"2","v":"y","born":"0000-00-00","n":"7"'],
    60: [f'"1","v":"xx",{BORN},"n":"7"', '"3","v":"w","born":null,"n":"8"'],
    80: [f'"1","w x":"xx",{BORN},"n":"7"', '"3","w x":"ww","born":null,"n":"8"'],
}


def check_rows(lake: LakeSession, ts: int) -> None:
    shown = as_of(lake, ts)
    found = {t.schema.table: [line.decode() for line in shown.lines(t)] for t in shown.tables()}
    assert found == {
        "t": [f'{{"id":{row}}}\n' for row in T[ts]],
        "k": [f'{{"v":"{value}"}}\n' for value in K[ts]],
        "s": [f'{{"id":"{id}","a b":"{value}"}}\n' for id, value in enumerate(S[ts], 1)],
    }


def read_beside(lake: LakeSession) -> dict[str, list[str]]:
    """Read what the lake keeps beside the current tables."""
    (id,) = (
        t.id for t in read_last_snapshot(lake).state.incarnations.values() if t.schema.table == "t"
    )
    found = {kind.__name__: read_rows(kind(lake, id)) for kind in (HistoryTable, ChangesTable)}
    found["quarantine"] = DeltaTable(lake.path("quarantine")).to_pyarrow_table()
    return {
        # Older code put a new column behind `_inexact`, and named incarnations otherwise.
        name: sorted(json.dumps(row, sort_keys=True, default=str) for row in rows.to_pylist())
        for name, rows in found.items()
    }


def find_format(lake: LakeSession) -> int:
    return read_format(lake.location, LakeReader(lake.location).open("applied"))


def rebuild(lake: LakeSession) -> None:
    applied = read_last_snapshot(lake)
    request = ReplayRequest(frozenset(applied.state.incarnations), 0)
    result = replay_tables(lake, applied, request, lambda *_: None)
    assert (result.replayed, result.problems) == (3, [])


@pytest.fixture(scope="module")
def new(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, list[str]]]:
    """What a new lake keeps beside: behind the older ones' last window, the last, and a rebuild."""
    root = str(tmp_path_factory.mktemp("new"))
    lake = LakeSession(spark, Lake(root, FEED.id), FEED)
    kept = []
    for ts in WINDOWS:
        advance(lake, send(ts))
        if ts in (LAST, max(WINDOWS)):
            kept.append(read_beside(lake))
    assert find_format(lake) == FORMAT
    rebuild(lake)
    return [*kept, read_beside(lake)]


@pytest.mark.slow
@pytest.mark.parametrize("number", ARCHIVES)
def test_a_lake_of_any_format_goes_on(
    spark: SparkSession,
    new: list[dict[str, list[str]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
) -> None:
    lake = LakeSession(spark, Lake(unpack(tmp_path, number), FEED.id), FEED)
    assert find_format(lake) == number
    for ts in WINDOWS:
        if ts <= LAST:
            check_rows(lake, ts)
    before, at_the_end, rebuilt = new
    assert read_beside(lake) == before
    # Who reads an older lake leaves it as it is.
    assert find_format(lake) == number
    # Tables go on as large ones, which they were, or become small: in one of the windows each.
    # How large ones of the present format go on, other tests show.
    for place, ts in enumerate(ts for ts in WINDOWS if ts > LAST):
        is_large = number < FORMAT and (place + number) % 2 == 1
        monkeypatch.setattr(table_features, "LARGE_TABLE", -1 if is_large else 1 << 20)
        result = advance(lake, send(ts))
        assert result.applied.resolved_ts == ts
        assert result.applied.problems == []
        assert find_format(lake) == FORMAT
        check_rows(lake, ts)
    assert read_beside(lake) == at_the_end

    monkeypatch.setattr(table_features, "LARGE_TABLE", -1 if number % 2 else 1 << 20)
    rebuild(lake)
    for ts in WINDOWS:
        check_rows(lake, ts)
    assert read_beside(lake) == rebuilt
