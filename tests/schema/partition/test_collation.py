"""Texts are located by their collation; where it is unknown or inexact, by no guess."""

from itertools import pairwise

import pytest

from tests.schema.partition.partitionings import lists, locate_partition, numbered, ranges, table
from ticdc_assets.errors import InvalidValue, UnsupportedDdl
from ticdc_assets.events import Partitioning
from ticdc_assets.schema.ddl_context import DdlContext
from ticdc_assets.schema.partition.collation import make_collation_sort_key
from ticdc_assets.schema.partition.locate import (
    NO_PARTITION,
    make_locator,
    make_strict_locator,
)

# Texts in ascending order, from the weights of TiDB's tables of both versions of the algorithm.
ORDERS = {
    "utf8mb4_unicode_ci": ["\t", " a", "`", "^", "_", "-", ".", "(", "@", "#", "+", "|", "$"],
    "utf8mb4_0900_ai_ci": ["\t", " a", "_", "-", ".", "(", "@", "#", "`", "^", "+", "|", "$"],
}
LETTERS = ["0", "9", "a", "É", "ez", "Strasse", "straßen", "ý", "z", "一", "龥"]


@pytest.mark.parametrize("collation", ORDERS)
def test_texts_sort_by_their_primary_weights(collation: str) -> None:
    key = make_collation_sort_key(collation)
    texts = [*ORDERS[collation], *LETTERS]
    assert all(key(low) < key(high) for low, high in pairwise(texts))
    assert key("STRASSE") == key("straße")
    assert key("Ǖber\x00") == key("uBER")
    assert (key("a ") == key("a")) is (collation == "utf8mb4_unicode_ci")


@pytest.mark.parametrize(
    ("collation", "text"),
    [
        ("utf8mb4_unicode_ci", "æsir"),
        ("utf8mb4_0900_ai_ci", "жар"),
        ("utf8mb4_unicode_ci", "😀"),
        ("utf8mb4_0900_ai_ci", "\udcff"),
        ("utf8mb4_general_ci", "\u0180"),
        ("gbk_chinese_ci", "中"),
    ],
)
def test_a_character_of_unknown_weight_is_in_no_partition(collation: str, text: str) -> None:
    halves = ranges("'b'", "MAXVALUE", columns="s")
    schema = table(s=f"varchar(9) collate {collation}")
    assert locate_partition(halves, schema, {"s": "A"}) == "p0"
    with pytest.raises(InvalidValue):
        locate_partition(halves, schema, {"s": text})


UNKNOWN = table(s="varchar(9)", t="varchar(9)")
LISTED = lists(["'cn'", "'中国'"], ["'us'", "'USA'"], ["NULL", "''"], columns="s")


def test_without_a_collation_a_row_is_where_every_collation_puts_it() -> None:
    find = make_locator(LISTED, UNKNOWN)
    assert [find({"s": s}) for s in ("cn", "中国", "us", None, "")] == [
        "p0",
        "p0",
        "p1",
        "p2",
        "p2",
    ]
    for text in ("CN", "us ", "usa", "жар"):
        with pytest.raises(InvalidValue, match="default-collation"):
            find({"s": text})
    both = make_locator(ranges(("'c'", "'c'"), ("'x'", "MAXVALUE"), columns="s t"), UNKNOWN)
    assert both({"s": "b", "t": "z"}) == "p0"
    assert both({"s": "c", "t": "b"}) == "p0"
    with pytest.raises(InvalidValue, match="default-collation"):
        both({"s": "C", "t": "d"})


def test_partitions_that_only_one_collation_allows_tell_which_it_is() -> None:
    cased = make_locator(lists(["'a'"], ["'A'"], columns="s"), UNKNOWN)
    assert [cased({"s": s}) for s in ("a", "A")] == ["p0", "p1"]
    with pytest.raises(UnsupportedDdl, match="ascend"):
        make_locator(ranges("'b'", "'a'", columns="s"), UNKNOWN)
    with pytest.raises(UnsupportedDdl, match="same value"):
        make_locator(lists(["'a'"], ["'a'"], columns="s"), UNKNOWN)


@pytest.mark.parametrize(
    "partitioning", [numbered("key", 4, columns="s"), ranges("'жар'", "MAXVALUE", columns="s")]
)
def test_a_partitioning_that_needs_the_collation_names_the_setting(
    partitioning: Partitioning,
) -> None:
    with pytest.raises(UnsupportedDdl, match="default-collation"):
        make_locator(partitioning, UNKNOWN)
    assert make_locator(partitioning, UNKNOWN, DdlContext(collation="utf8mb4_bin"))({"s": "жа"})


def test_a_declared_collation_counts_where_none_is_stated() -> None:
    halves = ranges("'b'", "MAXVALUE", columns="s")
    declared = DdlContext(collation="utf8mb4_general_ci")
    assert make_locator(halves, UNKNOWN, declared)({"s": "C"}) == "p1"
    stated = table(s="varchar(9) collate utf8mb4_bin")
    assert make_locator(halves, stated, declared)({"s": "C"}) == "p0"
    latin = table(s="varchar(9) charset latin1")
    assert make_locator(halves, latin, declared)({"s": "C"}) == "p0"


def test_a_row_that_no_partition_takes_disproves_what_is_known() -> None:
    find = make_strict_locator(ranges("10", columns="a"), table(a="int"), DdlContext())
    assert find({"a": 9}) == "p0"
    with pytest.raises(InvalidValue) as raised:
        find({"a": 10})
    assert raised.value.reason == NO_PARTITION
