"""Definitions from upstream: a table that is older than the changefeed goes on like any other."""

from collections import Counter
from functools import partial as bind
from itertools import product
from random import Random

import pytest
from msgspec.structs import replace

from tests.plan.by_hand import RANGE, T, create, ddl, row, send
from tests.plan.contents import contents, partial
from tests.plan.defining import read_wanted
from tests.plan.engine import Engine
from tests.plan.test_loads import after
from tests.plan.test_random_histories import ts_of, windows
from tests.reference.changefeeds import MANNERS, Ddl, Teller, cut, edit, exchange, put, rename
from tests.reference.random_upstream import World
from tests.usual import usual
from ticdc_assets.events import Event, RowChange, TableSchema
from ticdc_assets.plan.definitions import Wanted, find_wanted
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.reference.model import Model

DROP = Ddl("ALTER TABLE `t` DROP PARTITION `p0`", "t")


def define(engine: Engine, ts: int, events: list[Event]) -> None:
    """Register how the tables were defined that events up to a ts had made."""
    for schema in upstream(events, ts):
        engine.define(ts, schema)


def upstream(events: list[Event], ts: int) -> list[TableSchema]:
    model = Model()
    model.add(events)
    model.advance(ts)
    return [table.schema for table in model.tables]


def apply(engine: Engine, events: list[Event]) -> None:
    for event in events:
        send(engine, max(engine.now.ts, getattr(event, "commit_ts", 1)), event)


def find(engine: Engine, table: str) -> Incarnation:
    return engine.now.incarnations[dict(engine.now.names)["shop", table]]


def first_row(events: list[Event]) -> int:
    return next(event.commit_ts for event in events if isinstance(event, RowChange))


def tell(manner: str = "canal") -> tuple[list[Event], list[Event]]:
    """Tell of a table with partitions, and of what a changefeed sends that begins later."""
    teller = Teller(manner)
    before = teller.tell([create("t", RANGE), put("t", id=1, v="old"), put("t", id=90, v="old")])
    stated: list[Event] = [teller.bootstrap("t")] if teller.stated else []
    later = teller.tell([put("t", id=2, v="a"), put("t", id=20, v="b"), DROP])
    return before, [*stated, *later]


@pytest.mark.parametrize("manner", MANNERS)
def test_a_partition_that_the_stream_never_defined_is_dropped(manner: str) -> None:
    before, later = tell(manner)
    without = Engine()
    apply(without, later)
    assert "partitions are unknown" in without.stopped()["shop", "t"]

    engine = Engine()
    define(engine, first_row(later) - 1, before)
    apply(engine, later)
    assert engine.stopped() == {}
    assert contents(engine) == {"t(id, v)": [("20", "b")]}
    # Some of its rows are missing all the same.
    assert find(engine, "t").shown_status == "partial"
    assert not find(engine, "t").lacks_definition


@pytest.mark.parametrize("manner", MANNERS)
def test_a_definition_that_comes_late_resumes_a_table_that_paused_for_want_of_it(
    manner: str,
) -> None:
    before, later = tell(manner)
    engine = Engine()
    apply(engine, later)
    (wanted,) = find_wanted(engine.now, (), ()).values()
    assert (wanted.ts, wanted.is_followed) == (later[-2].commit_ts, False)
    define(engine, wanted.ts, before)
    send(engine, engine.now.ts + 1)
    assert engine.stopped() == {}
    assert contents(engine) == {"t(id, v)": [("20", "b")]}
    assert find_wanted(engine.now, (), ()) == {}


def test_a_definition_after_the_statement_that_needed_it_changes_nothing() -> None:
    before, later = tell()
    engine = Engine()
    apply(engine, later)
    reason = engine.stopped()
    define(engine, engine.now.ts, [*before, *later])
    send(engine, engine.now.ts + 1)
    assert engine.stopped() == reason


