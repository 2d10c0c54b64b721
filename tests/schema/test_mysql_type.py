"""MySQL types: parsing declarations, Delta types and protocol codes."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import find_folder, open_lines
from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import ColumnType
from ticdc_assets.schema.types.mysql_type import (
    OPEN_CODES,
    TYPES,
    describe,
    map_to_delta_type,
    parse_type,
)

READ = {
    "varchar(20)": ColumnType("varchar", length=20),
    "bigint unsigned": ColumnType("bigint", unsigned=True),
    "bigint(20)": ColumnType("bigint", length=20),
    "INT(5) UNSIGNED ZEROFILL": ColumnType("int", length=5, unsigned=True, zerofill=True),
    "int zerofill": ColumnType("int", unsigned=True, zerofill=True),
    "decimal(10, 4)": ColumnType("decimal", length=10, decimals=4),
    "decimal(10)": ColumnType("decimal", length=10),
    "double(10,3)": ColumnType("double", length=10, decimals=3),
    "double precision": ColumnType("double"),
    "float(24)": ColumnType("float"),
    "float(25)": ColumnType("double"),
    "float(7,2)": ColumnType("float", length=7, decimals=2),
    "datetime(6) not null": ColumnType("datetime", decimals=6),
    "timestamp null": ColumnType("timestamp"),
    "tinyint(1)": ColumnType("tinyint", length=1),
    "bool": ColumnType("tinyint", length=1),
    "boolean not null": ColumnType("tinyint", length=1),
    "integer": ColumnType("int"),
    "int4 unsigned": ColumnType("int", unsigned=True),
    "numeric(5,2)": ColumnType("decimal", length=5, decimals=2),
    "dec": ColumnType("decimal"),
    "fixed": ColumnType("decimal"),
    "real": ColumnType("double"),
    "serial": ColumnType("bigint", unsigned=True),
    "character varying (3)": ColumnType("varchar", length=3),
    "national varchar(3)": ColumnType("varchar", length=3, charset="utf8"),
    "nvarchar(3)": ColumnType("varchar", length=3, charset="utf8"),
    "nchar(3)": ColumnType("char", length=3, charset="utf8"),
    "long varchar": ColumnType("mediumtext"),
    "long": ColumnType("mediumtext"),
    "long varbinary": ColumnType("mediumblob"),
    "text(256)": ColumnType("text"),
    "text(20000)": ColumnType("mediumtext"),
    "blob(255)": ColumnType("tinyblob"),
    "blob(256)": ColumnType("blob"),
    "year(4)": ColumnType("year", length=4),
    "vector<float>(3)": ColumnType("vector", length=3),
    "vector": ColumnType("vector"),
    "char(4) character set utf8mb4 collate utf8mb4_bin": ColumnType(
        "char", length=4, charset="utf8mb4", collation="utf8mb4_bin"
    ),
    "varchar(60) charset binary": ColumnType("varbinary", length=60),
    "char byte(4)": ColumnType("binary", length=4),
    "enum('a','b''c',\"d\",'e\\'f','g ')": ColumnType(
        "enum", elements=("a", "b'c", "d", "e'f", "g")
    ),
    "set ( 'x,' , _utf8mb4'名' ) not null": ColumnType("set", elements=("x,", "名")),
}


@pytest.mark.parametrize("text", READ)
def test_a_type_declaration_is_parsed(text: str) -> None:
    assert parse_type(text) == READ[text]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "unspecified",
        "intt",
        "int(",
        "int(x)",
        "int(99999999999)",
        "enum('a'",
        "enum()",
        "enum('a\\",
        "varchar(20) default 'x'",
        "int) unsigned",
        "vector<int>",
        "int not",
    ],
)
def test_an_invalid_declaration_is_an_invalid_value(text: str) -> None:
    with pytest.raises(InvalidValue):
        parse_type(text)


@given(
    st.text() | st.sampled_from(["enum(", "decimal("]).flatmap(lambda t: st.text().map(t.__add__))
)
def test_any_text_is_a_type_or_an_invalid_value(text: str) -> None:
    with suppress(InvalidValue):
        assert parse_type(text).name in TYPES


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1))
def test_members_survive_quoting(members: list[str]) -> None:
    quoted = ",".join("'" + m.replace("\\", "\\\\").replace("'", "''") + "'" for m in members)
    assert parse_type(f"enum({quoted})").elements == tuple(m.rstrip(" ") for m in members)


# Design §5, line by line.
DELTA = {
    "tinyint": "tinyint",
    "smallint": "smallint",
    "mediumint": "int",
    "int": "int",
    "bigint": "bigint",
    "tinyint unsigned": "smallint",
    "smallint unsigned": "int",
    "mediumint unsigned": "int",
    "int unsigned": "bigint",
    "bigint unsigned": "decimal(20,0)",
    "float": "float",
    "double": "double",
    "decimal(38,10)": "decimal(38,10)",
    "decimal(10)": "decimal(10,0)",
    "decimal(39,10)": "string",
    "decimal": "string",
    "date": "date",
    "datetime(3)": "timestamp_ntz",
    "timestamp(3)": "timestamp",
    "time": "string",
    "year": "smallint",
    "char(3)": "string",
    "longtext": "string",
    "binary(3)": "binary",
    "longblob": "binary",
    "enum('a')": "string",
    "set('a')": "string",
    "bit(63)": "bigint",
    "bit(64)": "decimal(20,0)",
    "json": "string",
    "vector(3)": "array<float>",
}


@pytest.mark.parametrize("text", DELTA)
def test_each_type_has_its_delta_type(text: str) -> None:
    assert map_to_delta_type(parse_type(text)) == DELTA[text]


def test_text_with_charset_binary_is_binary() -> None:
    assert describe(ColumnType("varchar", length=9, charset="binary")).name == "varbinary"


def test_every_type_in_the_golden_tables_is_known() -> None:
    texts = {
        column["mysql_type"]
        for workload in ("types", "lifecycle", "random_1")
        for table in open_lines(find_folder(workload) / "truth.jsonl")
        for column in table["columns"]
    }
    assert len(texts) > 40
    for text in texts:
        assert map_to_delta_type(parse_type(text))


def test_open_protocol_codes_name_known_types() -> None:
    assert set(OPEN_CODES.values()) <= set(TYPES)
