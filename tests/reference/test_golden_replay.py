"""Every golden dataset, replayed, is what TiDB had: at every truth point, in every row."""

import msgspec
import pytest

from tests.golden import datasets, meta, released_datasets
from tests.reference.golden_feeds import (
    APPROXIMATE_REPORTED,
    DROPPED_REMAIN,
    EARLIER_ROWS,
    END_STATE_ONLY,
    PARTITIONED_DIFFER,
    PAUSED_REPORTED,
    QUARANTINED_REPORTED,
    ROWS_REPORTED,
    UNUSABLE,
    allowed,
    difference,
    in_dropped_databases,
    keys,
    keys_before_the_start,
    list_untold,
    replayed,
    replicated,
    schema_difference,
)
from tests.truth import truth
from tests.usual import is_one_of, usual
from ticdc_assets.reference.replay import ModelReplay
from ticdc_assets.reference.row_lines import encode_rows

# One of each kind that shows something else than the others; `-m all_golden` runs all of them.
DIFFERENT = (
    "lifecycle/canal-json",
    "lifecycle/canal-json-ext-raw-change",
    "lifecycle/open-protocol-handle-key-only",
    "lifecycle/open-protocol-restart",
    "lifecycle/simple-avro-bootstrap-p0",
    "lifecycle/simple-avro-handle-key-only",
    "lifecycle/storage-csv-custom",
    "lifecycle/storage-csv-raw-change",
    "lifecycle/storage-csv-ts-base64",
    "random_1/storage-canal-json-day",
    "types/canal-json-ext-force-replicate",
    "types/simple-avro-checksum",
    "types/storage-csv-force-replicate",
    "types/storage-csv-noquote",
    "v6.5.12_life/canal-json-ext-raw-change",
    "v6.5.12_life/storage-csv-default",
)


def is_usual(dataset: str) -> bool:
    return dataset in DIFFERENT or is_one_of(5, dataset)


@pytest.mark.parametrize(
    "dataset",
    usual(
        [d for d in [*datasets(), *released_datasets()] if UNUSABLE not in allowed(d)],
        is_usual,
        pytest.mark.all_golden,
    ),
)
def test_replay_gives_what_tidb_had_at_every_truth_point(dataset: str) -> None:
    compare_with_truth(dataset, replayed(dataset))


def compare_with_truth(dataset: str, replay: ModelReplay) -> None:
    """Compare a replay of a dataset with the truth, at every truth point, in every row."""
    may = allowed(dataset)
    workload = dataset.split("/")[0]
    points = [ts for ts in sorted(truth(workload)) if ts >= meta(dataset)["changefeed_start_ts"]]
    if END_STATE_ONLY in may:
        points = points[-1:]
    assert points
    replay.check_range(points)
    for ts in points:
        replay.advance(ts)
        expected = replicated(dataset, truth(workload)[ts])
        tables = {(t.schema.database, t.schema.table): t for t in replay.model.tables}
        assert set(expected) <= set(tables)
        surplus = set(tables) - set(expected) - list_untold(dataset)
        assert not surplus or (DROPPED_REMAIN in may and surplus <= in_dropped_databases(workload))
        for name, true in expected.items():
            table = tables[name]
            lines = [msgspec.json.decode(line) for line in encode_rows(table)]
            ours, theirs = true.strict(lines), true.strict_rows()
            if table.pause_reason is not None:
                assert PAUSED_REPORTED in may
                continue
            if PARTITIONED_DIFFER in may and table.schema.partitioning is not None:
                continue
            assert schema_difference(table.schema, true, from_start=EARLIER_ROWS not in may) == []
            if table.incomplete:
                assert ROWS_REPORTED in may
                assert (theirs - ours).total() == len(table.incomplete)
                assert ours <= theirs
            elif EARLIER_ROWS in may:
                assert ours <= theirs
                assert keys(true, theirs - ours) <= keys_before_the_start(dataset, true)
            else:
                assert difference(ours, theirs) == ([], [])
    kinds = {
        "approximate": APPROXIMATE_REPORTED,
        "paused": PAUSED_REPORTED,
        "incomplete": ROWS_REPORTED,
        "quarantined": QUARANTINED_REPORTED,
    }
    problems = [
        p
        for p in replay.problems()
        if p.data_may_differ and (p.database, p.table) not in list_untold(dataset)
    ]
    assert [p.describe() for p in problems if kinds.get(p.kind) not in may] == []


@pytest.mark.parametrize("dataset", [d for d in released_datasets() if list_untold(d)])
def test_what_the_data_do_not_tell_is_reported(dataset: str) -> None:
    replay = replayed(dataset)
    points = truth(dataset.split("/")[0])
    replay.advance(max(points))
    reported = {(p.database, p.table) for p in replay.problems() if p.data_may_differ}
    for table in replay.model.tables:
        name = table.schema.database, table.schema.table
        if name in list_untold(dataset) - reported:
            true = points[max(points)][name]
            lines = [msgspec.json.decode(line) for line in encode_rows(table)]
            assert difference(true.strict(lines), true.strict_rows()) == ([], []), name
