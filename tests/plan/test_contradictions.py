"""Rows that state other columns than their table has: windows and the model judge them alike."""

from collections.abc import Sequence

import pytest
from msgspec import json
from msgspec.structs import replace

from tests.plan.contents import contents, model_contents
from tests.plan.engine import Engine
from tests.reference.changefeeds import Ddl, Teller, put
from ticdc_assets.events import Event, Ordering
from ticdc_assets.protocols.open_protocol.flags import redecode
from ticdc_assets.reference.model import Model
from ticdc_assets.stream.rules import StreamRules

T = "id int primary key, v varchar(10)"


class Story:
    """A table of which rows tell, each with the types that it states; and a model to compare."""

    def __init__(self, *, is_created: bool, ordering: Ordering = "commit_ts") -> None:
        self._teller = Teller("canal")
        self._teller.knows("t", T)
        self._ordering = ordering
        self.events: list[Event] = []
        if is_created:
            self.ddl(f"CREATE TABLE `t` ({T})", T)

    def ddl(self, sql: str, now: str) -> None:
        self.events += self._teller.tell([Ddl(sql, "t", now)])

    def row(self, number: int, value: str, **types: str) -> None:
        """Tell a row that states the types of `T`, except for some; a further column holds 1."""
        values = {**dict.fromkeys(types, 1), "id": number, "v": value}
        (event,) = self._teller.tell([put("t", **values)])
        observed = json.encode({"id": "int", "v": "varchar", **types}).decode()
        self.events.append(replace(event, observed=observed, ordering=self._ordering))

    def tell(self, *, at_once: bool, by_flags: bool = False) -> tuple[dict, list[int | None]]:
        """Return the tables, and the commit ts of quarantined rows; the model has the same."""
        rules = StreamRules(redecode=redecode if by_flags else None)
        engine, model = Engine(rules), Model(rules)
        pieces: Sequence[list[Event]] = [self.events] if at_once else [[e] for e in self.events]
        for piece in pieces:
            engine.take(piece)
            model.add(piece)
            engine.advance(piece[-1].commit_ts, more_may_come=True)
            model.advance(piece[-1].commit_ts)
        found, expected = (
            [(p.commit_ts, p.reason) for p in problems if p.kind == "quarantined"]
            for problems in (engine.problems, model.problems)
        )
        assert sorted(found) == sorted(expected)
        assert contents(engine) == model_contents(model)
        assert engine.stopped() == {}
        return contents(engine), [ts for ts, _ in found]


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("is_created", [True, False])
@pytest.mark.parametrize("by_flags", [True, False])
def test_a_row_with_a_false_type_is_quarantined_alone(
    at_once: bool, is_created: bool, by_flags: bool
) -> None:
    story = Story(is_created=is_created)
    story.row(1, "abc")
    story.row(2, "7", v="int")
    story.row(3, "xyz")
    damaged = story.events[-2].commit_ts
    tables, quarantined = story.tell(at_once=at_once, by_flags=by_flags)
    assert tables == {"t(id, v)": [("1", "abc"), ("3", "xyz")]}
    assert quarantined == [damaged]


@pytest.mark.parametrize("at_once", [True, False])
def test_the_same_types_contradict_before_a_ddl_and_not_after_it(at_once: bool) -> None:
    story = Story(is_created=True)
    story.row(1, "1")
    story.row(2, "7", v="int")
    story.ddl("ALTER TABLE `t` MODIFY COLUMN `v` INT", "id int primary key, v int")
    story.row(3, "8", v="int")
    story.row(4, "9", v="varchar")
    times = [event.commit_ts for event in story.events]
    tables, quarantined = story.tell(at_once=at_once)
    assert tables == {"t(id, v)": [("1", "1"), ("3", "8")]}
    assert quarantined == [times[2], times[5]]


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    ("is_created", "ordering", "adopts"),
    [(True, "commit_ts", False), (False, "commit_ts", True), (True, "milliseconds", True)],
)
def test_rows_widen_and_add_columns_only_where_no_ddl_may_have_stated_them(
    is_created: bool, ordering: Ordering, adopts: bool, at_once: bool
) -> None:
    story = Story(is_created=is_created, ordering=ordering)
    story.row(1, "a")
    story.row(2, "b", id="bigint")
    story.row(3, "c", w="int")
    # A narrower type, as rows of before a DDL state, changes nothing.
    story.row(4, "d", id="tinyint")
    times = [event.commit_ts for event in story.events]
    tables, quarantined = story.tell(at_once=at_once)
    if adopts:
        # Rows of before the column do not have it.
        rows = [(*row, None) for row in (("1", "a"), ("2", "b"), ("4", "d"))]
        assert tables == {"t(id, v, w)": [*rows[:2], ("3", "c", "1"), rows[2]]}
        assert quarantined == []
    else:
        assert tables == {"t(id, v)": [("1", "a"), ("4", "d")]}
        assert quarantined == [times[2], times[3]]


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("after", ['{"id": 1, "v": "a"}', '{"id": ["1"]}', '{"id": {}}'])
def test_a_first_row_whose_values_are_no_texts_is_quarantined_alone(
    after: str, at_once: bool
) -> None:
    story = Story(is_created=False)
    story.row(1, "a")
    story.row(2, "b")
    story.events[0] = replace(story.events[0], after=after)
    tables, quarantined = story.tell(at_once=at_once)
    assert tables == {"t(id, v)": [("2", "b")]}
    assert quarantined == [story.events[0].commit_ts]
