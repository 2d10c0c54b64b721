"""Hand-made hostile streams: model and plan agree in one window and in many, and lose no row."""

import pytest

from tests.fuzz.ddl_streams import FEED
from tests.fuzz.hostile import END, STREAMS, stream_messages
from tests.fuzz.pipeline import find_disagreements, find_losses, find_unexpected
from tests.plan.engine import Engine
from ticdc_assets.events import RowChange, SchemaChange
from ticdc_assets.reference.replay import ModelReplay
from ticdc_assets.stream.reading import read_topic_events


@pytest.mark.parametrize("name", STREAMS)
def test_a_hostile_stream_is_harmless(name: str) -> None:
    events = list(read_topic_events(FEED, stream_messages([name]), None))
    times = {e.commit_ts for e in events if isinstance(e, RowChange | SchemaChange)}
    faults = []
    for cuts in ([], sorted(times)):
        engine, replay = Engine.of(FEED), ModelReplay(FEED)
        engine.take(events)
        replay.add(events)
        for ts in [*cuts, END]:
            engine.advance(ts, more_may_come=False)
            replay.advance(ts)
            for table in list(replay.model.tables):
                replay.encode_table(table)
            faults += find_disagreements(replay, engine)
        faults += find_unexpected(replay, engine)
        faults += find_losses(FEED, events, replay)
    assert faults == []
