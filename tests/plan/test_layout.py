"""A plan gives tables the layout that is declared, and only where that is needed."""

from datetime import UTC, datetime

from msgspec.structs import replace

from ticdc_assets.changefeed.layout import TableLayout
from ticdc_assets.events import Column, ColumnType, Index, TableSchema
from ticdc_assets.plan.layout import Layout
from ticdc_assets.plan.load import Load
from ticdc_assets.plan.plan import Plan, WindowEvents, make_plan, needs_layouts, record_outcomes
from ticdc_assets.plan.state import Incarnation, State, stop_table
from ticdc_assets.schema.catalog import CatalogState, key_of
from ticdc_assets.stream.rules import StreamRules

ID = Column("id", ColumnType("int"), nullable=False)
COUNT = Column("u", ColumnType("bigint", unsigned=True))
KEY = (Index("PRIMARY", ("id",), unique=True, primary=True),)
BIGINTS = (TableLayout(("d.*",), bigint_unsigned="bigint"),)


def make_state(*tables: Incarnation) -> State:
    return State(
        ts=9,
        snapshot_id=3,
        catalog=CatalogState([table.schema for table in tables]),
        incarnations={table.id: table for table in tables},
        names=[(key_of(table.schema), table.id) for table in tables],
    )


def make_table(name: str, *columns: Column) -> Incarnation:
    return Incarnation(id=name, schema=TableSchema("d", name, (ID, *columns), KEY), created_ts=1)


def plan(start: State, layouts: tuple[TableLayout, ...] | None, *loads: Load) -> Plan:
    window = WindowEvents(ts=start.ts + len(loads), layouts=layouts, loads=loads)
    return make_plan(start, window, StreamRules(), lambda *_: None, lambda _: None)


def test_only_tables_whose_files_change_get_work() -> None:
    start = make_state(make_table("a", COUNT), make_table("b"))
    assert needs_layouts(start, BIGINTS, StreamRules())
    made = plan(start, BIGINTS)
    assert list(made.work) == ["a"]
    assert made.work["a"].is_laid_out_anew
    assert made.work["a"].steps == ()
    assert {t.layout for t in made.state.incarnations.values()} == {Layout(bigints=True)}
    # Then all is as it should be; whoever only looks leaves it so.
    assert not needs_layouts(made.state, BIGINTS, StreamRules())
    assert plan(made.state, BIGINTS).work == {}
    assert plan(made.state, None).work == {}
    assert list(plan(made.state, ()).work) == ["a"]


def test_a_load_is_written_again() -> None:
    schema = make_table("a", COUNT).schema
    load = Load(
        id=1,
        ts=10,
        incarnation="loaded",
        schema=schema,
        version=0,
        rows=5,
        quarantined=0,
        origin="",
        loaded_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    made = plan(make_state(), BIGINTS, load)
    work = made.work["loaded"]
    assert (work.layout_before, work.layout) == (Layout(), Layout(bigints=True))
    assert work.is_laid_out_anew
    # Where that fails, the table is as the load wrote it.
    failed = record_outcomes(make_state(), made, {"loaded": "too large"}, ())
    assert failed.state.incarnations["loaded"].layout == Layout()


def test_a_table_that_has_stopped_keeps_its_layout_until_it_goes_on() -> None:
    table = make_table("a", COUNT)
    stopped = make_state(stop_table(table, "paused", "x", (5, 2), 5))
    assert not needs_layouts(stopped, BIGINTS, StreamRules())
    assert plan(stopped, BIGINTS).work == {}
    # One that cannot be laid out so is as it was, and does not try again by itself.
    start = make_state(table)
    failed = record_outcomes(start, plan(start, BIGINTS), {"a": "too large"}, ())
    assert failed.state.incarnations["a"].layout == Layout()
    assert not needs_layouts(failed.state, BIGINTS, StreamRules())


def test_a_column_that_is_not_there_is_reported_once() -> None:
    layouts = (TableLayout(("d.a",), cluster_by="u"),)
    start = make_state(make_table("a", COUNT))
    made = plan(start, layouts)
    assert made.problems == []
    assert made.work["a"].layout == Layout(cluster_by="u")
    table = made.state.incarnations["a"]
    renamed = replace(table, schema=make_table("a", replace(COUNT, name="w")).schema)
    after = plan(make_state(renamed), layouts)
    (problem,) = after.problems
    assert problem.describe().startswith("layout: d.a, commit ts 9: cluster-by names the column u")
    assert after.work == {}
    assert plan(after.state, layouts).problems == []