def test_a_table_that_is_followed_is_completed_from_where_it_is() -> None:
    teller = Teller("canal")
    kinds = "id int primary key, v varchar(10), d decimal(10,2), e enum('2','1'), s set('x','y')"
    old = {"v": "a", "d": "1.50", "e": 1, "s": 3}
    before = teller.tell([Ddl(f"CREATE TABLE `t` ({kinds})", "t", kinds)])
    later = teller.tell([put("t", id=1, **old), put("t", id=2, v=None, d=None, e=None, s=None)])
    added = f"{kinds}, w enum('p','q') not null default 'q'"
    changes = [
        Ddl("ALTER TABLE `t` ADD COLUMN `w` ENUM('p','q') NOT NULL DEFAULT 'q'", "t", added),
        cut("t", id=1, **old, w=2),
    ]
    engine = Engine()
    apply(engine, later)
    # Numbers, as nothing names the members.
    assert contents(engine)["t(id, v, d, e, s)"][0] == ("1", "a", "1.50", "1", "3")
    define(engine, engine.now.ts, before)
    more = teller.tell(changes)
    send(engine, more[0].commit_ts, more[0])
    assert engine.replays == 0
    assert engine.stopped() == {}
    assert contents(engine)["t(id, v, d, e, s, w)"] == [
        ("1", "a", "1.50", "2", "x,y", "q"),
        ("2", None, None, None, None, "q"),
    ]
    send(engine, more[1].commit_ts, more[1])
    assert [r[0] for r in contents(engine)["t(id, v, d, e, s, w)"]] == ["2"]


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ("id int primary key", "upstream has no column 'v'"),
        ("id int primary key, v int", "column 'v' is int upstream, varchar in the stream"),
    ],
)
def test_a_definition_that_contradicts_the_stream_is_reported_once(
    definition: str, reason: str
) -> None:
    before = Teller("canal").tell([Ddl(f"CREATE TABLE `t` ({definition})", "t", definition)])
    later = tell()[1][:-1]
    engine = Engine()
    apply(engine, later)
    define(engine, engine.now.ts, before)
    for ts in (1, 2):
        send(engine, later[-1].commit_ts + ts)
    (problem,) = engine.problems
    assert (problem.kind, reason in problem.reason) == ("definition", True)
    assert not problem.data_may_differ
    assert contents(engine) == {"t(id, v)": [("2", "a"), ("20", "b")]}
    assert find_wanted(engine.now, (), ()) == {}


def test_rows_of_a_schema_version_that_no_message_states_wait_no_more() -> None:
    engine = Engine()
    send(engine, 10, row("t", 10, 7, 1))
    assert [u.table for u in engine.now.unknown_tables] == ["t"]
    first = Wanted(9, "shop", "t", 7)
    assert find_wanted(engine.now, (), [first]) == {("shop", "t"): first}
    schema = TableSchema("shop", "t", upstream(tell()[0], 10**9)[0].columns[:1])
    engine.define(9, schema, 7)
    send(engine, 20)
    assert engine.now.unknown_tables == []
    assert contents(engine) == {"t(id)": [("1",)]}


def test_only_tables_that_need_one_want_a_definition() -> None:
    engine = Engine()
    send(engine, 10, *Teller("canal").tell([create("whole"), put("whole", id=1, v="a")]))
    engine.advance(10_000)
    changes = [
        ddl(10_100, "CREATE TABLE `new` (id int primary key)", "new"),
        ddl(10_100, "CREATE TABLE `copy` LIKE `old`", "copy"),
        ddl(10_200, "ALTER TABLE `parts` EXCHANGE PARTITION `p` WITH TABLE `whole`", "parts"),
        ddl(10_200, "ALTER TABLE `gone` ADD COLUMN `v` INT", "gone"),
        ddl(10_200, "FROBNICATE", ""),
    ]
    rows = [Wanted(10_150, "shop", table) for table in ("new", "copy", "whole", "parts", "Older")]
    found = find_wanted(engine.now, changes, rows)
    assert {key[1]: each.ts for key, each in found.items()} == {
        "old": 10_099,
        "parts": 10_150,
        "older": 10_150,
    }


def undated(events: list[Event]) -> list[Event]:
    """Return events as CSV without commit ts has them: a row has the version of its table."""
    return [
        replace(e, commit_ts=e.schema_version or 0, ordering="table_version")
        if isinstance(e, RowChange)
        else e
        for e in events
    ]


W = f"{T}, w int"
DROP_COLUMN = Ddl("ALTER TABLE `t` DROP COLUMN `w`", "t", T)
FIRST_EVENTS = {
    "a column is dropped": ([Ddl(f"CREATE TABLE `t` ({W}){RANGE}", "t", W)], DROP_COLUMN),
    "a partition is dropped": (
        [
            create(
                "t",
                RANGE.replace("(PARTITION", "(PARTITION `p` VALUES LESS THAN (0),PARTITION"),
            )
        ],
        Ddl("ALTER TABLE `t` DROP PARTITION `p`", "t"),
    ),
    "a table is renamed": ([create("old", RANGE)], rename("old", "t")),
    "a table is created": ([], create("t", RANGE)),
    "its only key is not primary": (
        [Ddl("CREATE TABLE `t` (id int not null, v varchar(10), unique key (id))" + RANGE, "t")],
        Ddl("ALTER TABLE `t` COMMENT 'c'", "t"),
    ),
}


