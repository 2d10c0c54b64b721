"""RANGE and LIST partitioning, by expression and by columns."""

from datetime import date

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schema.partition.partitionings import (
    integers,
    lists,
    locate_partition,
    number,
    ranges,
    table,
    texts,
)
from ticdc_assets.events import TableSchema
from ticdc_assets.schema.partition.locate import make_locator


@given(st.sets(st.integers(-1000, 1000), min_size=1), st.booleans(), integers)
@settings(max_examples=40, deadline=None)
def test_a_range_partition_holds_the_values_below_its_bound(
    bounds: set[int], open_end: bool, value: int | None
) -> None:
    ordered = sorted(bounds)
    cut = ranges(*map(str, ordered), *(["MAXVALUE"] if open_end else []), by="a")
    expected = 0 if value is None else sum(bound <= value for bound in ordered)
    if expected == len(ordered) and not open_end:
        expected = None
    assert number(locate_partition(cut, table(a="bigint"), {"a": value})) == expected


def test_bounds_may_be_expressions_or_unsigned_numbers() -> None:
    cut = ranges("-5", "10+5", "TO_DAYS('2024-1-1')", "18446744073709551615", by="a")
    find = make_locator(cut, table(a="bigint unsigned"))
    days = date(2024, 1, 1).toordinal() + 365
    values = (-6, -5, 14, 15, days - 1, days, (1 << 64) - 2, (1 << 64) - 1)
    assert [number(find({"A": v})) for v in values] == [0, 1, 1, 2, 2, 3, 3, None]


def row_is_below(row: list, bound: list) -> bool:
    """Compare as SQL does, NULL below all, and None in a bound for MAXVALUE."""
    for value, limit in zip(row, bound, strict=True):
        if limit is None or value is None:
            return True
        if value != limit:
            return value < limit
    return False


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_range_columns_compare_column_by_column(data: st.DataObject) -> None:
    dates = st.dates(date(2020, 1, 1), date(2020, 1, 5)).map(str)
    column_values = (st.integers(-2, 2), texts, dates)
    bound = st.tuples(*column_values)
    # utf8mb4_bin compares bytes, and trailing blanks do not count.
    rank = [lambda v: v, lambda v: v.rstrip(" ").encode(), lambda v: v]

    def ranked(values: tuple) -> list:
        return [None if v is None else r(v) for r, v in zip(rank, values, strict=True)]

    drawn = data.draw(st.lists(bound, min_size=1, max_size=4))
    ordered = sorted({tuple(ranked(b)): b for b in drawn}.items())
    bounds = [b for _, b in ordered]
    sql = [(str(a), f"_utf8mb4'{b}'", f"'{c}'") for a, b, c in bounds]
    limits = [ranked(b) for b in bounds]
    if data.draw(st.booleans()):
        first = bounds[-1][0]
        sql.append((str(first), "MAXVALUE", "MAXVALUE"))
        limits.append([first, None, None])
    row = tuple(data.draw(st.one_of(st.none(), values)) for values in column_values)
    below = [n for n, limit in enumerate(limits) if row_is_below(ranked(row), limit)]
    schema = table(a="int", b="varchar(9) collate utf8mb4_bin", c="date")
    found = locate_partition(
        ranges(*sql, columns="A b C"), schema, dict(zip("abc", row, strict=True))
    )
    assert number(found) == (below[0] if below else None)


def test_bounds_are_converted_to_the_column_type() -> None:
    moments = ranges("'2024-2-1'", "_utf8mb4'20240301000000.4996'", "'2024-4-1 1:2:3'", columns="x")
    find = make_locator(moments, table(x="datetime(3)"))
    below = ["2024-01-31 23:59:59.999", "2024-03-01 00:00:00.499", "2024-04-01 01:02:02.999"]
    at = ["2024-02-01 00:00:00.000", "2024-03-01 00:00:00.500", "2024-04-01 01:02:03.000"]
    assert [number(find({"x": x})) for x in below] == [0, 1, 2]
    assert [number(find({"x": x})) for x in at] == [1, 2, None]
    shorter = ("2024-02-01 00:00:00", "2024-03-01 00:00:00.5")
    assert [number(find({"x": x})) for x in shorter] == [1, 2]
    whole = make_locator(ranges("'2024-01-01 23:59:59'", "MAXVALUE", columns="d"), table(d="date"))
    assert [whole({"d": d}) for d in ("2023-12-31", "2024-01-01", None)] == ["p0", "p1", "p0"]
    times = make_locator(ranges("'-01:00'", "'1 02:03:04'", columns="t"), table(t="time"))
    clocks = ("-01:00:01", "-00:59:59", "26:03:03", "26:03:04")
    assert [number(times({"t": t})) for t in clocks] == [0, 1, 1, None]
    raw = make_locator(ranges("x'61'", "_binary 0x7a", columns="b"), table(b="binary(2)"))
    values = (b"\0\0", b"a\0", b"a\1", b"z\0")
    assert [number(raw({"b": b})) for b in values] == [0, 1, 1, None]


def test_text_columns_are_compared_by_their_collation() -> None:
    def schema(collation: str) -> TableSchema:
        return table(s=f"varchar(20) collate {collation}")

    names = lists(["'Böb'"], ["'strasse'"], ["'STRASE'"], columns="s")
    general = make_locator(names, schema("utf8mb4_general_ci"))
    assert [general({"s": s}) for s in ("bOB  ", "Straße", "nobody")] == ["p0", "p2", None]
    unicode = make_locator(names, schema("utf8mb4_unicode_ci"))
    assert [unicode({"s": s}) for s in ("bOB  ", "STRASSE", "nobody")] == ["p0", "p1", None]
    exact = make_locator(names, schema("utf8mb4_bin"))
    assert [exact({"s": s}) for s in ("Böb  ", "böb")] == ["p0", None]
    unpadded = make_locator(names, schema("utf8mb4_0900_bin"))
    assert [unpadded({"s": s}) for s in ("Böb", "Böb ")] == ["p0", None]
    halves = ranges("'M'", "MAXVALUE", columns="s")
    assert locate_partition(halves, schema("utf8mb4_general_ci"), {"s": "a"}) == "p0"
    assert locate_partition(halves, schema("utf8mb4_0900_ai_ci"), {"s": "ä"}) == "p0"
    assert locate_partition(halves, schema("utf8mb4_bin"), {"s": "a"}) == "p1"


def test_a_list_partition_holds_its_values_and_the_default_partition_the_rest() -> None:
    months = lists(["1", "2", "1+2"], ["NULL", "-4"], ["DEFAULT"], by="MONTH(d) * sign")
    find = make_locator(months, table(d="date", sign="tinyint"))
    assert find({"d": "2024-03-09", "sign": 1}) == "p0"
    assert find({"d": "2024-04-09", "sign": -1}) == "p1"
    assert find({"d": None, "sign": 1}) == "p1"
    assert find({"d": "2024-12-01", "sign": 1}) == "p2"
    pairs = lists([("1", "'a'"), ("NULL", "'b'")], [("2", "NULL")], columns="n s")
    schema = table(n="int", s="varchar(5)")
    rows = [(1, "a"), (None, "b"), (2, None), (1, "b"), (None, None), (2, "NULL")]
    found = [locate_partition(pairs, schema, {"n": n, "s": s}) for n, s in rows]
    assert found == ["p0", "p0", "p1", None, None, None]
    with_default = lists([("1", "'a'")], ["default"], columns="n s")
    assert locate_partition(with_default, schema, {"n": 1, "s": "DEFAULT"}) == "p1"
