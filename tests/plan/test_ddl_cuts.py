"""Rows before and after a DDL of their table: no row group holds both."""

import pytest
from msgspec.structs import replace

from tests.plan.by_hand import ddl, row, send
from tests.plan.contents import contents, model_contents, model_partial, partial
from tests.plan.engine import Engine
from tests.reference.model_runs import played
from ticdc_assets.events import Event, RowChange
from ticdc_assets.plan.ddl_cuts import find_cuts
from ticdc_assets.reference.model import Model

# Upstream, something between the DDL and the row after it brought the table back; it was not sent.
ENDS = {
    "DROP TABLE `t`": {"t(id, v)": [("2", "2")]},
    "DROP TABLE `u`, `t`": {"t(id, v)": [("2", "2")]},
    "DROP DATABASE `shop`": {"t(id, v)": [("2", "2")]},
    "RENAME TABLE `shop`.`t` TO `shop`.`u`": {
        "t(id, v)": [("2", "2")],
        "u(id, v)": [("1", "1")],
    },
    "RENAME TABLE `t` TO `shop`.`u`": {"t(id, v)": [("2", "2")], "u(id, v)": [("1", "1")]},
    "ALTER TABLE `t` DROP COLUMN `v`": {"t(id, v)": [("1", None), ("2", "2")]},
}


def observed(number: int, ts: int) -> RowChange:
    stated = '{"id":"int","v":"int"}'
    change = row("t", ts, None, number, v=str(number))
    return replace(change, observed=stated, key_columns=("id",))


def apply_both(*events: Event) -> tuple[Engine, Model]:
    engine = Engine()
    send(engine, 100, *events)
    return engine, played(events)


@pytest.mark.parametrize("sql", ENDS)
def test_a_row_after_the_end_of_its_table_reveals_it_again(sql: str) -> None:
    engine, model = apply_both(observed(1, 10), ddl(20, sql, "t"), observed(2, 30))
    assert contents(engine) == model_contents(model) == ENDS[sql]
    assert partial(engine) == model_partial(model)


def test_a_table_waits_for_rows_after_a_ddl_only_if_there_are_some() -> None:
    """The rows of an unknown schema version came before the DROP."""
    unknown = [row("t", ts, 7, ts) for ts in (10, 40)]
    engine, _ = apply_both(unknown[0], ddl(20, "DROP TABLE `t`", "t"), observed(1, 30))
    assert [u.table for u in engine.now.unknown_tables] == ["t"]
    create = ddl(20, "CREATE TABLE `t` (id int primary key, v int)", "t")
    engine, _ = apply_both(create, observed(1, 30), ddl(35, "TRUNCATE TABLE `t`", "t"), unknown[1])
    assert {status.partition(":")[0] for status in engine.stopped().values()} == {"waiting"}


@pytest.mark.parametrize(
    ("sql", "tables"),
    {
        "ALTER TABLE `t` ADD c int": {"t"},
        "RENAME TABLE `t` TO `u`": {"t", "u"},
        "RENAME TABLE `shop`.`t` TO `shop`.`u`, `shop`.`a` TO `shop`.`b`": {"t", "u", "a", "b"},
        "ALTER TABLE `shop`.`t` EXCHANGE PARTITION p WITH TABLE `shop`.`x`": {"t", "x"},
        "DROP TABLE `shop`.`a`, `b`": {"t", "a", "b"},
        "FLASHBACK TABLE `a` TO `b`": {"t", "a", "b"},
        "CREATE TABLE `a` LIKE `b`": {"t", "a"},
        "ALTER TABLE `t` FROBNICATE": {"t"},
        # An unqualified name beside a qualified one is of the session's database.
        "RENAME TABLE `t` TO `shop`.`u`": None,
        "DROP DATABASE `other`": None,
        "FLASHBACK DATABASE `other`": None,
    }.items(),
)
def test_a_ddl_cuts_the_rows_of_every_table_it_may_change(
    sql: str, tables: set[str] | None
) -> None:
    cuts = find_cuts([ddl(20, sql, "t"), ddl(5, "DROP DATABASE `a`", "")], after_ts=5)
    if tables is None:
        assert cuts.of(("else", "any")) == cuts.of(("shop", "t")) == (20,)
    else:
        assert {table for database, table in cuts.by_table if database == "shop"} == tables
        assert cuts.of(("else", "any")) == ()
        assert all(cuts.of(("shop", table)) == (20,) for table in tables)