@pytest.mark.parametrize("dates_rows", [True, False], ids=["commit ts", "table version"])
@pytest.mark.parametrize("manner", ["storage", "storage-new"])
@pytest.mark.parametrize("first", FIRST_EVENTS)
def test_a_definition_is_of_the_table_as_the_ddl_left_it_that_dates_its_first_rows(
    first: str, manner: str, dates_rows: bool
) -> None:
    """TiDB shows what a DDL drops no more, from some time before its commit ts on."""
    steps, ddl = FIRST_EVENTS[first]
    teller = Teller(manner)
    before = teller.tell(steps)
    rows = [put("t", id=1, v="a"), put("t", id=11, v="-"), edit("t", {"id": 11, "v": "-"}, v="b")]
    later = [
        # CSV has no old values, by default.
        replace(e, before=None) if isinstance(e, RowChange) else e
        for e in teller.tell([ddl, *rows, DROP, put("t", id=12, v="c")])
    ]
    read: list[int] = []

    def show(ts: int) -> list[TableSchema]:
        read.append(ts)
        return upstream([*before, *later], ts + 5)

    sent = later if dates_rows else undated(later)
    for step in (1, len(sent)):
        engine = Engine()
        for end in range(step, len(sent) + 1, step):
            ts = later[end - 1].commit_ts
            engine.take(sent[end - step : end])
            read_wanted(engine, show, sent[:end], ts, more_may_come=False)
            engine.advance(ts, more_may_come=False)
        assert engine.problems == []
        assert contents(engine) == {"t(id, v)": [("11", "b"), ("12", "c")]}
    if first == "a table is created":
        assert read == []


# By its nature: nobody has seen the rows that come back.
RECOVERED = "cannot recover"
# While upstream cannot be reached.
NOT_IN_TIME = (RECOVERED, "cannot copy", "partitions are unknown", "exchanges", "exchange a part")


BEGINNINGS = product(range(7000, 7010), ["canal", "canal-new"], [1, 0.5])


@pytest.mark.parametrize(
    ("seed", "manner", "reached"),
    # A seed in one manner if upstream is reached each time, and in the other if not.
    usual(
        BEGINNINGS,
        lambda seed, manner, reached: (manner == "canal") == ((seed + (reached == 1)) % 2 == 0),
        pytest.mark.soak,
    ),
)
def test_a_changefeed_that_begins_anywhere_holds_rows_that_upstream_has(
    seed: int, manner: str, reached: float
) -> None:
    """Of partial tables, all rows are upstream's; all others are as they are there."""
    random = Random(seed)
    world = World(random)
    world.run()
    events = Teller(manner).tell(world.steps)
    later = after(events, ts_of(events, random.randrange(len(events))))
    defined = bind(upstream, events)
    engine = Engine()
    sent: list[Event] = []
    for here, piece, _ in windows(later, random) if later else ():
        engine.take(piece)
        sent += piece
        if random.random() < reached:
            read_wanted(engine, defined, sent, here)
        engine.advance(here, more_may_come=True)
    for _ in range(2):
        read_wanted(engine, defined, sent, engine.now.ts + 1)
        engine.advance(engine.now.ts + 1, more_may_come=True)
    allowed = (RECOVERED,) if reached == 1 else NOT_IN_TIME
    stopped = engine.stopped()
    reasons = [r for r in stopped.values() if "the table is paused" not in r]
    assert [r for r in reasons if not any(text in r for text in allowed)] == []
    expected = world.states[len(world.steps)]
    names = {
        table if database == "shop" else f"{database}/{table}"
        for database, table in partial(engine)
    }
    for title, rows in contents(engine).items():
        missing = Counter(expected[title])
        missing.subtract(rows)
        assert min(missing.values(), default=0) >= 0, title
        if title.partition("(")[0] not in names:
            assert rows == expected[title]


def test_rows_that_a_partition_brings_are_located_by_its_definition() -> None:
    teller = Teller("canal")
    before = teller.tell([create("t", RANGE), create("u")])
    later = teller.tell(
        [
            put("u", id=3, v="u"),
            exchange("t", "p0", "u"),
            put("t", id=4, v="t"),
            rename("t", "x"),
            Ddl("ALTER TABLE `x` TRUNCATE PARTITION `p0`", "x", T),
        ]
    )
    engine = Engine()
    read_wanted(engine, bind(upstream, [*before, *later]), later, later[2].commit_ts)
    send(engine, later[2].commit_ts, *later[:3])
    assert contents(engine) == {"t(id, v)": [("3", "u"), ("4", "t")], "u(id, v)": []}
    send(engine, later[-1].commit_ts, *later[3:])
    assert contents(engine) == {"x(id, v)": [], "u(id, v)": []}
    assert engine.problems == []
