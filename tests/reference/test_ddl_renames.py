"""The renames of one RENAME TABLE arrive by different topics or files, in any order."""

from itertools import permutations

import pytest
from msgspec.structs import replace

from tests.reference.changefeeds import MANNERS, Ddl, Teller, put, rename_all
from tests.reference.model_runs import played, tables
from tests.reference.test_ddl_scenarios import create
from ticdc_assets.events import FilePosition, SchemaChange, TopicPosition
from ticdc_assets.stream.schema_versions import complete_schema_versions

CHAIN = rename_all(("a", "c"), ("b", "a"), ("c", "b"))


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_renames_of_one_statement_may_arrive_in_any_order(
    order: tuple[int, ...], manner: str
) -> None:
    teller = Teller(manner)
    events = teller.tell(
        [create("a"), create("b", "id int primary key, w int"), put("a", id=1, v="a")]
    )
    renames = teller.tell(CHAIN)
    later = teller.tell([put("a", id=3, w=4), put("b", id=5, v="b")])
    for arrival, which in enumerate(order):
        # From three topics, or from three folders.
        position = (
            FilePosition(f"{'acb'[which]}/meta")
            if manner.startswith("storage")
            else TopicPosition("acb"[which], 0, arrival)
        )
        moved = renames[which]
        assert isinstance(moved, SchemaChange)
        events.append(replace(moved, position=position))
    model = played([*events, *later])
    assert tables(model) == {"a(id, w)": [("3", "4")], "b(id, v)": [("1", "a"), ("5", "b")]}
    assert model.problems == []


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_columns_that_files_lack_are_known_of_tables_that_changed_names(
    order: tuple[int, ...],
) -> None:
    virtual = "id int primary key, x int as (id) virtual, v int"
    teller = Teller("storage")
    created = teller.tell([create("a", virtual), create("b")])
    renames = teller.tell(CHAIN)
    indexed = f"{virtual}, `_V$_i_0` bigint as (v+1) virtual"
    altered = teller.tell([Ddl("ALTER TABLE `b` ADD INDEX `i`((`v`+1))", "b", indexed)])
    stated = [*created, *(renames[which] for which in order), *altered]
    versions = complete_schema_versions([e for e in stated if isinstance(e, SchemaChange)], {})
    virtuals = {
        (table, version): [c.name for c in schema.columns if c.generated == "virtual"]
        for (_, table, version), schema in versions.items()
    }
    # Nothing is ever written to the name in between.
    del virtuals["c", 130]
    assert virtuals == {
        ("a", 110): ["x"],
        ("b", 120): [],
        ("a", 130): [],
        ("b", 130): ["x"],
        ("b", 140): ["x", "_V$_i_0"],
    }
