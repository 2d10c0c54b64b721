"""Partition expressions evaluate as in MySQL, or are unsupported."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.schema.partition.partitionings import evaluates_to, lists, moments, ranges, table
from ticdc_assets.errors import UnsupportedDdl
from ticdc_assets.schema.ddl_context import DdlContext
from ticdc_assets.schema.partition.locate import make_locator


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
def test_arithmetic_matches_mysql(first: str, chain: list[tuple[str, str]], a: int, b: int) -> None:
    sql = first + "".join(f" {'DIV' if op == '/' else op} {term}" for op, term in chain)
    python = first + "".join(f" {'//' if op == '/' else op} {term}" for op, term in chain)
    names = {"a": Truncating(a), "b": Truncating(b), "n": Truncating}
    python = "".join(f"n({c})" if c.isdigit() else c for c in python)
    try:
        expected = eval(python, names).value
    except ArithmeticError:
        expected = None
    assert evaluates_to(sql, expected, {"a": a, "b": b}, a="int", b="int")


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
        assert evaluates_to(expression, result, row, **types), expression


@given(st.integers(1, 2**31 - 1), st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_unix_timestamps_use_utc_for_rows_and_the_session_time_zone_for_bounds(
    seconds: int, millis: int
) -> None:
    at = datetime.fromtimestamp(seconds, UTC)
    row = {"ts": f"{at:%Y-%m-%d %H:%M:%S}.{millis:03}"}
    schema = table(ts="timestamp(3)")
    find = make_locator(lists([str(seconds)], by="FLOOR(UNIX_TIMESTAMP(ts))"), schema)
    assert find(row) == "p0"
    zone = ZoneInfo("Asia/Tokyo")
    local = at.astimezone(zone)
    cut = ranges(
        f"UNIX_TIMESTAMP('{local:%Y-%m-%d %H:%M:%S}')", "MAXVALUE", by="UNIX_TIMESTAMP(ts)"
    )
    plain = table(ts="timestamp")
    with pytest.raises(UnsupportedDdl, match="ddl-time-zone"):
        make_locator(cut, plain)
    find = make_locator(cut, plain, DdlContext(zone))
    assert find({"ts": f"{at:%Y-%m-%d %H:%M:%S}"}) == "p1"
    assert find({"ts": f"{at - timedelta(seconds=1):%Y-%m-%d %H:%M:%S}"}) == "p0"


def test_zero_dates_have_parts_but_no_day_number() -> None:
    zero = {"d": "0000-00-00", "x": "2024-00-10 00:00:00", "ts": "0000-00-00 00:00:00"}
    types = {"d": "date", "x": "datetime", "ts": "timestamp"}
    for expression in ("TO_DAYS(d)", "TO_SECONDS(x)", "WEEKDAY(d)", "YEARWEEK(d)", "DATEDIFF(d,d)"):
        assert evaluates_to(expression, None, zero, **types)
    assert evaluates_to("YEAR(d) + MONTH(x) + QUARTER(x)", 0, zero, **types)
    assert evaluates_to("YEAR(x) + DAY(x)", 2034, zero, **types)
    assert evaluates_to("UNIX_TIMESTAMP(ts)", 0, zero, **types)
    assert evaluates_to("TO_DAYS(d)", 1, {"d": "0000-01-01"}, d="date")


def test_time_and_number_functions_match_mysql() -> None:
    row = {"t": "-100:59:58.25", "n": Decimal("-1.50"), "i": -7, "none": None}
    types = {"t": "time(2)", "n": "decimal(5,2)", "i": "int", "none": "int"}
    assert evaluates_to("HOUR(t)", 100, row, **types)
    assert evaluates_to("TIME_TO_SEC(t)", -(100 * 3600 + 59 * 60 + 58), row, **types)
    assert evaluates_to("EXTRACT(HOUR_SECOND FROM t)", -1005958, row, **types)
    assert evaluates_to("FLOOR(n)", -2, row, **types)
    assert evaluates_to("CEILING(n) + CEIL(n) + FLOOR(ABS(n))", -1, row, **types)
    assert evaluates_to("MOD(ABS(i), 4)", 3, row, **types)
    assert evaluates_to("i MOD 4", -3, row, **types)
    assert evaluates_to("i DIV 0", None, row, **types)
    assert evaluates_to("none * 2 + ABS(none)", None, row, **types)


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
def test_an_unknown_expression_is_unsupported(expression: str) -> None:
    schema = table(a="int", t="varchar(9)", d="date", ts="timestamp", ts3="timestamp(3)")
    with pytest.raises(UnsupportedDdl):
        make_locator(ranges("MAXVALUE", by=expression), schema)
