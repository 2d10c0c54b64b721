"""DEFAULT clauses, and strings as users type them and as TiDB prints them."""

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schema.reading import columns
from ticdc_assets.events import Column, ColumnType
from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.default import convert_default
from ticdc_assets.schema.ddl.reader import read_ddl
from ticdc_assets.schema.types.value_reader import read_value


def column(definition: str) -> Column:
    (column,) = columns(f"c {definition}")
    return column


def base64(data: bytes) -> str:
    return b64encode(data).decode()


LITERALS = [
    ("int default null", None),
    ("int default 5", "5"),
    ("int default -5", "-5"),
    ("int default + 5", "5"),
    ("int default (-5)", "-5"),
    ("int default '5'", "5"),
    ("int default true", "1"),
    ("int default FALSE", "0"),
    ("int default 0x1F", "31"),
    ("int default b'101'", "5"),
    ("int default 1.5", "2"),
    ("bigint unsigned default 18446744073709551615", "18446744073709551615"),
    ("decimal(10,2) default 1.25", "1.25"),
    ("decimal(10,2) default -.125", "-0.13"),
    ("decimal(10,2) default 1e1", "10"),
    ("double default 1.5e3", "1.5e3"),
    # A number with an exponent is a DOUBLE first: half of one rounds to even, and names a member.
    ("bigint default 2.5e+00", "2"),
    ("bigint default -3.5e0", "-4"),
    ("bigint default 2.5", "3"),
    ("bigint default '2.5e0'", "3"),
    ("bigint unsigned default 9007199254740993e0", "9007199254740992"),
    ("decimal(10,2) default 1.125e0", "1.13"),
    ("varchar(10) default 1E+02", "100"),
    ("varchar(10) default -.5e-1", "-0.05"),
    ("varchar(10) default '1e2'", "1e2"),
    ("varbinary(10) default 1.5e+02", base64(b"150")),
    ("enum('2','1') default 1e0", "1"),
    ("set('2','1') default 1e0", "1"),
    ("date default 2.0200202e7", "2020-02-02"),
    ("bit(8) default 5e0", "53"),
    ("bit(8) default b'1010'", "10"),
    ("bit(8) default 0b11", "3"),
    ("bit(8) default 7", "7"),
    ("bit(8) default 'a'", "97"),
    ("bit(16) default x'0102'", "258"),
    ("varchar(20) default ''", ""),
    ("varchar(20) default _UTF8MB4'de''f'", "de'f"),
    ('varchar(20) default "d\'q"""', "d'q\""),
    ("varchar(20) default n'x'", "x"),
    ("varchar(20) default 'a' 'b'", "ab"),
    ("varchar(20) default ('x')", "x"),
    ("varchar(20) default 1.50", "1.50"),
    ("varchar(20) default x'c3a9'", "é"),
    ("varchar(20) default 0x41", "A"),
    ("varchar(20) charset gbk default x'c4e3'", "你"),
    ("varbinary(20) default 'é'", base64("é".encode())),
    ("varbinary(20) default 0x0041", base64(b"\x00A")),
    # TiDB keeps U+FFFD of what is not UTF-8; the golden truth has it in its rows.
    ("varbinary(20) default x'00ff'", base64(b"\x00\xef\xbf\xbd")),
    ("varbinary(20) default x'fffe'", base64(b"\xef\xbf\xbd\xef\xbf\xbd")),
    ("enum('a','b') default 'B'", "b"),
    ("enum('a','b') default 2", "b"),
    ("enum('','b') default ''", ""),
    ("set('a','b','c') default 'c,a'", "a,c"),
    ("set('a','b','c') default 6", "b,c"),
    ("set('a','b') default ''", ""),
    ("date default '2020-02-02'", "2020-02-02"),
    ("date default date '2020-2-2'", "2020-02-02"),
    ("date default 20200202", "2020-02-02"),
    ("date default 0", "0000-00-00"),
    ("date default '2020-02-02 10:00:00'", "2020-02-02"),
    ("datetime default '2020-02-02'", "2020-02-02 00:00:00"),
    ("datetime default '20/2/2 1:2'", "2020-02-02 01:02:00"),
    ("datetime default '2020-02-02T01:02:03'", "2020-02-02 01:02:03"),
    ("datetime(3) default '2020-02-02 10:00:00'", "2020-02-02 10:00:00.000"),
    ("datetime(3) default '2020-02-02 10:00:00.12'", "2020-02-02 10:00:00.120"),
    ("datetime(1) default '2020-12-31 23:59:59.96'", "2021-01-01 00:00:00.0"),
    ("datetime default '2020-12-31 23:59:59.5'", "2021-01-01 00:00:00"),
    ("timestamp default 20200202101112", "2020-02-02 10:11:12"),
    ("timestamp default '0000-00-00 00:00:00'", "0000-00-00 00:00:00"),
    ("time default '10:11'", "10:11:00"),
    ("time default '-838:59:59'", "-838:59:59"),
    ("time(2) default '1 2:3:4.5'", "26:03:04.50"),
    ("time default 101112", "10:11:12"),
    ("time default '12'", "00:00:12"),
    ("year default 2024", "2024"),
    ("year default '99'", "1999"),
    ("year default '0000'", "0000"),
    ("year default '0'", "2000"),
    ("year default 0", "2000"),
]


