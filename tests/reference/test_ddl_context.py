"""DDLs that depend on their session's time zone or a default collation, declared or unknown."""

from zoneinfo import ZoneInfo

import pytest

from tests.plan.contents import contents, model_contents
from tests.plan.engine import Engine
from tests.reference.changefeeds import MANNERS, Ddl, Step, Teller, put
from tests.reference.model_runs import paused, played, tables
from ticdc_assets.reference.model import Model
from ticdc_assets.schema.ddl_context import DdlContext
from ticdc_assets.stream.problem import ZONE_OF_DDL
from ticdc_assets.stream.rules import StreamRules

TOKYO = DdlContext(ZoneInfo("Asia/Tokyo"))
CASELESS = DdlContext(collation="utf8mb4_general_ci")


def run(steps: list[Step], manner: str, context: DdlContext = DdlContext()) -> Model:  # noqa: B008
    """Take steps through the model, and through the plan, which must agree."""
    rules = StreamRules(context=context)
    events = Teller(manner).tell(steps)
    model = played(events, Model(rules))
    engine = Engine(rules)
    engine.take(events)
    engine.advance(max(event.commit_ts for event in events))
    assert contents(engine) == model_contents(model)
    kinds = {(p.kind, p.table, p.reason) for p in model.problems if p.kind == "approximate"}
    assert kinds == {(p.kind, p.table, p.reason) for p in engine.problems if p.kind != "paused"}
    return model


TS = "k timestamp primary key"
BOUND = "UNIX_TIMESTAMP('2024-01-01 00:00:00')"
MOMENTS: list[Step] = [
    Ddl(
        f"CREATE TABLE `t` ({TS}) PARTITION BY RANGE (UNIX_TIMESTAMP(`k`))"
        f" (PARTITION `p0` VALUES LESS THAN ({BOUND}), PARTITION `p1` VALUES LESS THAN (MAXVALUE))",
        "t",
        TS,
    ),
    put("t", k="2023-12-31 14:59:59"),
    put("t", k="2023-12-31 15:00:00"),
    Ddl("ALTER TABLE `t` TRUNCATE PARTITION `p0`", "t"),
]


@pytest.mark.parametrize("manner", MANNERS)
def test_bounds_are_moments_of_the_session(manner: str) -> None:
    assert tables(run(MOMENTS, manner, TOKYO)) == {"t(k)": [("2023-12-31 15:00:00",)]}
    assert "ddl-time-zone" in paused(run(MOMENTS, manner))["t"]
    # Without rows there is nothing to be uncertain about.
    assert tables(run([MOMENTS[0], MOMENTS[3]], manner)) == {"t(k)": []}


S = "s varchar(9) primary key"
TEXTS: list[Step] = [
    Ddl(
        f"CREATE TABLE `t` ({S}) PARTITION BY LIST COLUMNS (`s`)"
        " (PARTITION `p0` VALUES IN ('a'), PARTITION `p1` VALUES IN ('b'))",
        "t",
        S,
    ),
    put("t", s="A"),
    put("t", s="b"),
    Ddl("ALTER TABLE `t` TRUNCATE PARTITION `p0`", "t"),
]


@pytest.mark.parametrize("manner", MANNERS)
def test_texts_are_in_a_partition_by_the_declared_collation(manner: str) -> None:
    assert tables(run(TEXTS, manner, CASELESS)) == {"t(s)": [("b",)]}
    assert "default-collation" in paused(run(TEXTS, manner))["t"]
    # A row that no partition takes: the declaration is wrong.
    wrong = run(TEXTS, manner, DdlContext(collation="utf8mb4_bin"))
    assert "no partition takes one of the rows" in paused(wrong)["t"]
    certain = [*TEXTS[:1], put("t", s="a"), *TEXTS[2:]]
    assert tables(run(certain, manner)) == {"t(s)": [("b",)]}


@pytest.mark.parametrize("manner", MANNERS)
def test_a_column_has_the_collation_of_its_table(manner: str) -> None:
    collated = [
        Ddl(TEXTS[0].sql.replace(") PARTITION", ") COLLATE utf8mb4_bin PARTITION"), "t", S),
        put("t", s="a"),
        Ddl("ALTER TABLE `t` MODIFY COLUMN `s` VARCHAR(20)", "t", "s varchar(20) primary key"),
        Ddl("ALTER TABLE `t` ADD PARTITION (PARTITION `p2` VALUES IN ('A'))", "t"),
        put("t", s="A"),
        Ddl("ALTER TABLE `t` DROP PARTITION `p0`", "t"),
    ]
    assert tables(run(collated, manner, CASELESS)) == {"t(s)": [("A",)]}


CONVERTED: list[Step] = [
    Ddl("CREATE TABLE `t` (id int primary key, a timestamp null, b datetime)", "t"),
    put("t", id=1, a="2024-05-31 15:00:00", b="2024-06-01 00:00:00"),
    Ddl(
        "ALTER TABLE `t` MODIFY COLUMN `a` DATETIME",
        "t",
        "id int primary key, a datetime, b datetime",
    ),
    Ddl(
        "ALTER TABLE `t` MODIFY COLUMN `b` TIMESTAMP NULL",
        "t",
        "id int primary key, a datetime, b timestamp null",
    ),
]


@pytest.mark.parametrize("manner", MANNERS)
def test_timestamps_become_local_times_of_the_session(manner: str) -> None:
    declared = run(CONVERTED, manner, TOKYO)
    assert tables(declared)["t(id, a, b)"] == [("1", "2024-06-01 00:00:00", "2024-05-31 15:00:00")]
    assert declared.problems == []
    unknown = run(CONVERTED, manner)
    assert tables(unknown)["t(id, a, b)"] == [("1", "2024-05-31 15:00:00", "2024-06-01 00:00:00")]
    reasons = [(p.kind, p.table, p.reason) for p in unknown.problems]
    assert reasons == [("approximate", "t", ZONE_OF_DDL + name) for name in "ab"]
    empty = run([CONVERTED[0], *CONVERTED[2:]], manner="canal")
    assert empty.problems == []


@pytest.mark.parametrize("manner", MANNERS)
def test_a_timestamp_default_is_of_the_session_unless_it_is_stated(manner: str) -> None:
    # Stated defaults are in UTC.
    now = "id int primary key, c timestamp null default '2020-02-02 00:00:00'"
    sql = "ALTER TABLE `t` ADD COLUMN `c` TIMESTAMP NULL DEFAULT '2020-02-02 09:00:00'"
    steps: list[Step] = [
        Ddl("CREATE TABLE `t` (id int primary key)", "t"),
        put("t", id=1),
        Ddl(sql, "t", now),
    ]
    declared = run(steps, manner, TOKYO)
    assert tables(declared) == {"t(id, c)": [("1", "2020-02-02 00:00:00")]}
    assert declared.problems == []
    unknown = run(steps, manner)
    if manner.startswith("canal"):
        assert tables(unknown) == {"t(id, c)": [("1", "2020-02-02 09:00:00")]}
        assert [p.reason for p in unknown.problems] == [f"{ZONE_OF_DDL}c"]
    else:
        assert tables(unknown) == tables(declared)
        assert unknown.problems == []
