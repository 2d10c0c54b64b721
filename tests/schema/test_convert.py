"""What DDL makes of rows: against the true tables before and after, and against what TiDB's own
tests of column type changes state."""

import base64
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import GOLDEN, open_lines, records
from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import Column, ColumnType, RowChange, SchemaChange
from ticdc_assets.events.row_image import load
from ticdc_assets.events.tso import compose
from ticdc_assets.protocols.simple.json import SimpleJsonDecoder
from ticdc_assets.schema.conversion.convert import backfill, convert_value
from ticdc_assets.schema.types.mysql_type import TYPES, parse_type
from ticdc_assets.schema.types.value import Value
from ticdc_assets.schema.types.value_reader import read_value
from ticdc_assets.schema.types.value_writer import write_value

Row = dict[str, str | None]
Key = tuple[str | None, ...]


class Window(NamedTuple):
    """A table with a key at two truth points, and the row messages it got between them."""

    before: dict[str, Any]
    after: dict[str, Any]
    changes: list[RowChange]

    @property
    def key(self) -> list[str]:
        names: list[str] = self.before["primary_key"]
        return names

    def of(self, row: Row) -> Key:
        return tuple(row.get(name) for name in self.key)

    def images(self) -> Iterator[tuple[int, Row]]:
        for change in self.changes:
            for image in (change.before, change.after):
                if image is not None:
                    yield change.commit_ts, load(image)


@cache
def events(workload: str) -> tuple[list[RowChange], list[SchemaChange]]:
    rows: list[RowChange] = []
    changes: list[SchemaChange] = []
    decoder = SimpleJsonDecoder(tz=ZoneInfo("UTC"))
    for message in records(f"{workload}/simple-json"):
        for event in decoder.decode(message):
            if isinstance(event, RowChange):
                rows.append(event)
            elif isinstance(event, SchemaChange):
                changes.append(event)
    return rows, changes


@cache
def windows(workload: str) -> list[Window]:
    """Give the windows in which a table's columns changed."""
    points = defaultdict(list)
    for line in open_lines(GOLDEN / workload / "truth.jsonl"):
        points[line["table_id"]].append(line)
    found = []
    for lines in points.values():
        for before, after in pairwise(sorted(lines, key=lambda line: int(line["at_ts"]))):
            if before["primary_key"] and before["columns"] != after["columns"]:
                # Rows of partitioned tables carry the partition's id, renamed tables keep theirs.
                names = {(line["schema"], line["table"]) for line in (before, after)}
                changes = [
                    change
                    for change in events(workload)[0]
                    if before["at_ts"] < change.commit_ts <= after["at_ts"]
                    and ((change.database, change.table) in names or _same_id(change, before))
                ]
                found.append(Window(before, after, changes))
    return found


def _same_id(change: RowChange, line: dict[str, Any]) -> bool:
    return change.table_id == int(line["table_id"])


def _rows(line: dict[str, Any]) -> list[Row]:
    names = [column["name"] for column in line["columns"]]
    return [dict(zip(names, row, strict=True)) for row in line["rows"]]


def _columns(line: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {column["name"]: column for column in line["columns"]}


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        ("lifecycle", {"int varchar", "decimal decimal", "varchar enum", "int bigint"}),
        ("random_1", {"mediumint varchar", "varchar text", "int bigint"}),
    ],
)
def test_rows_nobody_touched_are_converted_as_upstream_did(
    workload: str, expected: set[str]
) -> None:
    seen = set()
    for window in windows(workload):
        touched = {window.of(row) for _, row in window.images()}
        rows_after = {window.of(row): row for row in _rows(window.after)}
        old, new = _columns(window.before), _columns(window.after)
        for name in old.keys() & new.keys():
            source, target = (parse_type(c[name]["mysql_type"]) for c in (old, new))
            for row in _rows(window.before):
                identity = window.of(row)
                if source != target and identity not in touched and identity in rows_after:
                    value = read_value(row[name], source, member_names=True)
                    text = write_value(convert_value(value, source, target), target)
                    assert text == rows_after[identity][name]
                    seen.add(f"{source.name} {target.name}")
    assert expected <= seen


@pytest.mark.parametrize(("workload", "least"), [("types", 10), ("lifecycle", 3), ("random_1", 5)])
def test_old_rows_hold_the_default_of_a_new_column(workload: str, least: int) -> None:
    filled = set()
    for table_id, column, added_ts in _added_columns(workload):
        for window in windows(workload):
            if int(window.before["table_id"]) == table_id and (
                window.before["at_ts"] < added_ts <= window.after["at_ts"]
            ):
                value = write_value(backfill(column, added_ts), column.type)
                for text in _texts_of_old_rows(window, column, added_ts):
                    assert text == value
                    filled.add(column.name)
    assert len(filled) >= least


def _texts_of_old_rows(window: Window, column: Column, added_ts: int) -> Iterator[str | None]:
    """Say what rows older than a column hold in it, as later messages or the truth have it."""
    first: dict[Key, RowChange] = {}
    for change in window.changes:
        if change.commit_ts > added_ts:
            image = change.before or change.after
            assert image is not None
            first.setdefault(window.of(load(image)), change)
    rows_after = {window.of(row): row for row in _rows(window.after)}
    for identity in map(window.of, _rows(window.before)):
        if identity not in first:
            if identity in rows_after and column.name in rows_after[identity]:
                yield rows_after[identity][column.name]
        elif image := first[identity].before:
            # The first change of an old row says what TiDB took it to hold.
            texts = load(image)
            if column.name in texts:  # not renamed or dropped meanwhile
                yield write_value(read_value(texts[column.name], column.type), column.type)


