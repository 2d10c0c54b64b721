"""Narrowing finds the rows that differ, and no others, whatever the two tables are."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lake.test_canonical import compared
from ticdc_assets.verify import narrowing
from ticdc_assets.verify.narrowing import compare_sums, find_different_rows, plan_hashes
from ticdc_assets.verify.side import ALL_HASHES, Comparison, Span, Texts
from ticdc_assets.verify.small_lake import SmallLakeSide

KEYED = Comparison("d", "t", (key := compared("bigint"), value := compared("int")), (key,), key)
HASHED = Comparison("d", "t", (key, value), (key,), None)
KEYLESS = Comparison("d", "t", (key, value), (), None)
EDGES = [-(1 << 63), -(1 << 40), -1, 0, 1, 5, 1 << 40, (1 << 63) - 1]
keys = st.one_of(
    st.sampled_from(EDGES), st.integers(0, 300), st.integers(-(1 << 63), (1 << 63) - 1)
)
tables = st.dictionaries(keys, st.integers(0, 2), max_size=120)
SPANS = (Span(-(1 << 63), -5), Span(-5, 1), Span(1, 100), Span(100, 1 << 63))


def rows(table: Sequence[tuple[int, int]]) -> list[Texts]:
    return [(str(key).encode(), str(value).encode()) for key, value in table]


@settings(max_examples=150)
@given(tables, tables, st.data())
@pytest.mark.parametrize("comparison", [KEYED, HASHED], ids=["by key", "by hash"])
def test_rows_with_keys(
    comparison: Comparison, one: dict[int, int], news: dict[int, int], data: st.DataObject
) -> None:
    some = st.sets(st.sampled_from(sorted(one)) if one else st.nothing())
    removed, repeated = data.draw(some), data.draw(some)
    other = {key: value for key, value in one.items() if key not in removed} | news
    copies = [(key, one[key]) for key in repeated]
    lake = SmallLakeSide(rows([*one.items(), *copies]), comparison)
    upstream = SmallLakeSide(rows(list(other.items())), comparison)
    plan = narrowing.CoarsePlan(SPANS) if comparison is KEYED else plan_hashes(1)
    sums = [dict(side.sum_parts(plan.spans, plan.parts)) for side in (lake, upstream)]
    different = compare_sums(*sums, plan.list_parts())
    found = list(find_different_rows(lake, upstream, different, 120, lambda done: None))

    expected = {
        (str(key).encode(), "extra" if key in repeated else name_difference(key, one, other))
        for key in {*one, *other}
        if one.get(key) != other.get(key) or key in repeated
    }
    assert Counter((row.key[0], row.what) for row in found) == Counter(expected)
    assert sum(row.copies for row in found if row.what == "extra") == sum(
        1 + (key in repeated) if key not in other else key in repeated for key in one
    )
    assert bool(different) == bool(expected)


def name_difference(key: int, lake: dict[int, int], upstream: dict[int, int]) -> str:
    if key not in lake:
        return "missing"
    return "differs" if key in upstream else "extra"


few = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=30)


@settings(max_examples=100)
@given(few, few)
def test_rows_without_keys_are_a_multiset(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    lake, upstream = (SmallLakeSide(rows(table), KEYLESS) for table in (one, other))
    plan = plan_hashes(1)
    sums = [dict(side.sum_parts(plan.spans, plan.parts)) for side in (lake, upstream)]
    different = compare_sums(*sums, plan.list_parts())
    found = list(find_different_rows(lake, upstream, different, 30, lambda done: None))

    counts, others = Counter(one), Counter(other)
    assert sum(row.copies for row in found if row.what == "extra") == (counts - others).total()
    assert sum(row.copies for row in found if row.what == "missing") == (others - counts).total()


def test_sums_of_few_parts_are_in_memory_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrowing, "_SUMS_AT_ONCE", 64)
    lake, upstream = (
        SmallLakeSide(rows([(n, value) for n in range(2000)]), HASHED) for value in (1, 2)
    )
    different = ALL_HASHES.split(16)
    counted: list[int] = []
    found = list(find_different_rows(lake, upstream, different, 600, counted.append))
    assert len(found) == 2000
    assert max(counted) <= 64
    assert sum(counted) == 16 * 16


def test_parts_cover_a_span_without_overlap() -> None:
    for span, parts in ((Span(-5, 12), 4), (Span(0, 3), 8), (Span(-(1 << 63), 1 << 63), 7)):
        found = span.split(parts)
        assert found[0].low == span.low
        assert found[-1].high == span.high
        assert all(one.high == other.low for one, other in pairwise(found))
        assert [span.part(number, parts) for number in range(len(found))] == found
