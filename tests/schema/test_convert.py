"""Conversion of values between types, compared with the results of TiDB's own tests."""

import base64
from datetime import UTC
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.errors import InvalidValue
from ticdc_assets.schema.conversion.convert import convert_value
from ticdc_assets.schema.types.mysql_type import TYPES, parse_type
from ticdc_assets.schema.types.value import Value
from ticdc_assets.schema.types.value_reader import read_value
from ticdc_assets.schema.types.value_writer import write_value

# (text, old type, new type, converted text), from TiDB's own tests of column type changes.
TIDB = [
    ("-258.1234500", "decimal(13,7)", "int", "-258"),
    ("323232323.32323235", "double", "int", "323232323"),
    ("-111.111115", "float", "tinyint", "-111"),
    ("-222222222222.22223", "double", "bigint", "-222222222222"),
    ("21", "bit(5)", "tinyint", "21"),
    ("333.33", "decimal(5,2)", "bigint unsigned", "333"),
    ("-258.1234500", "decimal(13,7)", "char(20)", "-258.1234500"),
    ("2000000.20000002", "double", "varchar(30)", "2000000.20000002"),
    ("-111.111115", "float", "varchar(30)", "-111.111115"),
    ("21", "bit(5)", "varchar(30)", "21"),
    ("333.33", "decimal(5,2)", "binary(10)", b"333.33\0\0\0\0".hex()),
    ("1111", "int", "varbinary(10)", b"1111".hex()),
    ("1", "tinyint", "decimal(2,1)", "1.0"),
    ("11", "smallint", "year", "2011"),
    ("111", "mediumint", "time", "00:01:11"),
    ("1111", "int", "date", "2000-11-11"),
    ("111111", "bigint", "datetime", "2011-11-11 00:00:00"),
    ("111", "mediumint", "bit(10)", "111"),
    ("1111", "int", "json", "1111"),
    ("1", "tinyint", "enum('a','b')", "a"),
    ("1", "smallint", "set('a','b')", "a"),
    ("200805.1100000", "decimal(13,7)", "time", "20:08:05"),
    ("307.33", "decimal(5,2)", "time", "00:03:07"),
    ("20200805111307.11", "double", "time", "11:13:07"),
    ("200805100000", "float", "time", "10:00:00"),
    ("2.55555", "double(20,12)", "year", "2003"),
    ("98.1111111", "double(32,11)", "year", "1998"),
    ("2154", "float", "year", "2154"),
    ("21", "bit(5)", "year", "2021"),
    ("-258.1234500", "decimal(13,7)", "json", "-258.12345"),
    ("-111.111115", "float", "json", "-111.11111450195312"),
    ("21", "bit(5)", "json", '"\\u0015"'),
    ("2020-10-30", "date", "int", "20201030"),
    ("19:38:25.001", "time(3)", "int", "193825"),
    ("2020-10-30 08:21:33.455555", "datetime(6)", "bigint", "20201030082133"),
    ("19:38:25.001", "time(3)", "decimal(10,4)", "193825.0010"),
    ("2020-10-30 08:21:33.455555", "timestamp(6)", "decimal(22,8)", "20201030082133.45555500"),
    ("2020-10-30 08:21:33.455555", "datetime(6)", "double(20,6)", "20201030082133.457"),
    ("2020", "year", "char(30)", "2020"),
    ("2020-10-30 08:21:33.455555", "datetime(6)", "json", '"2020-10-30 08:21:33.455555"'),
    ("2020-10-30", "date", "json", '"2020-10-30"'),
    ("true", "json", "tinyint", "1"),
    ("323232323.32323235", "json", "int", "323232323"),
    ("323232323.32323235", "json", "decimal(20,10)", "323232323.3232323500"),
    ("false", "json", "decimal(20,10)", "0.0000000000"),
    ('"json string"', "json", "char(20)", '"json string"'),
    ("[-1, 0, 1]", "json", "binary(12)", b"[-1, 0, 1]\0\0".hex()),
    ("17305", "char(8)", "int", "17305"),
    ("123\0\0\0\0\0", "binary(8)", "tinyint", "123"),
    ("str", "enum('123','str')", "tinyint", "2"),
    ("123,str", "set('123','x','str')", "bigint", "5"),
    ("123", "enum('123','str')", "bit(1)", "1"),
    ("123.45", "varchar(8)", "decimal(7,4)", "123.4500"),
    ("123.45", "blob", "double(7,4)", "123.45"),
    ("20200826", "char(8)", "date", "2020-08-26"),
    ("2008261", "varchar(8)", "date", "2020-08-26"),
    ("200826", "varbinary(8)", "date", "2020-08-26"),
    ("19:35:41.45678", "text", "time", "19:35:41"),
    ("2020-07-15 18:32:17.888", "text", "datetime", "2020-07-15 18:32:18"),
    ("2020-07-15 18:32:17.888", "binary(23)", "timestamp", "2020-07-15 18:32:18"),
    ("91", "varchar(8)", "year", "1991"),
    ("2\0\0\0\0\0\0\0", "binary(8)", "year", "2002"),
    ("20200915110836", "varchar(20)", "time", "11:08:36"),
    ('{"k1": "value"}', "varbinary(15)", "json", '{"k1": "value"}'),
    ("aaa   ", "varchar(10)", "char(10)", "aaa"),
]

