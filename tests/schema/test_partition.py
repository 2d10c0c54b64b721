from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any
from zlib import crc32
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.golden import records
from ticdc_assets.errors import UnhonourableDdl, ValueProblem
from ticdc_assets.events import Column, ColumnType, Index, Partition, Partitioning, TableSchema
from ticdc_assets.schema.ddl.reader import read_ddl
from ticdc_assets.schema.ddl.statement import CreateTable
from ticdc_assets.schema.partition.locate import locate, locator
from ticdc_assets.schema.types.mysql_type import parse_type
from ticdc_assets.schema.types.value import Value, read_value


def table(primary: tuple[str, ...] = (), **types: str) -> TableSchema:
    columns = tuple(Column(name, parse_type(text)) for name, text in types.items())
    return TableSchema("db", "t", columns, (Index("primary", primary, True, True),))


def ranges(*bounds: str | tuple[str, ...], by: str = "", columns: str = "") -> Partitioning:
    partitions = tuple(
        Partition(f"p{n}", less_than=(bound,) if isinstance(bound, str) else bound)
        for n, bound in enumerate(bounds)
    )
    kind = "range columns" if columns else "range"
    return Partitioning(kind, partitions, by or None, tuple(columns.split()))


def lists(
    *values: Iterable[str | tuple[str, ...]], by: str = "", columns: str = ""
) -> Partitioning:
    partitions = tuple(
        Partition(f"p{n}", values=tuple((v,) if isinstance(v, str) else v for v in some))
        for n, some in enumerate(values)
    )
    kind = "list columns" if columns else "list"
    return Partitioning(kind, partitions, by or None, tuple(columns.split()))


def numbered(kind: str, count: int, by: str = "", columns: str = "") -> Partitioning:
    partitions = tuple(Partition(f"p{n}") for n in range(count))
    return Partitioning(kind, partitions, by or None, tuple(columns.split()))


def number(name: str | None) -> int | None:
    return None if name is None else int(name.removeprefix("p"))


def gives(expression: str, result: int | None, row: dict[str, Value], **types: str) -> bool:
    """Whether an expression gives a result: a LIST partition of that value takes the row."""
    value = "NULL" if result is None else str(result)
    partitioning = lists([value], ["DEFAULT"], by=expression)
    return locate(partitioning, table(**types), row) == "p0"


# --- rows of real changefeeds ------------------------------------------------

CREATED = [
    ("types", "t_part_range"),
    ("types", "t_part_hash"),
    ("types", "t_part_list"),
    ("types", "t_part_key"),
    ("random_1", "t0"),
    ("random_1", "t2"),
]


@cache
def messages(dataset: str) -> list[dict[str, Any]]:
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    return [decode(record.value) for record in records(dataset) if record.value]


def rows(dataset: str, schema: TableSchema) -> Iterator[tuple[int, int, dict[str, Value]]]:
    """Commit ts, physical table id and key columns of a table's row images."""
    types = {name: schema.column(name).type for name in schema.key}
    for message in messages(dataset):
        if message.get("table") != schema.table:
            continue
        for image in (message.get("data"), message.get("old")):
            if image and types.keys() <= image.keys():
                row = {name: read_value(image[name], type) for name, type in types.items()}
                yield message["commitTs"], message["tableID"], row


@pytest.mark.parametrize("generation", ["", "newarch-"])
@pytest.mark.parametrize(("workload", "name"), CREATED)
def test_rows_lie_where_tidb_put_them(generation: str, workload: str, name: str) -> None:
    """Ids are given out in a row: the table's own, then one a partition, in order."""
    dataset = f"{workload}/{generation}simple-json"
    created = next(
        message
        for message in messages(dataset)
        if message["type"] == "CREATE"
        and message["tableSchema"]["table"] == name
        and "PARTITION BY" in message["sql"]
    )
    (statement,) = read_ddl(created["sql"])
    assert isinstance(statement, CreateTable)
    assert statement.partitioning is not None
    schema = TableSchema("", name, statement.columns, statement.indexes)
    names = [partition.name for partition in statement.partitioning.partitions]
    find = locator(statement.partitioning, schema)
    found: dict[int, set[str | None]] = defaultdict(set)
    for ts, table_id, row in rows(dataset, schema):
        if ts > created["commitTs"]:
            found[table_id - created["tableSchema"]["tableID"] - 1].add(find(row))
    assert len(found) > 1
    assert all(located == {names[at]} for at, located in found.items())