def _added_columns(workload: str) -> Iterator[tuple[int, Column, int]]:
    """Find the columns that tables have from some DDL on, renamed ones left out."""
    known: dict[int, set[str]] = {}
    for change in sorted(events(workload)[1], key=lambda change: change.commit_ts):
        if change.schema is None or change.schema.table_id is None:
            continue
        table_id, columns = change.schema.table_id, change.schema.columns
        names = {column.name for column in columns}
        for column in columns:
            renamed = f" TO `{column.name}`" in change.sql or " CHANGE COLUMN " in change.sql
            if column.name not in known.get(table_id, names) and not renamed:
                yield table_id, column, change.commit_ts
        known[table_id] = names


# (value, from, to, the text it becomes), each a result of TiDB's own tests unless marked.
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

# The same, from the rules of TiDB's `pkg/types`.
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
    # what does not fit is clipped
    ("300", "int", "tinyint", "127"),
    ("-300", "int", "bigint unsigned", "0"),
    ("1e300", "double", "float", "34028235" + "0" * 31),
    ("1e999999999", "varchar(20)", "decimal(5,2)", "999.99"),
    ("-1", "bigint", "bit(8)", "255"),
    ("300", "bit(9)", "bit(8)", "255"),
    ("-1.5", "decimal(2,1)", "decimal(2,1) unsigned", "0.0"),
    ("abc", "varchar(20)", "double", "0"),
    # FLOAT goes on as its DOUBLE value
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
def test_a_value_is_converted_as_tidb_does(text: str, old: str, new: str, expected: str) -> None:
    source, target = parse_type(old), parse_type(new)
    image = (
        base64.b64encode(text.encode()).decode() if TYPES[source.name].kind == "binary" else text
    )
    value = read_value(image, source, member_names=True)
    assert write_value(convert_value(value, source, target), target) == expected


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
def test_what_nobody_can_know_is_a_problem(text: str, old: str, new: str) -> None:
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
def test_a_converted_value_is_one_that_its_new_type_holds(
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
def test_null_stays_null(old: str, new: str) -> None:
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


COMMIT_TS = compose(1_714_564_805_678)  # 2024-05-01 12:00:05.678 UTC

# (type, nullable, default, is an expression) to the text that rows get.
DEFAULTS = [
    (("int", True, None, False), None),
    (("int", False, None, False), "0"),
    (("decimal(5,2)", False, None, False), "0.00"),
    (("double", False, None, False), "0"),
    (("bit(4)", False, None, False), "0"),
    (("year", False, None, False), "2000"),
    (("date", False, None, False), "0000-00-00"),
    (("datetime(2)", False, None, False), "0000-00-00 00:00:00.00"),
    (("time(2)", False, None, False), "00:00:00.00"),
    (("char(3)", False, None, False), ""),
    (("binary(3)", False, None, False), "000000"),
    (("varbinary(3)", False, None, False), ""),
    (("blob", False, None, False), ""),
    (("enum('x','y')", False, None, False), "x"),
    (("set('x','y')", False, None, False), ""),
    (("json", False, None, False), "null"),
    (("int", True, "2.5", False), "3"),
    (("decimal(10,3)", True, "1.5", False), "1.500"),
    (("float", True, "1e2", False), "100"),
    (("bit(8)", True, "10", False), "10"),
    (("datetime(3)", True, "2024-01-01 00:00:00", False), "2024-01-01 00:00:00.000"),
    (("timestamp", True, "2024-01-01", False), "2024-01-01 00:00:00"),
    (("time", True, "1:2:3", False), "01:02:03"),
    (("char(5)", True, "ab ", False), "ab"),
    (("binary(3)", True, "YQ==", False), "610000"),
    (("varbinary(8)", True, "AP8=", False), "00efbfbd"),
    (("enum('2','1')", True, "1", False), "1"),
    (("enum('x','y')", True, "2", False), "y"),
    (("set('x','y')", True, "y,x", False), "x,y"),
    (("year", True, "99", False), "1999"),
    (("datetime(0)", True, "CURRENT_TIMESTAMP", True), "2024-05-01 12:00:05"),
    (("timestamp(2)", True, "current_timestamp(2)", True), "2024-05-01 12:00:05.67"),
    (("timestamp(6)", True, "NOW(6)", True), "2024-05-01 12:00:05.678000"),
    (("datetime", True, "CURRENT_TIMESTAMP(1)", False), "2024-05-01 12:00:05.6"),
    (("date", True, "(CURRENT_DATE)", True), "2024-05-01"),
    (("varchar(30)", True, "CURRENT_TIMESTAMP", False), "CURRENT_TIMESTAMP"),
]


@pytest.mark.parametrize(("declared", "expected"), DEFAULTS)
def test_old_rows_get_what_the_declaration_says(
    declared: tuple[str, bool, str | None, bool], expected: str | None
) -> None:
    type_text, nullable, default, is_expression = declared
    column = Column("c", parse_type(type_text), nullable, default, is_expression)
    assert write_value(backfill(column, COMMIT_TS), column.type) == expected


def test_an_expression_that_only_upstream_can_evaluate_is_a_problem() -> None:
    with pytest.raises(InvalidValue):
        backfill(
            Column("c", ColumnType("varchar"), default="uuid()", default_is_expression=True), 0
        )
    with pytest.raises(InvalidValue):
        backfill(Column("c", ColumnType("int"), generated="stored"), 0)