# The same, derived from the rules of TiDB's `pkg/types`.
RULES = [
    # float to integer: half to even; decimal and text to integer: half away from zero
    ("2.5", "double", "int", "2"),
    ("-3.5", "double", "int", "-4"),
    ("2.5", "decimal(3,1)", "int", "3"),
    ("-2.5", "decimal(3,1)", "int", "-3"),
    (" 1.5e1xyz", "varchar(20)", "int", "15"),
    ("-2.5", "varchar(20)", "bigint", "-3"),
    ("1.005", "decimal(4,3)", "decimal(4,2)", "1.01"),
    ("99.99", "decimal(4,2)", "decimal(3,1)", "99.9"),
    # out-of-range values are clipped
    ("300", "int", "tinyint", "127"),
    ("-300", "int", "bigint unsigned", "0"),
    ("1e300", "double", "float", "34028235" + "0" * 31),
    ("1e999999999", "varchar(20)", "decimal(5,2)", "999.99"),
    ("-1", "bigint", "bit(8)", "255"),
    ("300", "bit(9)", "bit(8)", "255"),
    ("-1.5", "decimal(2,1)", "decimal(2,1) unsigned", "0.0"),
    ("abc", "varchar(20)", "double", "0"),
    # FLOAT converts through its DOUBLE value
    ("0.1", "float", "double", "0.10000000149011612"),
    ("0.1", "float", "decimal(20,10)", "0.1000000015"),
    ("0.1", "float", "varchar(20)", "0.1"),
    ("1e16", "double", "varchar(30)", "10000000000000000"),
    ("1.005", "double", "double(5,2)", "1"),
    # dates and times
    ("2024-01-01 23:59:59.9", "datetime(1)", "date", "2024-01-01"),
    ("2024-12-31 23:59:59.999500", "datetime(6)", "datetime(3)", "2025-01-01 00:00:00.000"),
    ("2024-01-01", "date", "datetime(3)", "2024-01-01 00:00:00.000"),
    ("2024-01-01 01:02:03.5", "datetime(1)", "time(0)", "01:02:04"),
    ("2024-01-01 01:02:59.5", "datetime(1)", "bigint", "20240101010300"),
    ("2024-01-01 01:02:59.5", "datetime(1)", "bigint unsigned", "20240101010260"),
    ("-00:00:01.5", "time(1)", "time(0)", "-00:00:01"),
    ("-00:00:00.5", "time(1)", "time(0)", "00:00:00"),
    ("01:02:03", "time", "time(2)", "01:02:03.00"),
    ("0000-00-00 00:00:00", "datetime", "timestamp(2)", "0000-00-00 00:00:00.00"),
    ("1969-12-31", "date", "timestamp", "0000-00-00 00:00:00"),
    ("2024-01-01", "date", "year", "2024"),
    ("2024-01-01T10:00:00+08:00", "varchar(40)", "datetime", "2024-01-01 02:00:00"),
    ("24-1-2 3:4:5.99999995", "varchar(40)", "datetime(6)", "2024-01-02 03:04:06.000000"),
    ("-1 02:03:04.55", "varchar(40)", "time(1)", "-26:03:04.6"),
    ("12:30", "varchar(40)", "time", "12:30:00"),
    ("0", "varchar(40)", "year", "2000"),
    ("0", "int", "year", "0"),
    # texts and bytes
    ("a  ", "varchar(9)", "char(2)", "a"),
    ("äöü", "varchar(9)", "varchar(2)", "äö"),
    ("ä" * 200, "varchar(300)", "tinytext", "ä" * 127),
    ("ä", "varchar(9)", "binary(4)", "c3a40000"),
    # TiDB changes only the type of what is not longer by its own measure: it writes no rows.
    ("ä" * 200, "varchar(255)", "tinytext", "ä" * 200),
    ("ä" * 200, "char(255)", "tinytext", "ä" * 200),
    ("a  ", "tinytext", "char(255)", "a  "),
    ("a  ", "tinytext", "char(254)", "a"),
    ("ab", "tinyblob", "binary(255)", "6162"),
    ("ab", "tinyblob", "binary(3)", "616200"),
    ("ab", "binary(2)", "binary(3)", "616200"),
    ("1.234567", "float", "float(12,2)", "1.234567"),
    ("1.234567", "float", "float(11,2)", "1.23"),
    ("1.234567", "double", "double(22,2)", "1.234567"),
    ("1.234567", "double", "double(21,2)", "1.23"),
    ("1.234", "double(9,3)", "double(30,2)", "1.23"),
    ("-1.234567", "double", "double(30,2) unsigned", "0"),
    ("1.005", "float", "double(30,2)", "1"),
    ("B", "varchar(9)", "enum('a','b')", "b"),
    ("2", "varchar(9)", "enum('a','b')", "b"),
    ("zzz", "varchar(9)", "enum('a','b')", ""),
    ("b,a", "varchar(9)", "set('a','b')", "a,b"),
    ("3", "varchar(9)", "set('a','b')", "a,b"),
    ("a", "enum('a','b')", "set('b','a')", "a"),
    ("b", "enum('a','b')", "enum('a','b','c')", "b"),
    # JSON
    ('{"b":1,"a":[1.0,2e2],"a":[true,null]}', "text", "json", '{"a": [true, null], "b": 1}'),
    ('"\\u2028<\\/&\\u0001"', "text", "json", '"\\u2028</&\\u0001"'),
    ('["\\u4e2d", 1.50, 1e20, 1e15, -0.0, 12345678901234567890, 0.00001]', "text", "json",
     '["中", 1.5, 1e20, 1e15, -0.0, 12345678901234567890, 0.00001]'),
    ("2.00", "decimal(5,2)", "json", "2.0"),
    ("2", "float", "json", "2.0"),
    ("01:02:03", "time", "json", '"01:02:03.000000"'),
]  # fmt: skip