EVENTS = [
    (("p202401", "2024-02-01"), ("p202402", "2024-03-01")),
    (("p202401", "2024-02-01"), ("p202402", "2024-03-01"), ("p202403", "2024-04-01")),
    (("p202402", "2024-03-01"), ("p202403", "2024-04-01")),
    (("pa", "2024-02-15"), ("pb", "2024-04-01")),
]


@pytest.mark.parametrize("generation", ["", "newarch-"])
def test_rows_stay_apart_through_every_partition_statement(generation: str) -> None:
    dataset = f"lifecycle/{generation}simple-json"
    schema = replace(table(("id", "ts"), id="int", ts="datetime"), table="events")
    created, added, reduced, reorganized = (
        Partitioning(
            "range columns",
            tuple(Partition(name, less_than=(f"_UTF8MB4'{below}'",)) for name, below in cut),
            columns=("ts",),
        )
        for cut in EVENTS
    )
    steps = {
        "CREATE TABLE `events`": created,
        "ADD PARTITION": added,
        "TRUNCATE PARTITION": added,
        "EXCHANGE PARTITION": added,
        "DROP PARTITION": reduced,
        "REORGANIZE PARTITION": reorganized,
        "REMOVE PARTITIONING": None,
        "PARTITION BY HASH": numbered("hash", 2, by="`id`"),
    }
    cuts: dict[int, Partitioning | None] = {}
    for message in messages(dataset):
        sql = message.get("sql") or ""
        if "`events`" in sql and "PARTITION" in sql:
            (step,) = (step for step in steps if step in sql)
            cuts[message["commitTs"]] = steps[step]
    assert len(cuts) == len(steps)
    times = sorted(cuts)
    ids: dict[tuple[int, str | None], set[int]] = defaultdict(set)
    for ts, table_id, row in rows(dataset, schema):
        since = times[bisect_left(times, ts) - 1]
        cut = cuts[since]
        if cut is not None:
            ids[since, locate(cut, schema, row)].add(table_id)
    assert len(ids) >= 10
    assert all(name is not None and len(of_one) == 1 for (_, name), of_one in ids.items())
    apart = {(since, min(of_one)) for (since, _), of_one in ids.items()}
    assert len(apart) == len(ids)


# --- expressions -------------------------------------------------------------


