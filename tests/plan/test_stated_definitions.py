"""Tables that a DDL makes known by stating their schema, and their definitions from upstream."""

import pytest

from tests.plan.by_hand import RANGE, T, create
from tests.plan.defining import read_wanted
from tests.plan.engine import Engine
from tests.plan.test_definitions import DROP, upstream
from tests.reference.changefeeds import MANNERS, Ddl, Step, Teller, put, rename, rename_all
from ticdc_assets.events import SchemaChange, TableSchema
from ticdc_assets.plan.definitions import find_wanted

SECOND_EVENTS: dict[str, tuple[str, list[Step], Ddl]] = {
    "after ADD COLUMN": (
        T,
        [Ddl("ALTER TABLE `t` ADD COLUMN `w` INT", "t", f"{T}, w int")],
        Ddl("ALTER TABLE `t` DROP PARTITION `p0`", "t"),
    ),
    "after TRUNCATE": (T, [Ddl("TRUNCATE TABLE `t`", "t")], DROP),
    "after RENAME": (T, [rename("t", "u"), rename("u", "t")], DROP),
    "of its primary key": (
        "id int, v varchar(10) not null, primary key (id) nonclustered, unique key (v)",
        [Ddl("ALTER TABLE `t` COMMENT 'c'", "t")],
        Ddl(
            "ALTER TABLE `t` DROP PRIMARY KEY",
            "t",
            "id int not null, v varchar(10) not null, unique key (v)",
        ),
    ),
}


@pytest.mark.parametrize("manner", [m for m in MANNERS if not m.startswith("canal")])
@pytest.mark.parametrize("second", SECOND_EVENTS)
def test_a_table_that_a_ddl_makes_known_has_its_definition_for_the_next_ddl(
    second: str, manner: str
) -> None:
    """A message that states its schema makes it known, without what no message states."""
    columns, first, ddl = SECOND_EVENTS[second]
    tail = "" if "key (v)" in columns else RANGE
    teller = Teller(manner)
    before = teller.tell([Ddl(f"CREATE TABLE `t` ({columns}){tail}", "t")])
    later = teller.tell([*first, ddl, put("t", id=12, v="c")])
    engine = Engine()
    engine.take(later)
    ts = later[-1].commit_ts

    def show(wanted: int) -> list[TableSchema]:
        return upstream([*before, *later], wanted)

    missing = read_wanted(engine, show, later, ts, more_may_come=False)
    engine.advance(ts, more_may_come=False)
    assert (engine.problems, missing) == ([], [])
    assert engine.stopped() == {}


@pytest.mark.parametrize("manner", MANNERS)
def test_no_definition_is_wanted_under_a_name_that_a_statement_only_passes(manner: str) -> None:
    teller = Teller(manner)
    teller.tell([create("t"), create("s")])
    swap = teller.tell(rename_all(("t", "x"), ("s", "t"), ("x", "s")))
    changes = [event for event in swap if isinstance(event, SchemaChange)]
    assert find_wanted(Engine().now, changes, ()) == {}
