"""Names in a DDL: the tables it affects, and the table that a name refers to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schema.changes import ddl, stated, summarize
from ticdc_assets.schema.apply_ddl import apply_ddl
from ticdc_assets.schema.catalog import SchemaCatalog
from ticdc_assets.schema.name_resolution import affected_names
from ticdc_assets.stream.ddl_order import order_ddls


@given(st.data())
def test_renames_of_one_statement_end_the_same_in_any_order_of_arrival(
    data: st.DataObject,
) -> None:
    """No name is left or taken twice, so only one order of the renames is possible."""
    names = ["a", "b", "c", "d", "e", "f"]
    there = data.draw(st.sets(st.sampled_from(names), min_size=1, max_size=5))
    where = {name: name for name in there}
    left: set[str] = set()
    taken: set[str] = set()
    changes = []
    for _ in range(data.draw(st.integers(1, 6))):
        sources = sorted(set(where) - left)
        targets = sorted(set(names) - set(where) - taken)
        if not sources or not targets:
            break
        old, new = data.draw(st.sampled_from(sources)), data.draw(st.sampled_from(targets))
        where[new] = where.pop(old)
        left.add(old)
        taken.add(new)
        changes.append(ddl(f"RENAME TABLE `d`.`{old}` TO `d`.`{new}`", new))
    catalog = SchemaCatalog()
    for name in there:
        catalog.replace(stated(name, f"of_{name}"))
    for change in order_ddls(data.draw(st.permutations(changes)), catalog):
        apply_ddl(change, catalog)
    assert {s.table: s.columns[0].name for s in catalog} == {
        name: f"of_{origin}" for name, origin in where.items()
    }


def test_an_ambiguous_rename_pauses_every_candidate_and_the_new_name() -> None:
    catalog = SchemaCatalog()
    for database in ("a", "b"):
        catalog.replace(stated("t", database=database))
    change = ddl("ALTER TABLE t RENAME AS c.s", "s", database="c")
    assert summarize(apply_ddl(change, catalog)) == ["pause a.t", "pause b.t", "pause c.s"]


def tables(catalog: SchemaCatalog) -> set[str]:
    return {f"{schema.database}.{schema.table}" for schema in catalog}


@pytest.mark.parametrize(
    ("columns", "fields"),
    [
        (["id"], {"schema": stated("s", "id", database="c", table_id=2)}),
        (["id", "x"], {"schema": stated("s", "id", "x", database="c")}),
        (["id", "x"], {"pre_schema": stated("t", database="b")}),
    ],
)
def test_the_schemas_of_a_message_resolve_an_ambiguous_rename(
    columns: list[str], fields: dict[str, object]
) -> None:
    catalog = SchemaCatalog()
    catalog.replace(stated("t", "id", database="a", table_id=1))
    catalog.replace(stated("t", *columns, database="b", table_id=2))
    change = ddl("ALTER TABLE t RENAME AS c.s", "s", database="c", **fields)
    assert summarize(apply_ddl(change, catalog)) == ["rename b.t c.s"]
    assert tables(catalog) == {"a.t", "c.s"}


def test_affected_names_cover_every_table_of_a_ddl() -> None:
    for sql, names in (
        ("RENAME TABLE a TO x.b", {("d", "a"), ("x", "b"), ("d", "t")}),
        ("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE x.N", {("d", "t"), ("x", "n")}),
        ("ALTER TABLE t ADD c INT", {("d", "t")}),
        ("BEND", {("d", "t")}),
    ):
        assert set(affected_names(ddl(sql))) == names
