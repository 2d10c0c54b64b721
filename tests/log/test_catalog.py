"""A run's changes are the differences between the catalog before and after it."""

from dataclasses import replace
from datetime import UTC, datetime

from tests.made_lake import schema
from ticdc_assets.log.applied_row import AppliedRow, RowCounts, TableCounts
from ticdc_assets.log.catalog import (
    LakeCatalog,
    LakeTable,
    SchemaVersionEntry,
    table_changes,
)


def table(incarnation: str, name: str, status: str = "live", created_ts: int = 1) -> LakeTable:
    stated = schema("shop", name)
    return LakeTable(incarnation, "shop", name, status, None, None, created_ts, None, stated)


def snapshot(
    id: int, ts: int, versions: dict[str, int], replayed_from: int | None = None
) -> AppliedRow:
    return AppliedRow(id, datetime.now(UTC), ts, id, id, {}, versions, (), replayed_from, 1)


def line(id: int, **counts: RowCounts) -> AppliedRow:
    by_table = tuple(TableCounts(name, name, rows) for name, rows in counts.items())
    return AppliedRow(id, datetime.now(UTC), id, id, id, {}, {}, by_table, None, 1)


def catalog(
    *tables: LakeTable, versions: dict[str, int], steps: tuple[SchemaVersionEntry, ...] = ()
) -> LakeCatalog:
    return LakeCatalog({t.incarnation: t for t in tables}, line(1), versions, steps)


def test_tables_that_did_not_change_are_left_out() -> None:
    kept, grown, gone = table("a", "kept"), table("b", "grown"), table("c", "gone")
    before = catalog(kept, grown, gone, versions={"a": 1, "b": 1, "c": 1})
    came, made = table("d", "came"), SchemaVersionEntry("d", "shop", "came", 5, "3", "CREATE")
    after = catalog(
        *(kept, grown, replace(gone, status="dropped"), came),
        versions={"a": 1, "b": 3, "c": 1, "d": 0},
        steps=(made,),
    )
    lines = [line(2, b=RowCounts(5, 3, 2)), line(3, b=RowCounts(2, 1, 0, 1))]

    found = table_changes(before, after, lines)

    assert set(found) == {"b", "c", "d"}
    assert found["b"].counts == RowCounts(7, 4, 2, 1)
    assert found["b"].version == 3
    assert not found["b"].appeared
    assert found["c"].dropped
    assert found["d"].appeared
    assert found["d"].steps == (made,)


def test_a_table_with_quarantined_rows_only_counts_as_changed() -> None:
    one = table("a", "one")
    same = catalog(one, versions={"a": 1})

    assert table_changes(same, same, []) == {}
    assert (
        table_changes(same, same, [line(2, a=RowCounts(1, 0, 0, 1))])["a"].counts.quarantined == 1
    )


def test_a_rename_is_a_change() -> None:
    before = catalog(table("a", "old"), versions={"a": 1})
    after = catalog(table("a", "new"), versions={"a": 1})

    assert table_changes(before, after, [])["a"].renamed


def test_the_youngest_live_table_has_a_name() -> None:
    tables = (table("a", "t", "dropped", 1), table("b", "T", "live", 2), table("c", "t", "live", 3))

    named = catalog(*tables, versions={}).named()

    assert {name: found.incarnation for name, found in named.items()} == {("shop", "t"): "c"}


def test_only_windows_and_replays_give_a_table_other_content() -> None:
    one, other = table("a", "one"), table("b", "other")
    before = catalog(one, other, versions={"a": 1, "b": 1})
    window = snapshot(2, 20, {"a": 2})
    compacted = snapshot(3, 20, {"a": 3, "b": 2})
    # It has the versions of all tables.
    whole = snapshot(4, 30, {"a": 3, "b": 2})
    rebuilt = snapshot(5, 30, {"a": 4, "b": 2}, replayed_from=0)

    def find(*rows: AppliedRow) -> dict[str, AppliedRow | None]:
        versions = {"a": 1, "b": 1}
        for row in rows:
            versions |= row.versions
        found = table_changes(before, catalog(one, other, versions=versions), rows)
        return {id: change.content_from for id, change in found.items()}

    assert find(window) == {"a": window}
    assert find(window, compacted, whole) == {"a": window, "b": None}
    assert find(window, compacted, whole, rebuilt) == {"a": rebuilt, "b": None}
    paused = catalog(replace(one, status="paused"), other, versions={"a": 1, "b": 1})
    assert table_changes(before, paused, [])["a"].content_from is None
