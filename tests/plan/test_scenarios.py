"""The model's DDL scenarios in windows: in one, step by step, and cut anywhere."""

from collections.abc import Iterator, Sequence
from itertools import product
from random import Random
from zlib import crc32

import pytest

from tests.plan.contents import contents, model_contents, model_partial, partial
from tests.plan.engine import Engine
from tests.reference import (
    test_ddl_column_scenarios,
    test_ddl_lost_keys,
    test_ddl_midstream,
    test_ddl_partition_scenarios,
    test_ddl_pauses,
    test_ddl_scenarios,
    test_ddl_unique_keys,
)
from tests.reference.changefeeds import DATABASE, MANNERS, Step, Teller
from tests.reference.model_runs import paused
from tests.usual import usual
from ticdc_assets.events import Event, RowChange
from ticdc_assets.reference.model import Model
from ticdc_assets.stream.problem import Problem

SCENARIOS: dict[str, tuple[str | None, Sequence[Step]]] = {
    **{title: (None, steps) for title, (steps, _) in test_ddl_scenarios.SCENARIOS.items()},
    **{title: (None, steps) for title, (steps, _) in test_ddl_column_scenarios.SCENARIOS.items()},
    **{
        title: (None, steps) for title, (steps, _) in test_ddl_partition_scenarios.SCENARIOS.items()
    },
    **{title: (None, steps) for title, (steps, _) in test_ddl_unique_keys.SCENARIOS.items()},
    **{title: (None, steps) for title, (steps, _, _) in test_ddl_pauses.SCENARIOS.items()},
    **{title: (None, steps) for title, (steps, _, _) in test_ddl_lost_keys.SCENARIOS.items()},
    **{
        f"known before: {title}": (columns, steps)
        for title, (columns, steps, _) in test_ddl_midstream.SCENARIOS.items()
    },
}
CUTS = ("at once", "step by step", "anywhere")


def is_usual(title: str, manner: str, cut: str) -> bool:
    """Of each scenario, one of each cut, sent by each protocol: all by the same server."""
    number = crc32(title.encode()) + 2 * CUTS.index(cut)
    return MANNERS.index(manner) == number % len(MANNERS)


@pytest.mark.parametrize(
    ("title", "manner", "cut"), usual(product(SCENARIOS, MANNERS, CUTS), is_usual)
)
def test_windows_equal_the_model(title: str, manner: str, cut: str) -> None:
    columns, steps = SCENARIOS[title]
    teller = Teller(manner)
    first: list[Event] = []
    if columns is not None:
        teller.knows("t", columns)
        first = [teller.bootstrap("t")] if teller.stated else []
    events = [*first, *teller.tell(steps)]
    engine, model = Engine(), Model()
    for ts, piece in windows(events, cut, Random(title)):
        engine.take(piece)
        model.add(piece)
        engine.advance(ts, more_may_come=True)
        model.advance(ts)
        assert (contents(engine), stopped(engine)) == (model_contents(model), set(paused(model)))
        assert partial(engine) == model_partial(model)
    more = kinds(engine.problems) - kinds(model.problems)
    assert kinds(model.problems) <= kinds(engine.problems)
    # A plan does not know whether a table has rows that got the time of the DDL.
    assert {kind for kind, _, _ in more} <= {"approximate"}
    assert not more or "default that has to be evaluated" in title


def kinds(problems: list[Problem]) -> set[tuple[str, str, str]]:
    """Return the problems by kind and table; of a paused table only that it is paused."""
    paused = {(p.database, p.table) for p in problems if p.kind == "paused"}
    return {
        (p.kind, p.database, p.table)
        for p in problems
        if p.kind == "paused" or (p.database, p.table) not in paused
    }


def stopped(engine: Engine) -> set[str]:
    names = engine.stopped()
    return {table if database == DATABASE else f"{database}/{table}" for database, table in names}


def windows(events: list[Event], cut: str, random: Random) -> Iterator[tuple[int, list[Event]]]:
    last = max(getattr(event, "commit_ts", 0) for event in events)
    if cut == "at once":
        yield last, events
        return
    piece: list[Event] = []
    reached = 0
    for number, event in enumerate(events):
        piece.append(event)
        ts = getattr(event, "commit_ts", 1)
        later = [e for e in events[number + 1 :] if isinstance(e, RowChange) and e.commit_ts == ts]
        if cut == "step by step" or random.random() < 0.4:
            # A DDL of the ts may come after it, rows may not.
            reached = max(reached, ts - (1 if later else random.choice([0, 1])))
            yield reached, piece
            piece = []
    yield last, piece