@pytest.mark.parametrize(("definition", "expected"), LITERALS)
def test_a_literal_default_becomes_a_text_of_the_column_type(
    definition: str, expected: str | None
) -> None:
    read = column(definition)
    assert (read.default, read.default_is_expression) == (expected, False)
    by_name = read.type.name in ("enum", "set")
    # Whoever fills rows with it can read it.
    assert (read_value(read.default, read.type, member_names=by_name) is None) == (expected is None)


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ("date default '2020-02'", "2020-02"),
        ("datetime default 'tomorrow'", "tomorrow"),
        ("datetime default '2020-02-02 10:00:00+08:00'", "2020-02-02 10:00:00+08:00"),
        ("time default '900:00:00'", "900:00:00"),
        ("enum('a') default 'c'", "c"),
    ],
)
def test_a_literal_that_the_type_cannot_hold_is_kept_as_written(definition: str, text: str) -> None:
    assert column(definition).default == text


@pytest.mark.parametrize(
    ("definition", "sql"),
    [
        ("timestamp default current_timestamp", "CURRENT_TIMESTAMP"),
        ("timestamp default NOW()", "CURRENT_TIMESTAMP"),
        ("timestamp(6) default LOCALTIMESTAMP(6)", "CURRENT_TIMESTAMP(6)"),
        ("timestamp default (now())", "CURRENT_TIMESTAMP"),
        ("date default curdate()", "CURRENT_DATE"),
        ("date default (current_date)", "CURRENT_DATE"),
        ("varchar(36) default uuid()", "uuid()"),
        ("varchar(36) default (UUID())", "UUID()"),
        ("varchar(36) default ((upper(`a`)))", "upper(`a`)"),
        ("int default (1 + (2))", "1 + (2)"),
        ("bigint default next value for d.s", "next value for d.s"),
        ("bigint default nextval(`s`)", "nextval(`s`)"),
        ("json default (json_object('a', ')'))", "json_object('a', ')')"),
    ],
)
def test_an_expression_default_is_kept_as_sql(definition: str, sql: str) -> None:
    read = column(f"{definition} comment 'x'")
    assert (read.default, read.default_is_expression) == (sql, True)
    assert read.comment == "x"


@pytest.mark.parametrize(
    ("literal", "type", "expected"),
    [
        ("'7'", ColumnType("int"), "7"),
        ("b'111'", ColumnType("bit", length=8), "7"),
        ("'a'", ColumnType("varbinary", length=8), base64(b"a")),
        ("1", ColumnType("enum", elements=("a", "b")), "a"),
        ("'2024-1-2'", ColumnType("datetime", decimals=1), "2024-01-02 00:00:00.0"),
        ("null", ColumnType("int"), None),
    ],
)
def test_a_default_set_by_alter_is_read_by_the_column_type(
    literal: str, type: ColumnType, expected: str | None
) -> None:
    (statement,) = read_ddl(f"alter table t alter c set default {literal}")
    assert isinstance(statement, ddl.AlterTable)
    (action,) = statement.actions
    assert isinstance(action, ddl.SetDefault)
    assert convert_default(action.default, type) == (expected, False)


def test_backslashes_are_escapes_in_user_sql() -> None:
    typed = r"'a\n\t\0\b\Z\\\'\"\%\_\x'"
    assert column(f"varchar(99) default {typed}").default == "a\n\t\0\b\x1a\\'\"\\%\\_x"
    assert column(r"enum('a\\b', 'c\'d')").type.elements == ("a\\b", "c'd")
    assert column(r"int comment 'x\''").comment == "x'"


def test_backslashes_are_literal_in_sql_that_tidb_prints() -> None:
    (statement,) = read_ddl(
        r"CREATE TABLE `t` (`c` VARCHAR(9) DEFAULT _UTF8MB4'C:\' COMMENT 'a\nb',"
        r"`d` ENUM('\','x''\''') COLLATE utf8mb4_bin) ENGINE = InnoDB"
    )
    assert isinstance(statement, ddl.CreateTable)
    c, d = statement.columns
    assert c.default.text == "C:\\"
    assert c.comment == r"a\nb"
    assert d.type.elements == ("\\", r"x'\'")


def printed(text: str) -> str:
    """A string as TiDB prints it in statements: quotes doubled, nothing else escaped."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def typed(text: str) -> str:
    return '"' + "".join(f"\\{c}" if c in "\\\"'" else c for c in text) + '"'


TEXTS = st.text(st.characters(exclude_categories=("Cs",))).map(lambda text: text.rstrip(" "))


@given(default=TEXTS, comment=TEXTS, member=TEXTS)
def test_any_text_survives_both_ways_of_quoting(default: str, comment: str, member: str) -> None:
    expected: Any = (default, comment, (member,))
    for sql in (
        f"ALTER TABLE `t` ADD COLUMN `c` VARCHAR(9) DEFAULT _UTF8MB4{printed(default)} "
        f"COMMENT {printed(comment)}, ADD COLUMN `d` ENUM({printed(member)})",
        f"alter table t add c varchar(9) default {typed(default)} comment {typed(comment)}, "
        f"add d enum({typed(member)})",
    ):
        (statement,) = read_ddl(sql)
        assert isinstance(statement, ddl.AlterTable)
        c, d = (a.column for a in statement.actions if isinstance(a, ddl.AddColumn))
        assert (c.default.text, c.comment, d.type.elements) == expected