@pytest.mark.parametrize(("text", "old", "new", "expected"), [*TIDB, *RULES])
def test_values_are_converted_as_tidb_converts_them(
    text: str, old: str, new: str, expected: str
) -> None:
    source, target = parse_type(old), parse_type(new)
    image = (
        base64.b64encode(text.encode()).decode() if TYPES[source.name].kind == "binary" else text
    )
    value = read_value(image, source, member_names=True)
    assert write_value(convert_value(value, source, target, UTC), target) == expected


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("01:00:00", "time", "datetime"),
        ("2024-01-01", "date", "bit(8)"),
        ("1.5", "decimal(2,1)", "date"),
        ("1", "json", "enum('1')"),
        ("[1]", "vector", "varchar(9)"),
        ("08-26 19:35:41", "text", "date"),
        ("2024-02-30", "text", "date"),
        ("no date", "text", "timestamp"),
        ("99:99:99", "text", "time"),
        ("{", "text", "json"),
        ("{}x", "text", "json"),
        ("[" * 100_000, "text", "json"),
    ],
)
def test_an_unsupported_conversion_or_an_unreadable_text_raises(
    text: str, old: str, new: str
) -> None:
    source = parse_type(old)
    with pytest.raises(InvalidValue):
        convert_value(read_value(text, source, member_names=True), source, parse_type(new))


TYPE_TEXTS = [
    *("tinyint", "smallint unsigned", "bigint", "bigint unsigned", "float", "double(10,3)"),
    *("double", "decimal(10,2)", "decimal(65,30) unsigned", "bit(8)", "bit(64)", "year", "date"),
    *("datetime", "datetime(3)", "timestamp(6)", "time", "time(4)", "char(5)", "varchar(3)"),
    *("text", "tinytext", "binary(4)", "varbinary(10)", "blob", "enum('a','b','')", "json"),
    *("set('a','b')", "vector"),
]
TEXTS = st.text() | st.from_regex(r"[-+]?[0-9]{0,30}([-.:/ T][0-9]{1,30}){0,7}(e-?[0-9]{1,12})?")


@given(TEXTS, st.sampled_from(TYPE_TEXTS), st.sampled_from(TYPE_TEXTS), st.sampled_from(TYPE_TEXTS))
def test_a_converted_value_is_valid_in_its_new_type(
    text: str, first: str, second: str, third: str
) -> None:
    value: Value = text
    old = parse_type("longtext")
    for new in map(parse_type, (first, second, third)):
        try:
            value = convert_value(value, old, new)
        except InvalidValue:
            return
        written = base64.b64encode(value).decode() if isinstance(value, bytes) else None
        image = written if written is not None else write_value(value, new)
        assert repr(read_value(image, new, member_names=True)) == repr(value)
        old = new


@given(st.sampled_from(TYPE_TEXTS), st.sampled_from(TYPE_TEXTS))
def test_null_converts_to_null(old: str, new: str) -> None:
    try:
        assert convert_value(None, parse_type(old), parse_type(new)) is None
    except InvalidValue:
        assert old != new


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, max_value=10**30))
def test_decimal_rounding_is_exact(number: Decimal) -> None:
    wide, narrow = parse_type("decimal(65,10)"), parse_type("decimal(65,2)")
    value = convert_value(number, wide, narrow)
    assert isinstance(value, Decimal)
    assert abs(value - number) * 1000 <= 5
