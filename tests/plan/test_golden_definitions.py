"""Recorded changefeeds that begin in the middle pause nothing, with definitions from upstream.

The definitions are those of the reference model, which applies all statements of the workload.
"""

from functools import cache
from random import Random
from zlib import crc32

import msgspec
import pytest

from tests.golden import datasets
from tests.plan.defining import read_wanted
from tests.plan.engine import Engine
from tests.plan.test_golden_windows import started, topic_events_of
from tests.reference.golden_feeds import (
    QUARANTINED_REPORTED,
    allowed,
    feed_of,
    keys,
    replayed,
    replicated,
    rows_before,
    schema_difference,
)
from tests.truth import truth
from ticdc_assets.events import Event, TableSchema
from ticdc_assets.reference.row_lines import encode_rows

# It has all rows.
WHOLE = "lifecycle/simple-json"
# It has the text of every statement, and no schemas beside it.
IN_STATEMENTS = "lifecycle/canal-json-ext"
BEGIN_LATER = datasets("*-bootstrap-*")
CUT = ["lifecycle/canal-json-ext", "lifecycle/open-protocol", "lifecycle/newarch-canal-json-ext"]


@cache
def schemas_at(ts: int) -> list[TableSchema]:
    replay = replayed(IN_STATEMENTS)
    replay.advance(ts)
    return [table.schema for table in replay.model.tables]


@pytest.mark.parametrize(
    ("dataset", "share"),
    [
        *((dataset, 0.0) for dataset in BEGIN_LATER if dataset.startswith("lifecycle/")),
        (CUT[1], 0.2),
        *(
            pytest.param(dataset, share, marks=pytest.mark.all_golden)
            for dataset in CUT
            for share in (0.1, 0.2, 0.4, 0.7)
            if (dataset, share) != (CUT[1], 0.2)
        ),
    ],
)
def test_a_changefeed_that_begins_in_the_middle_pauses_nothing(dataset: str, share: float) -> None:
    random = Random(crc32(f"{dataset} {share}".encode()))
    points = [ts for ts in sorted(truth("lifecycle")) if ts >= started(dataset)]
    start = points[int(len(points) * share)] if share else started(dataset)
    events = [e for e in topic_events_of(dataset) if is_sent(e, start)]
    engine = Engine.of(feed_of(dataset))
    sent: list[Event] = []
    compared = 0
    while len(sent) < len(events):
        piece = events[len(sent) : len(sent) + random.choice([5, 40, 200])]
        sent += piece
        engine.take(piece)
        for ts in [p for p in points if engine.now.ts < p <= (engine.resolved_ts or 0)]:
            read_wanted(engine, schemas_at, sent, ts)
            engine.advance(ts, more_may_come=True)
            compare(engine, dataset, ts, start)
            compared += 1
        read_wanted(engine, schemas_at, sent, engine.resolved_ts or 0)
        engine.advance()
    assert compared
    may_quarantine = QUARANTINED_REPORTED in allowed(dataset)
    problems = [p for p in engine.problems if not (may_quarantine and p.kind == "quarantined")]
    assert [problem.describe() for problem in problems if problem.data_may_differ] == []


def is_sent(event: Event, start: int) -> bool:
    ts = getattr(event, "commit_ts", getattr(event, "ts", None))
    return ts is None or ts > start


def compare(engine: Engine, dataset: str, ts: int, start: int) -> None:
    """Compare with TiDB: what a table lacks was there at the start, and has not changed since."""
    assert engine.stopped() == {}
    tables = engine.live_tables()
    expected = replicated(dataset, truth("lifecycle")[ts])
    assert set(tables) <= set(expected)
    before = rows_before(WHOLE, start)
    for name, table in tables.items():
        true = expected[name]
        ours = true.strict([msgspec.json.decode(line) for line in encode_rows(table)])
        theirs = true.strict_rows()
        assert schema_difference(table.schema, true, from_start=True) == []
        assert ours <= theirs
        assert keys(true, theirs - ours) <= keys(true, true.strict(before.get(name, [])))
