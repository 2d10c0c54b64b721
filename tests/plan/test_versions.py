"""Versions of rows, without a lake: at every ts, those that are open are the rows upstream had."""

from collections import Counter
from random import Random

import pytest
from msgspec.structs import replace

from tests.lake.histories import History
from tests.plan.contents import list_contents
from tests.plan.versions_in_memory import HistoricEngine, list_versions_of
from tests.plan.work_in_memory import StoredTable
from tests.reference.changefeeds import MANNERS
from tests.usual import usual
from ticdc_assets.stream.rules import StreamRules


def keep_history(history: History, windows: int) -> HistoricEngine:
    random, engine = Random(history.seed), HistoricEngine(StreamRules())
    end = history.times[-1]
    cuts = [*sorted(random.sample(range(100, end), windows - 1)), end]
    for ts, piece in zip(cuts, history.pieces(cuts), strict=True):
        engine.take(piece)
        engine.advance(ts, more_may_come=True)
        assert [problem.describe() for problem in engine.problems] == []
    return engine


@pytest.mark.parametrize("seed", usual(range(40), lambda seed: seed < 12, pytest.mark.soak))
def test_open_versions_are_the_rows_that_upstream_had(seed: int) -> None:
    history = History(seed, MANNERS[seed % len(MANNERS)], steps=25)
    engine = keep_history(history, windows=1 + seed % 4)

    for ts in sorted(set(history.times)):
        expected = history.expected_at(ts)
        if expected is not None:
            tables = [_without_prefix(table, history) for table in engine.tables_at(ts)]
            assert list_contents(tables) == expected, ts
    # Changes are what begins and ends these versions; a DDL that changes no value is none.
    for kept in engine.kept.values():
        found, begun = Counter(kept.came), list_versions_of(kept, "_valid_from")
        found.subtract(kept.went)
        begun.subtract(list_versions_of(kept, "_valid_to"))
        assert {row: count for row, count in found.items() if count} == {
            row: count for row, count in begun.items() if count
        }


def _without_prefix(table: StoredTable, history: History) -> StoredTable:
    database = table.schema.database.removeprefix(history.prefix)
    return StoredTable(replace(table.schema, database=database), table.stored)
