"""Open Protocol without old values: nothing tells an UPDATE from an INSERT.

Recorded changefeeds are replayed as they are with `open.output-old-value = false`: without `p` in
the value of a row.
"""

import dataclasses
import json
from collections.abc import Iterable, Iterator

import pytest
from msgspec.structs import replace

from tests.plan.contents import contents, model_contents
from tests.plan.engine import Engine
from tests.protocols.open_protocol_messages import framed
from tests.reference.changefeeds import Ddl, Teller, cut, put
from tests.reference.golden_feeds import difference, feed_of, messages
from tests.truth import truth
from ticdc_assets.events import Event, Op, RowChange
from ticdc_assets.protocols.message import Message
from ticdc_assets.protocols.open_protocol.framing import split
from ticdc_assets.reference.model import Model
from ticdc_assets.reference.replay import ModelReplay
from ticdc_assets.reference.row_lines import encode_rows
from ticdc_assets.stream.problem import UPSERT_OF_ANY_KEY, UPSERT_WITHOUT_KEY
from ticdc_assets.stream.reading import read_topic_events
from ticdc_assets.stream.rules import StreamRules


def without_old_values(records: Iterable[Message]) -> Iterator[Message]:
    for record in records:
        key, value = framed(*((k, _without_p(v)) for k, v in split(record.key, record.value)))
        yield replace(record, key=key, value=value)


def _without_p(value: bytes) -> bytes:
    if b'"p":{' not in value:
        return value
    row = json.loads(value.decode("utf-8", "surrogateescape"))
    row.pop("p", None)
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogateescape")


@pytest.mark.parametrize(
    ("dataset", "without_key"),
    [
        ("types/open-protocol-force-replicate", {"t_nopk", "t_uk_null"}),
        ("types/newarch-open-protocol", set()),
        # One table gets its key later, and one loses it.
        ("v6.5.12_life/open-protocol-force-replicate", {"latekey", "lostkey"}),
    ],
)
def test_tables_with_a_key_are_as_upstream_and_others_are_paused(
    dataset: str, without_key: set[str]
) -> None:
    feed = dataclasses.replace(feed_of(dataset), open_output_old_value=False)
    replay, engine = ModelReplay(feed), Engine.of(feed)
    events = list(read_topic_events(feed, without_old_values(messages(feed)), None))
    assert any(isinstance(e, RowChange) and e.op is Op.UPSERT for e in events)
    replay.add(events)
    engine.take(events)
    points = truth(dataset.split("/")[0])
    paused = set()
    for ts in sorted(points):
        replay.advance(ts)
        engine.advance(ts, more_may_come=True)
        for table in replay.model.tables:
            true = points[ts].get((table.schema.database, table.schema.table))
            if table.pause_reason is not None:
                assert table.pause_reason == UPSERT_WITHOUT_KEY
                paused.add(table.schema.table)
            elif true is not None and table.schema.table != "session_tz":
                lines = [json.loads(line) for line in encode_rows(table)]
                assert difference(true.strict(lines), true.strict_rows()) == ([], [])
    assert set(engine.stopped()) == {
        (t.schema.database, t.schema.table) for t in replay.model.tables if t.pause_reason
    }
    assert contents(engine) == model_contents(replay.model)
    assert paused == without_key


NO_KEY = "CREATE TABLE `t` (a int, b int, unique key (a))"
WITH_KEY = "CREATE TABLE `t` (a int, b int, primary key (a))"


def make_upserts(create: str) -> list[Event]:
    """A table with rows of which nothing says whether they were there before."""
    teller = Teller("canal")
    steps = [put("t", a=1, b=1), put("t", a=1, b=2), cut("t", a=2, b=2), put("t", a=3, b=1)]
    return [
        replace(e, op=Op.UPSERT) if isinstance(e, RowChange) and e.after else e
        for e in teller.tell([Ddl(create, "t"), *steps])
    ]


@pytest.mark.parametrize(
    ("create", "split", "reason"),
    [
        (WITH_KEY, True, None),
        (WITH_KEY, False, UPSERT_OF_ANY_KEY),
        (NO_KEY, True, UPSERT_WITHOUT_KEY),
        (NO_KEY, False, UPSERT_WITHOUT_KEY),
    ],
)
def test_a_row_that_may_overwrite_an_unknown_one_pauses_its_table(
    create: str, split: bool, reason: str | None
) -> None:
    rules = StreamRules(has_old_values=False, updates_split=split, force_replicate=True)
    model, engine = Model(rules), Engine(rules)
    events = make_upserts(create)
    model.add(events)
    engine.take(events)
    for event in events:
        model.advance(event.commit_ts)
        engine.advance(event.commit_ts, more_may_come=True)
    (table,) = model.tables
    assert table.pause_reason == reason
    assert engine.stopped() == ({} if reason is None else {("shop", "t"): f"paused: {reason}"})
    assert contents(engine) == model_contents(model)
    if reason is None:
        assert contents(engine) == {"t(a, b)": [("1", "2"), ("3", "1")]}


@pytest.mark.parametrize("create", [WITH_KEY, NO_KEY])
@pytest.mark.parametrize("split", [True, False])
def test_with_old_values_an_upsert_changed_nothing_if_it_is_an_update(
    create: str, split: bool
) -> None:
    rules = StreamRules(updates_split=split, force_replicate=True)
    model = Model(rules)
    model.add(make_upserts(create))
    model.advance(1000)
    assert [table.pause_reason for table in model.tables] == [None]