class Truncating:
    """An integer whose division and remainder are MySQL's."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __neg__(self) -> "Truncating":
        return Truncating(-self.value)

    def __add__(self, other: "Truncating") -> "Truncating":
        return Truncating(self.value + other.value)

    def __sub__(self, other: "Truncating") -> "Truncating":
        return Truncating(self.value - other.value)

    def __mul__(self, other: "Truncating") -> "Truncating":
        return Truncating(self.value * other.value)

    def __floordiv__(self, other: "Truncating") -> "Truncating":
        return Truncating(int(Decimal(self.value) / Decimal(other.value)))

    def __mod__(self, other: "Truncating") -> "Truncating":
        return Truncating(int(Decimal(self.value) % Decimal(other.value)))


operands = st.sampled_from(["a", "b", "7", "3", "-a", "(a - b)", "(b + -2)", "-(a * 5)"])
chains = st.lists(st.tuples(st.sampled_from("+-*/%"), operands), max_size=5)


@given(operands, chains, st.integers(-99, 99), st.integers(-99, 99))
@settings(max_examples=40, deadline=None)
def test_arithmetic_is_that_of_mysql(
    first: str, chain: list[tuple[str, str]], a: int, b: int
) -> None:
    sql = first + "".join(f" {'DIV' if op == '/' else op} {term}" for op, term in chain)
    python = first + "".join(f" {'//' if op == '/' else op} {term}" for op, term in chain)
    names = {"a": Truncating(a), "b": Truncating(b), "n": Truncating}
    python = "".join(f"n({c})" if c.isdigit() else c for c in python)
    try:
        expected = eval(python, names).value
    except ArithmeticError:
        expected = None
    assert gives(sql, expected, {"a": a, "b": b}, a="int", b="int")


moments = st.datetimes(datetime(1, 1, 1), datetime(9998, 12, 31))


@given(moments, moments)
@example(datetime(2024, 12, 30), datetime(2023, 1, 1))
@example(datetime(2021, 1, 3), datetime(2000, 2, 29))
@settings(max_examples=40, deadline=None)
def test_date_functions_agree_with_the_calendar(at: datetime, other: datetime) -> None:
    iso = at.isocalendar()
    sunday = int(at.strftime("%U"))
    seconds = at.hour * 3600 + at.minute * 60 + at.second
    days = at.toordinal() + 365
    row = {"d": str(at.date()), "x": at.isoformat(" ", "microseconds"), "o": str(other.date())}
    types = {"d": "date", "x": "datetime(6)", "o": "date"}
    expected = {
        "YEAR(d)": at.year,
        "QUARTER(`D`)": (at.month - 1) // 3 + 1,
        "MONTH(x)": at.month,
        "DAY(x)": at.day,
        "DAYOFMONTH(d)": at.day,
        "DAYOFWEEK(d)": at.isoweekday() % 7 + 1,
        "DAYOFYEAR(d)": at.timetuple().tm_yday,
        "WEEKDAY(x)": at.weekday(),
        "TO_DAYS(x)": days,
        "TO_SECONDS(x)": days * 86400 + seconds,
        "DATEDIFF(d, o)": (at.date() - other.date()).days,
        "YEARWEEK(d, 3)": iso.year * 100 + iso.week,
        "HOUR(x)": at.hour,
        "MINUTE(x)": at.minute,
        "SECOND(x)": at.second,
        "MICROSECOND(x)": at.microsecond,
        "TIME_TO_SEC(x)": seconds,
        "EXTRACT(YEAR_MONTH FROM d)": int(at.strftime("%m")) + at.year * 100,
        "EXTRACT(DAY_HOUR FROM x)": int(at.strftime("%d%H")),
        "EXTRACT(DAY_MICROSECOND FROM x)": int(at.strftime("%d%H%M%S%f")),
        "EXTRACT(HOUR_MINUTE FROM x)": int(at.strftime("%H%M")),
        "EXTRACT(SECOND_MICROSECOND FROM x)": int(at.strftime("%S%f")),
        "TO_DAYS(d) - TO_DAYS('0001-01-01')": at.toordinal() - 1,
    }
    if sunday:
        expected["YEARWEEK(d)"] = expected["YEARWEEK(x, 2)"] = at.year * 100 + sunday
    if monday := int(at.strftime("%W")):
        expected["YEARWEEK(d, 7)"] = at.year * 100 + monday
    else:
        last = int(date(at.year - 1, 12, 31).strftime("%W")) if at.year > 1 else 52
        expected["YEARWEEK(d, 5)"] = (at.year - 1) * 100 + last
    for expression, result in expected.items():
        assert gives(expression, result, row, **types), expression


@given(st.integers(1, 2**31 - 1), st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_unix_timestamps_are_taken_in_utc_for_rows_and_in_the_session_zone_for_bounds(
    seconds: int, millis: int
) -> None:
    at = datetime.fromtimestamp(seconds, UTC)
    row = {"ts": f"{at:%Y-%m-%d %H:%M:%S}.{millis:03}"}
    schema = table(ts="timestamp(3)")
    find = locator(lists([str(seconds)], by="FLOOR(UNIX_TIMESTAMP(ts))"), schema)
    assert find(row) == "p0"
    zone = ZoneInfo("Asia/Tokyo")
    local = at.astimezone(zone)
    cut = ranges(
        f"UNIX_TIMESTAMP('{local:%Y-%m-%d %H:%M:%S}')", "MAXVALUE", by="UNIX_TIMESTAMP(ts)"
    )
    plain = table(ts="timestamp")
    find = locator(cut, plain, session_zone=zone)
    assert find({"ts": f"{at:%Y-%m-%d %H:%M:%S}"}) == "p1"
    assert find({"ts": f"{at - timedelta(seconds=1):%Y-%m-%d %H:%M:%S}"}) == "p0"


def test_dates_of_zeros_have_parts_but_no_day() -> None:
    zero = {"d": "0000-00-00", "x": "2024-00-10 00:00:00", "ts": "0000-00-00 00:00:00"}
    types = {"d": "date", "x": "datetime", "ts": "timestamp"}
    for expression in ("TO_DAYS(d)", "TO_SECONDS(x)", "WEEKDAY(d)", "YEARWEEK(d)", "DATEDIFF(d,d)"):
        assert gives(expression, None, zero, **types)
    assert gives("YEAR(d) + MONTH(x) + QUARTER(x)", 0, zero, **types)
    assert gives("YEAR(x) + DAY(x)", 2034, zero, **types)
    assert gives("UNIX_TIMESTAMP(ts)", 0, zero, **types)
    assert gives("TO_DAYS(d)", 1, {"d": "0000-01-01"}, d="date")


def test_functions_of_times_and_numbers() -> None:
    row = {"t": "-100:59:58.25", "n": Decimal("-1.50"), "i": -7, "none": None}
    types = {"t": "time(2)", "n": "decimal(5,2)", "i": "int", "none": "int"}
    assert gives("HOUR(t)", 100, row, **types)
    assert gives("TIME_TO_SEC(t)", -(100 * 3600 + 59 * 60 + 58), row, **types)
    assert gives("EXTRACT(HOUR_SECOND FROM t)", -1005958, row, **types)
    assert gives("FLOOR(n)", -2, row, **types)
    assert gives("CEILING(n) + CEIL(n) + FLOOR(ABS(n))", -1, row, **types)
    assert gives("MOD(ABS(i), 4)", 3, row, **types)
    assert gives("i MOD 4", -3, row, **types)
    assert gives("i DIV 0", None, row, **types)
    assert gives("none * 2 + ABS(none)", None, row, **types)


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "a +",
        "a b",
        "other",
        "t",
        "a / 2",
        "a | 1",
        "a = 1",
        "a << 1",
        "CASE WHEN a THEN 1 ELSE 2 END",
        "CONCAT(a)",
        "RAND()",
        "YEAR(a)",
        "YEAR(t)",
        "YEAR(d, d)",
        "HOUR(d)",
        "YEAR(ts)",
        "UNIX_TIMESTAMP(d)",
        "UNIX_TIMESTAMP(ts3)",
        "WEEK(d)",
        "EXTRACT(WEEK FROM d)",
        "FLOOR(a, 2)",
        "d + INTERVAL 1 DAY",
        "(SELECT 1)",
        "a COLLATE utf8mb4_bin",
        "1.5",
        "MAXVALUE",
        "@a",
        "?",
        "a.*",
        "9" * 100,
        "(" * 500 + "a" + ")" * 500,
        "+".join(["a"] * 500),
    ],
)
def test_what_is_not_understood_is_refused(expression: str) -> None:
    schema = table(a="int", t="varchar(9)", d="date", ts="timestamp", ts3="timestamp(3)")
    with pytest.raises(UnhonourableDdl):
        locator(ranges("MAXVALUE", by=expression), schema)


# --- range and list ----------------------------------------------------------

integers = st.one_of(st.none(), st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-5, 5))


@given(st.sets(st.integers(-1000, 1000), min_size=1), st.booleans(), integers)
@settings(max_examples=40, deadline=None)
def test_a_range_takes_what_is_below_its_bound(
    bounds: set[int], open_end: bool, value: int | None
) -> None:
    ordered = sorted(bounds)
    cut = ranges(*map(str, ordered), *(["MAXVALUE"] if open_end else []), by="a")
    expected = 0 if value is None else sum(bound <= value for bound in ordered)
    if expected == len(ordered) and not open_end:
        expected = None
    assert number(locate(cut, table(a="bigint"), {"a": value})) == expected


def test_bounds_may_be_expressions_and_unsigned() -> None:
    cut = ranges("-5", "10+5", "TO_DAYS('2024-1-1')", "18446744073709551615", by="a")
    find = locator(cut, table(a="bigint unsigned"))
    days = date(2024, 1, 1).toordinal() + 365
    values = (-6, -5, 14, 15, days - 1, days, (1 << 64) - 2, (1 << 64) - 1)
    assert [number(find({"A": v})) for v in values] == [0, 1, 1, 2, 2, 3, 3, None]


texts = st.text("aB é\u00df中0", max_size=3)


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
    schema = table(a="int", b="varchar(9)", c="date")
    found = locate(ranges(*sql, columns="A b C"), schema, dict(zip("abc", row, strict=True)))
    assert number(found) == (below[0] if below else None)


def test_bounds_are_converted_to_the_type_of_the_column() -> None:
    moments = ranges("'2024-2-1'", "_utf8mb4'20240301000000.4996'", "'2024-4-1 1:2:3'", columns="x")
    find = locator(moments, table(x="datetime(3)"))
    below = ["2024-01-31 23:59:59.999", "2024-03-01 00:00:00.499", "2024-04-01 01:02:02.999"]
    at = ["2024-02-01 00:00:00.000", "2024-03-01 00:00:00.500", "2024-04-01 01:02:03.000"]
    assert [number(find({"x": x})) for x in below] == [0, 1, 2]
    assert [number(find({"x": x})) for x in at] == [1, 2, None]
    shorter = ("2024-02-01 00:00:00", "2024-03-01 00:00:00.5")
    assert [number(find({"x": x})) for x in shorter] == [1, 2]
    whole = locator(ranges("'2024-01-01 23:59:59'", "MAXVALUE", columns="d"), table(d="date"))
    assert [whole({"d": d}) for d in ("2023-12-31", "2024-01-01", None)] == ["p0", "p1", "p0"]
    times = locator(ranges("'-01:00'", "'1 02:03:04'", columns="t"), table(t="time"))
    clocks = ("-01:00:01", "-00:59:59", "26:03:03", "26:03:04")
    assert [number(times({"t": t})) for t in clocks] == [0, 1, 1, None]
    raw = locator(ranges("x'61'", "_binary 0x7a", columns="b"), table(b="binary(2)"))
    values = (b"\0\0", b"a\0", b"a\1", b"z\0")
    assert [number(raw({"b": b})) for b in values] == [0, 1, 1, None]


def test_collations_decide_which_texts_are_equal_and_which_are_less() -> None:
    def schema(collation: str) -> TableSchema:
        return table(s=f"varchar(20) collate {collation}")

    names = lists(["'Böb'"], ["'strasse'"], ["'STRASE'"], columns="s")
    general = locator(names, schema("utf8mb4_general_ci"))
    assert [general({"s": s}) for s in ("bOB  ", "Straße", "nobody")] == ["p0", "p2", None]
    unicode = locator(names, schema("utf8mb4_unicode_ci"))
    assert [unicode({"s": s}) for s in ("bOB  ", "STRASSE", "nobody")] == ["p0", "p1", None]
    exact = locator(names, schema("utf8mb4_bin"))
    assert [exact({"s": s}) for s in ("Böb  ", "böb")] == ["p0", None]
    unpadded = locator(names, schema("utf8mb4_0900_bin"))
    assert [unpadded({"s": s}) for s in ("Böb", "Böb ")] == ["p0", None]
    halves = ranges("'M'", "MAXVALUE", columns="s")
    assert locate(halves, schema("utf8mb4_general_ci"), {"s": "a"}) == "p0"
    assert locate(halves, schema("utf8mb4_0900_ai_ci"), {"s": "ä"}) == "p0"
    assert locate(halves, schema("utf8mb4_bin"), {"s": "a"}) == "p1"


def test_a_list_takes_its_values_and_the_default_the_rest() -> None:
    months = lists(["1", "2", "1+2"], ["NULL", "-4"], ["DEFAULT"], by="MONTH(d) * sign")
    find = locator(months, table(d="date", sign="tinyint"))
    assert find({"d": "2024-03-09", "sign": 1}) == "p0"
    assert find({"d": "2024-04-09", "sign": -1}) == "p1"
    assert find({"d": None, "sign": 1}) == "p1"
    assert find({"d": "2024-12-01", "sign": 1}) == "p2"
    pairs = lists([("1", "'a'"), ("NULL", "'b'")], [("2", "NULL")], columns="n s")
    schema = table(n="int", s="varchar(5)")
    rows = [(1, "a"), (None, "b"), (2, None), (1, "b"), (None, None), (2, "NULL")]
    found = [locate(pairs, schema, {"n": n, "s": s}) for n, s in rows]
    assert found == ["p0", "p0", "p1", None, None, None]
    with_default = lists([("1", "'a'")], ["default"], columns="n s")
    assert locate(with_default, schema, {"n": 1, "s": "DEFAULT"}) == "p1"


# --- hash and key ------------------------------------------------------------


@given(integers, st.integers(1, 1024))
@settings(max_examples=40, deadline=None)
def test_hash_is_the_absolute_remainder(value: int | None, count: int) -> None:
    find = locator(numbered("hash", count, by="a"), table(a="bigint"))
    assert number(find({"a": value})) == abs(value or 0) % count


def test_hash_takes_unsigned_numbers_for_signed_ones() -> None:
    find = locator(numbered("hash", 10, by="a"), table(a="bigint unsigned"))
    values = ((1 << 63) - 1, 1 << 63, (1 << 64) - 1)
    assert [number(find({"a": v})) for v in values] == [7, 8, 1]


KEYS: list[tuple[str, st.SearchStrategy[Value], object]] = [
    ("int", st.integers(-(1 << 31), (1 << 31) - 1), str),
    ("bigint unsigned", st.integers(0, (1 << 64) - 1), str),
    ("varchar(20)", texts, lambda s: s.rstrip(" ")),
    ("char(20) collate utf8mb4_0900_bin", texts, str),
    ("varbinary(9)", st.binary(max_size=9), bytes.decode),
    ("date", st.dates().map(str), str),
    ("datetime(3)", moments.map(lambda m: m.isoformat(" ", "milliseconds")), str),
    ("decimal(9,2)", st.decimals(-999, 999, places=2), lambda d: f"{d:.2f}"),
    ("double", st.sampled_from([1.0, -0.5, 1e20, 1e-7]), lambda f: f"{Decimal(repr(f)):f}"),
    ("year", st.integers(1901, 2155), str),
    ("enum('a','B ')", st.sampled_from(["a", "B"]), str),
]


@given(st.data(), st.integers(1, 64))
@settings(max_examples=40, deadline=None)
def test_key_is_the_checksum_of_the_texts_of_its_columns(data: st.DataObject, count: int) -> None:
    chosen = data.draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3))
    columns = [f"c{n}" for n in range(len(chosen))]
    row, hashed = {}, b""
    for name, (type, values, text_of) in zip(columns, chosen, strict=True):
        if type.startswith("varbinary"):
            row[name] = data.draw(values)
            hashed += row[name]
            continue
        row[name] = data.draw(st.one_of(st.none(), values))
        text = "\0" if row[name] is None else text_of(row[name])
        hashed += text.removesuffix(".0").encode()
    types = dict(zip(columns, (type for type, _, _ in chosen), strict=True))
    explicit = numbered("key", count, columns=" ".join(columns))
    implicit = numbered("key", count)
    expected = crc32(hashed) % count
    assert number(locate(explicit, table(**types), row)) == expected
    assert number(locate(implicit, table(tuple(columns), **types), row)) == expected


def test_key_hashes_capitals_without_accents_under_general_ci() -> None:
    schema = table(s="varchar(9) collate utf8mb4_general_ci")
    find = locator(numbered("key", 1000, columns="s"), schema)
    weights = "BOB\u4e2d\uff21БЕЙ".encode("utf-16-be") + b"\xff\xfd"
    assert number(find({"s": "böb中\uff41бёй😀 "})) == crc32(weights) % 1000
    with pytest.raises(ValueProblem):
        find({"s": "\u0180"})


def test_key_hashes_bits_as_bytes_and_binary_with_its_blanks() -> None:
    schema = table(b="bit(20)", raw="varbinary(9)")
    find = locator(numbered("key", 1000, columns="b raw"), schema)
    assert number(find({"b": 0x6120, "raw": b"x "})) == crc32(b"\0ax ") % 1000


@pytest.mark.parametrize(
    "type", ["timestamp", "json", "text", "blob", "varchar(5) collate utf8mb4_unicode_ci"]
)
def test_keys_that_cannot_be_hashed_for_certain_are_refused(type: str) -> None:
    with pytest.raises(UnhonourableDdl):
        locator(numbered("key", 4, columns="k"), table(k=type))


# --- refusals ----------------------------------------------------------------


@pytest.mark.parametrize(
    "partitioning",
    [
        ranges(by="a"),
        ranges("10", "10", by="a"),
        ranges("MAXVALUE", "10", by="a"),
        ranges("NULL", by="a"),
        ranges("b", by="a"),
        ranges("'10'", by="a"),
        ranges(("1", "2"), by="a"),
        ranges("'10'", columns="a"),
        ranges("1", columns="d"),
        ranges("'2024-13-01'", columns="d"),
        ranges("'x'", columns="j"),
        ranges("1", columns="missing"),
        ranges(("1",), columns="a d"),
        lists(["1.5"], by="a"),
        lists([("1", "2")], columns="a"),
        numbered("hash", 0, by="a"),
        numbered("key", 2),
    ],
)
def test_partitionings_that_make_no_sense_are_refused(partitioning: Partitioning) -> None:
    schema = TableSchema(
        "db",
        "t",
        tuple(Column(n, ColumnType(t)) for n, t in (("a", "int"), ("d", "date"), ("j", "json"))),
    )
    with pytest.raises(UnhonourableDdl):
        locator(partitioning, schema)


def test_a_row_without_the_column_is_refused() -> None:
    find = locator(numbered("hash", 2, by="`A`"), table(a="int"))
    assert find({"A": 3}) == "p1"
    with pytest.raises(ValueProblem, match="'a'"):
        find({"b": 3})
