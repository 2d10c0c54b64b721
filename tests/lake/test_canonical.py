"""The canonical text of a value: what the server computes is what this project computes."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from hashlib import md5
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sql_server import SqlServer
from tests.tidb_server import Tidb
from ticdc_assets.events import Column, TableSchema
from ticdc_assets.resources.upstream import UpstreamDatabase
from ticdc_assets.rows.columns import list_delta_columns
from ticdc_assets.schema.types.float_text import round_to_float32
from ticdc_assets.schema.types.mysql_type import parse_type
from ticdc_assets.verify.canonical import (
    ComparedColumn,
    format_canonical,
    hash_values,
    make_canonical,
    shorten,
)
from ticdc_assets.verify.upstream_sql import HashSql

Values = st.SearchStrategy[Any]


def compared(declared: str, charset: str | None = None) -> ComparedColumn:
    type = parse_type(declared)
    column = Column("v", type)
    (delta,) = list_delta_columns(TableSchema("d", "t", (column,)))
    return ComparedColumn("v", type, delta, type)


def integers(bits: int, signed: bool = True) -> Values:
    low = -(1 << (bits - 1)) if signed else 0
    return st.integers(low, low + (1 << bits) - 1)


def moments(places: int, first: datetime, last: datetime) -> Values:
    seconds = int((last - first).total_seconds())
    return st.builds(
        lambda at, part: (
            (first + timedelta(seconds=at)).isoformat(" ")
            + (f".{part:0{places}d}" if places else "")
        ),
        st.integers(0, seconds),
        st.integers(0, 10**places - 1),
    )


def times(places: int) -> Values:
    return st.builds(
        lambda sign, hours, rest, part: (
            f"{sign}{hours:02d}:{rest // 60:02d}:{rest % 60:02d}"
            + (f".{part:0{places}d}" if places else "")
        ),
        st.sampled_from(["", "-"]),
        st.integers(1, 837),
        st.integers(0, 3599),
        st.integers(0, 10**places - 1),
    )


def decimals(digits: int, places: int) -> Values:
    most = 10**digits - 1
    return st.integers(-most, most).map(
        lambda n: f"{'-' * (n < 0)}{abs(n) // 10**places}.{abs(n) % 10**places:0{places}d}"
    )


def texts(charset: str) -> Values:
    return st.text(st.characters(codec=charset, exclude_characters="\0"), max_size=40).map(
        lambda text: text.rstrip(" ")
    )


FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
FIRST = datetime(1000, 1, 1)
LAST = datetime(9999, 12, 31, 23, 59, 59)
POWERS = st.builds(lambda e, s: s * 2.0**e, st.integers(-1074, 1023), st.sampled_from([1, -1]))
# Each type, its values as they are inserted, and what MySQL prints of one.
CASES: list[tuple[str, Values, Any]] = [
    ("tinyint", integers(8), str),
    ("smallint unsigned", integers(16, False), str),
    ("mediumint", integers(24), str),
    ("int(10) unsigned zerofill", integers(32, False), str),
    ("bigint", integers(64), str),
    ("bigint unsigned", integers(64, False), str),
    ("bit(1)", integers(1, False), str),
    ("bit(64)", integers(64, False), str),
    ("year", st.one_of(st.just(0), st.integers(1901, 2155)), str),
    (
        "decimal(10,2) unsigned zerofill",
        st.integers(0, 10**10 - 1).map(lambda n: Decimal(n) / 100),
        lambda n: format(n, ".2f"),
    ),
    ("decimal(65,30)", decimals(65, 30), str),
    ("double", st.one_of(DOUBLES, POWERS), repr),
    ("float", FLOATS, repr),
    ("date", st.dates(date(1000, 1, 1)), str),
    ("date", st.sampled_from(["0000-00-00", "2024-00-10", "2024-02-00", "0001-01-01"]), str),
    ("datetime", moments(0, FIRST, LAST), str),
    ("datetime(3)", moments(3, FIRST, LAST), str),
    ("datetime(6)", st.sampled_from(["0000-00-00 00:00:00.000000"]), str),
    ("timestamp(6)", moments(6, datetime(1971, 1, 1), datetime(2038, 1, 1)), str),
    ("time(2)", times(2), str),
    ("time", times(0), str),
    ("varchar(40)", texts("utf-8"), str),
    ("varchar(40) character set latin1", st.text("az éüÿ¡\\").map(str.rstrip), str),
    ("text character set gbk", texts("gbk"), str),
    ("char(40) character set utf16", texts("utf-8"), str),
    ("longtext", texts("utf-8"), str),
    ("varbinary(40)", st.binary(max_size=40), bytes.hex),
    ("binary(4)", st.binary(max_size=4), lambda value: value.ljust(4, b"\0").hex()),
    ("blob", st.binary(max_size=40), bytes.hex),
    ("enum('a','b,c','é''s','')", st.sampled_from(["a", "b,c", "é's", ""]), str),
    (
        "set('a','é','c d')",
        st.sets(st.sampled_from(["a", "é", "c d"])),
        lambda names: ",".join(name for name in ("a", "é", "c d") if name in names),
    ),
    ("json", st.sampled_from(['{"a": [1.5, null], "b": 1}', '"é"', "[]"]), str),
]


@pytest.fixture(scope="module", params=["mariadb", "tidb"])
def columns(request: pytest.FixtureRequest) -> SqlServer:
    server: SqlServer = request.getfixturevalue(request.param)
    server.run("CREATE DATABASE canonical")
    return server


@pytest.mark.parametrize(
    ("declared", "values", "write"), CASES, ids=[f"{n} {case[0]}" for n, case in enumerate(CASES)]
)
def test_the_server_computes_the_text_and_the_hash_that_we_compute(
    columns: SqlServer, declared: str, values: Values, write: Any
) -> None:
    column = compared(declared)
    is_tidb = isinstance(columns, Tidb)
    if is_tidb and "utf16" in declared:
        # MariaDB, which has it, computes the same case.
        pytest.skip("TiDB has no such charset")
    sql = HashSql(is_tidb=is_tidb)
    database = UpstreamDatabase("f", columns.upstream)

    # A table for each example: few of them, with many values.
    @settings(max_examples=2)
    @given(st.lists(values, min_size=10, max_size=100))
    def compare(chosen: Sequence[Any]) -> None:
        columns.run(
            "DROP TABLE IF EXISTS canonical.t",
            f"CREATE TABLE canonical.t (n INT PRIMARY KEY AUTO_INCREMENT, v {declared})"
            " CHARSET utf8mb4 ENGINE MyISAM",
            (
                "INSERT INTO canonical.t (v) VALUES " + ", ".join(["(%s)"] * len(chosen)),
                [",".join(value) if isinstance(value, set) else value for value in chosen],
            ),
            "INSERT INTO canonical.t (v) VALUES (NULL)",
        )
        with database.open_snapshot(columns.now() if is_tidb else 0) as upstream:
            texts = f"{sql.write_canonical(column)}, {sql.write_shown(column)}"
            found = upstream.query(
                f"SELECT {texts}, {sql.write_hash([column])} FROM canonical.t ORDER BY n"
            )
        expected = [make_canonical(write(value), column.type) for value in chosen] + [None]
        if declared.startswith("timestamp"):
            # A TIMESTAMP that is NULL in an INSERT may be the present.
            found, expected = found[:-1], expected[:-1]
        assert [text for text, _, _ in found] == expected
        assert [shown for _, shown, _ in found] == [shorten(text, column) for text in expected]
        assert [int(hash or 0) for *_, hash in found] == [
            hash_values([text], [column]) for text in expected
        ]

    compare()


def test_a_float_is_its_mantissa_and_exponent_and_people_see_its_number() -> None:
    double, single = compared("double"), compared("float")
    assert make_canonical("0.1", double.type) == b"7205759403792794p-4"
    assert make_canonical("0.1", single.type) == b"7205759511166976p-4"
    assert make_canonical("-5e-324", double.type) == b"-4503599627370496p-1074"
    assert make_canonical("-0.0", double.type) == b"0"
    assert format_canonical(b"7205759403792794p-4", double) == "0.1"
    assert round_to_float32(0.1) == float(format_canonical(b"7205759511166976p-4", single) or "")


def test_no_two_rows_have_the_same_text() -> None:
    columns = [compared("varchar(20)"), compared("varchar(20)"), compared("text")]
    rows: list[list[bytes | None]] = [
        [b"a", b"b", None],
        [b"a,1:b", None, None],
        [None, b"a", b"b"],
        [b"a", b"", b"b"],
        [b"a", None, b"b"],
        [b"~", b"a", b"b"],
        [b"", b"", b"~"],
        [b"", b"", None],
    ]
    assert len({hash_values(row, columns) for row in rows}) == len(rows)


def test_a_long_value_is_read_as_its_md5() -> None:
    column = compared("blob")
    assert shorten(b"x" * 4096, column) == b"x" * 4096
    assert shorten(b"x" * 4097, column) == b"md5:" + md5(b"x" * 4097).hexdigest().encode()
