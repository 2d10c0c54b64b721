"""Keep histories and changes of golden datasets; compare them with TiDB at every truth point."""

import dataclasses

import msgspec

from tests.lake.golden_runs import GoldenLake, list_truth_points
from tests.lake.versions_at import Kind, read_histories
from tests.reference.golden_feeds import (
    EARLIER_ROWS,
    PARTITIONED_DIFFER,
    ROWS_REPORTED,
    allowed,
    difference,
    list_untold,
    replicated,
)
from tests.truth import TrueTable, truth
from ticdc_assets.changefeed.table_pattern import match_table
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.history.changes_table import ChangesTable
from ticdc_assets.lake.history.history_table import HistoryTable
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.store.lake import LakeSession


def keep_histories(golden: GoldenLake, *patterns: str) -> None:
    """Declare histories and changes, before anything is applied."""
    golden.feed = dataclasses.replace(golden.feed, history=patterns, changes=patterns)
    golden.lake = LakeSession(golden.lake.spark, golden.lake.location, golden.feed)


def compare_histories(golden: GoldenLake) -> int:
    """Compare all histories, and folded changes.

    Return how many tables were compared, at all truth points together.
    """
    problems = [problem for run in golden.runs for problem in run.applied.problems]
    assert [p.describe() for p in problems if p.kind in ("history", "changes")] == []
    counts = {_compare_kind(golden, kind) for kind in (HistoryTable, ChangesTable)}
    (count,) = counts
    return count


def _compare_kind(golden: GoldenLake, kind: Kind) -> int:
    dataset, last = golden.dataset, read_last_snapshot(golden.lake)
    rows_at, count = read_histories(golden.lake, kind), 0
    for ts in list_truth_points(dataset):
        if ts > last.ts:
            continue
        found = {
            (schema.database, schema.table): (id, schema, lines)
            for id, (schema, lines) in rows_at(ts).items()
            if match_table(golden.feed.history, schema.database, schema.table)
        }
        expected = replicated(dataset, truth(dataset.split("/")[0])[ts])
        for name in found.keys() & expected.keys() - list_untold(dataset):
            id, schema, lines = found[name]
            if not last.state.incarnations[id].is_stopped:
                _compare(dataset, ts, expected[name], (schema, lines))
                count += 1
    return count


def _compare(
    dataset: str, ts: int, true: TrueTable, found: tuple[TableSchema, list[bytes]]
) -> None:
    may, (schema, lines) = allowed(dataset), found
    if PARTITIONED_DIFFER in may and schema.partitioning is not None:
        return
    ours, theirs = true.strict([msgspec.json.decode(line) for line in lines]), true.strict_rows()
    if may & {EARLIER_ROWS, ROWS_REPORTED}:
        assert ours <= theirs, (true.name, ts)
    else:
        assert difference(ours, theirs) == ([], []), (true.name, ts)
