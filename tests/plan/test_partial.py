"""Tables that lack rows: what makes them partial, what ends it, and that all else goes on."""

import pytest
from msgspec.structs import replace

from tests.plan.by_hand import RANGE, UNREADABLE, T, create, send
from tests.plan.contents import contents, model_partial, partial
from tests.plan.engine import Engine
from tests.reference.changefeeds import MANNERS, Ddl, Step, Teller, edit, exchange, put, rename
from tests.reference.model_runs import played
from ticdc_assets.events import Event
from ticdc_assets.plan.state import Incarnation, ddl_name, mark_partial
from ticdc_assets.stream.problem import CREATE_NOT_SENT

OLD = ("shop", "old")
DROP = Ddl("DROP TABLE `shop`.`old`", "old")
COPY = [
    create("copy"),
    put("copy", id=1, v="a"),
    put("copy", id=2, v="b"),
    rename("old", "aside"),
    rename("copy", "old"),
]


def tell(manner: str, *steps: Step) -> list[Event]:
    """Tell of a table that was there before, whose first row arrives, and what follows."""
    teller = Teller(manner)
    teller.knows("old", T)
    first = [teller.bootstrap("old")] if teller.stated else []
    return [*first, *teller.tell([edit("old", {"id": 1, "v": "x"}, v="a"), *steps])]


def apply(events: list[Event]) -> Engine:
    """Apply events one by one; the model says the same of what is partial."""
    engine = Engine()
    for event in events:
        send(engine, max(engine.now.ts, getattr(event, "commit_ts", 1)), event)
    assert partial(engine) == model_partial(played(events))
    return engine


def find(engine: Engine, table: str) -> Incarnation:
    return engine.now.incarnations[dict(engine.now.names)["shop", table]]


@pytest.mark.parametrize("manner", MANNERS)
def test_a_table_older_than_the_changefeed_is_partial_and_goes_on(manner: str) -> None:
    engine = apply(tell(manner, create("new"), put("old", id=2, v="b"), put("new", id=1, v="a")))
    assert contents(engine) == {
        "old(id, v)": [("1", "a"), ("2", "b")],
        "new(id, v)": [("1", "a")],
    }
    table = find(engine, "old")
    assert (table.shown_status, table.shown_reason) == ("partial", CREATE_NOT_SENT)
    assert find(engine, "new").shown_status == "live"
    assert engine.problems == []


@pytest.mark.parametrize(
    ("steps", "is_partial"),
    [
        ([Ddl("TRUNCATE TABLE `old`", "old"), put("old", id=3, v="c")], False),
        ([DROP, create("old")], False),
        (COPY, False),
        ([rename("old", "aside"), rename("aside", "old")], True),
        ([Ddl("ALTER TABLE `old` ADD COLUMN `w` INT", "old", f"{T}, w int")], True),
        ([DROP, Ddl("RECOVER TABLE `old`", "old", T)], True),
    ],
    ids=["truncate", "create again", "copy", "rename", "alter", "recover"],
)
@pytest.mark.parametrize("manner", MANNERS)
def test_a_table_is_partial_until_its_rows_begin_anew(
    manner: str, steps: list[Step], is_partial: bool
) -> None:
    assert (OLD in partial(apply(tell(manner, *steps)))) is is_partial


@pytest.mark.parametrize("manner", ["simple", "simple-new", "storage", "storage-new"])
@pytest.mark.parametrize("sql", ["TRUNCATE TABLE `old`", "ALTER TABLE `old` COMMENT = 'x'"])
def test_of_an_unknown_table_only_a_truncate_shows_all_rows(manner: str, sql: str) -> None:
    teller = Teller(manner)
    teller.knows("old", T)
    engine = apply(teller.tell([Ddl(sql, "old"), put("old", id=1, v="a")]))
    assert contents(engine) == {"old(id, v)": [("1", "a")]}
    assert partial(engine) == (set() if sql.startswith("TRUNCATE") else {OLD})


def test_a_partial_table_that_stops_is_shown_as_stopped_and_resumes_as_partial() -> None:
    statement = Ddl(UNREADABLE.sql.replace("`t`", "`old`"), "old")
    engine = apply(tell("simple", statement, put("old", id=2, v="b")))
    table = find(engine, "old")
    assert table.shown_status == "paused"
    assert "FROBNICATE" in (table.shown_reason or "")
    ddl = next(change for _, change in engine.log.ddls if "FROBNICATE" in change.sql)
    engine.resume(table.id, (ddl.commit_ts, ddl_name(ddl)))
    assert find(engine, "old").shown_status == "partial"
    assert contents(engine) == {"old(id, v)": [("1", "a"), ("2", "b")]}


@pytest.mark.parametrize("is_older", ["partitioned", "other"])
def test_an_exchange_takes_along_that_rows_are_missing(is_older: str) -> None:
    teller = Teller("simple")
    older, newer = ("p", "o") if is_older == "partitioned" else ("o", "p")
    made = [create("p", RANGE), create("o")]
    if is_older == "partitioned":
        # What is known of its partitions comes from a DDL, which ends the life before.
        events = teller.tell([*made, put("p", id=1, v="a"), put("o", id=2, v="b")])
    else:
        teller.knows("o", T)
        events = [teller.bootstrap("o"), *teller.tell([made[0], put("o", id=2, v="b")])]
    engine = Engine()
    send(engine, 1_000, *events)
    if is_older == "partitioned":
        table = find(engine, older)
        incarnations = {**engine.now.incarnations, table.id: mark_partial(table, "a gap")}
        engine.now = replace(engine.now, incarnations=incarnations)
    later = Teller("simple", start=2_000)
    later._tables = teller._tables
    send(engine, 3_000, *later.tell([exchange("p", "p0", "o")]))
    expected = {("shop", "p")} if is_older == "other" else {("shop", "p"), ("shop", "o")}
    assert partial(engine) == expected
    receiver = find(engine, newer)
    assert receiver.shown_reason == (
        f"EXCHANGE PARTITION gave it rows of shop.{older}, which is partial"
    )


def test_reasons_add_up_and_are_given_once() -> None:
    schema = find(apply(tell("canal")), "old").schema
    table = Incarnation(id="t", schema=schema, created_ts=1)
    for reason in ("a filter", "a gap", "a filter"):
        table = mark_partial(table, reason)
    assert table.partial_reason == "a filter; a gap"
