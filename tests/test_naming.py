"""Asset keys of tables, whatever they are called."""

import dagster as dg
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.key_parts import decode_key_part, encode_key_part
from ticdc_assets.naming import (
    CHANGES,
    CURRENT,
    HISTORY,
    SCHEMA_HISTORY,
    identifier,
    layer_asset_key,
    layer_group,
    output_name,
    table_asset_key,
    table_group,
    table_of,
)

NAMES = st.text(st.characters(), max_size=20) | st.text('a._-~/" `$1é表', max_size=8)
FEED = changefeed_from_uri("file:///x?protocol=csv", id="shop-2")


@given(NAMES)
@example("")
@example("~~")
@example("a~2f~b")
@example("..")
@example("\ud800")
def test_a_name_survives_a_round_trip_through_a_key_part(name: str) -> None:
    part = encode_key_part(name)

    assert decode_key_part(part) == name
    assert part
    assert not set(part) & set('/\\"*? \n')
    assert part.strip(".")
    # In URLs and in the instance's storage.
    assert dg.AssetKey.from_user_string(f"a/{part}") == dg.AssetKey(["a", part])


@pytest.mark.parametrize("name", ["orders", "order_items", "订单", "Straße", "v1.orders", "a-b"])
def test_usual_names_are_not_escaped(name: str) -> None:
    assert encode_key_part(name) == name


@given(NAMES, NAMES, st.sampled_from((CURRENT, SCHEMA_HISTORY, HISTORY, CHANGES)))
@example("d", "orders.schema", SCHEMA_HISTORY)
@example("d", "", HISTORY)
def test_a_table_survives_a_round_trip_through_its_key(
    database: str, table: str, layer: str
) -> None:
    assert table_of(table_asset_key(FEED, layer, database, table)) == (database, table)
    assert table_of(layer_asset_key(FEED, "raw")) is None


def test_the_last_part_of_a_key_tells_the_assets_of_a_table_apart() -> None:
    layers = (CURRENT, SCHEMA_HISTORY, HISTORY, CHANGES)
    shown = [table_asset_key(FEED, layer, "d", "orders").path[-1] for layer in layers]

    assert shown == ["orders", "orders.schema", "orders.history", "orders.changes"]


def test_tables_of_one_name_in_two_databases_are_in_two_groups() -> None:
    dashed, short = (changefeed_from_uri("file:///x?protocol=csv", id=id) for id in ("a-b", "a"))
    groups = [layer_group(dashed), layer_group(short), table_group(short, "b")]
    groups += [table_group(short, name) for name in ("c", "", "c d", "订单", "c-d")]

    assert groups[:4] == ["a__b", "a", "a_db_b", "a_db_c"]
    assert len(set(groups)) == len(groups)
    dg.Definitions(assets=[dg.AssetSpec(g, group_name=g) for g in groups]).resolve_asset_graph()


def test_every_selection_finds_its_table() -> None:
    keys = [
        table_asset_key(FEED, CURRENT, "a b", name) for name in ("表", 'x"y', "x.y", "*", "a/b")
    ]
    graph = dg.Definitions(assets=[dg.AssetSpec(key) for key in keys]).resolve_asset_graph()

    for key in keys:
        chosen = dg.AssetSelection.from_string(f'key:"{key.to_user_string()}"')
        assert chosen.resolve(graph) == {key}


def test_similar_names_have_different_outputs() -> None:
    keys = [
        table_asset_key(FEED, layer, database, table)
        for layer in (HISTORY, CURRENT)
        for database, table in [("a", "b__c"), ("a__b", "c"), ("a", "b_c"), ("a", "b-c")]
    ]
    outputs = [output_name(key) for key in keys]
    outputs += [output_name(key, "c") for key in keys]
    # A table whose name equals that of another table and a check.
    outputs += [output_name(table_asset_key(FEED, CURRENT, "a", "b__c_c"))]

    assert len(set(outputs)) == len(outputs)
    assert all(name.isidentifier() and name.isascii() for name in outputs)


def test_names_that_differ_in_other_characters_alone_have_different_identifiers() -> None:
    texts = {f"{number:b}".translate({48: " ", 49: "."}) + "a" for number in range(200_000)}

    assert len({identifier(text) for text in texts}) == len(texts)


@given(st.text("ab-_", min_size=1, max_size=8), st.text("ab-_", min_size=1, max_size=8))
def test_different_changefeeds_have_different_identifiers(one: str, other: str) -> None:
    assert (identifier(one) == identifier(other)) == (one == other)
