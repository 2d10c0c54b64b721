"""The parts of a table definition: types, columns, indexes and options."""

import pytest

from tests.schema.reading import ID, INT, PRIMARY_ID, columns, only, varchar
from ticdc_assets.events import Charset, Column, ColumnType, Index
from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.indexes import find_free_name

TYPES = [
    ("TINYINT", ColumnType("tinyint")),
    ("int(5) zerofill", ColumnType("int", unsigned=True, zerofill=True, length=5)),
    ("BIGINT(20) UNSIGNED", ColumnType("bigint", unsigned=True, length=20)),
    ("integer signed", INT),
    ("int1", ColumnType("tinyint")),
    ("MIDDLEINT", ColumnType("mediumint")),
    ("INT8 unsigned", ColumnType("bigint", unsigned=True)),
    ("bool", ColumnType("tinyint", length=1)),
    ("Boolean", ColumnType("tinyint", length=1)),
    ("BIT", ColumnType("bit", length=1)),
    ("bit(64)", ColumnType("bit", length=64)),
    ("DECIMAL", ColumnType("decimal", length=10, decimals=0)),
    ("dec(5)", ColumnType("decimal", length=5, decimals=0)),
    ("NUMERIC(20,4) unsigned", ColumnType("decimal", unsigned=True, length=20, decimals=4)),
    ("fixed(3,1)", ColumnType("decimal", length=3, decimals=1)),
    ("FLOAT", ColumnType("float")),
    ("float(24)", ColumnType("float")),
    ("float(25)", ColumnType("double")),
    ("float(7,2) unsigned", ColumnType("float", unsigned=True, length=7, decimals=2)),
    ("double precision", ColumnType("double")),
    ("double(10)", ColumnType("double", length=10)),
    ("REAL(10,3)", ColumnType("double", length=10, decimals=3)),
    ("year", ColumnType("year", length=4)),
    ("YEAR(4)", ColumnType("year", length=4)),
    ("date", ColumnType("date")),
    ("datetime(6)", ColumnType("datetime", decimals=6)),
    ("TIMESTAMP", ColumnType("timestamp", decimals=0)),
    ("time(3)", ColumnType("time", decimals=3)),
    ("char", ColumnType("char", length=1, charset="utf8mb4")),
    ("CHARACTER(3) CHARACTER SET latin1", ColumnType("char", length=3, charset="latin1")),
    ("char(10) byte", ColumnType("binary", length=10)),
    ("CHAR(10) BINARY", ColumnType("char", length=10, charset="utf8mb4", collation="utf8mb4_bin")),
    ("char(10) ascii", ColumnType("char", length=10, charset="latin1")),
    ("varchar(20)", varchar(20)),
    ("character varying(20)", varchar(20)),
    ("NATIONAL VARCHAR(20)", varchar(20)),
    ("nchar(4)", ColumnType("char", length=4, charset="utf8mb4")),
    ("varchar(20) charset 'utf8mb3'", varchar(20, "utf8")),
    ("varchar(20) collate gbk_bin", varchar(20, "gbk", "gbk_bin")),
    ("varchar(20) not null collate gbk_bin", varchar(20, "gbk", "gbk_bin")),
    ("varchar(20) character set binary", ColumnType("varbinary", length=20)),
    ("varchar(20) collate binary", ColumnType("varbinary", length=20)),
    ("binary", ColumnType("binary", length=1)),
    ("VARBINARY(300)", ColumnType("varbinary", length=300)),
    ("text", ColumnType("text", charset="utf8mb4")),
    ("TEXT(50)", ColumnType("tinytext", charset="utf8mb4")),
    ("text(64)", ColumnType("text", charset="utf8mb4")),
    ("text(100) charset latin1", ColumnType("tinytext", charset="latin1")),
    ("blob(255)", ColumnType("tinyblob")),
    ("blob(70000)", ColumnType("mediumblob")),
    ("text character set binary", ColumnType("blob")),
    ("mediumtext charset binary", ColumnType("mediumblob")),
    ("long", ColumnType("mediumtext", charset="utf8mb4")),
    ("LONG VARBINARY", ColumnType("mediumblob")),
    ("json", ColumnType("json")),
    ("vector", ColumnType("vector")),
    ("VECTOR<FLOAT>(3)", ColumnType("vector", length=3)),
    (
        "ENUM('a','b ', _utf8mb4'c''d', x'65', \"f\")",
        ColumnType("enum", elements=("a", "b", "c'd", "e", "f"), charset="utf8mb4"),
    ),
    (
        "set('x','y') charset ascii",
        ColumnType("set", elements=("x", "y"), charset="ascii"),
    ),
]


@pytest.mark.parametrize(("text", "expected"), TYPES)
def test_a_column_type_is_parsed(text: str, expected: ColumnType) -> None:
    (column,) = columns(f"c {text}")
    assert column.type == expected


def test_a_column_without_a_charset_inherits_it_from_the_table_or_database() -> None:
    body = "a varchar(3), b varchar(3) charset gbk, c text(100), d int"
    by_table = columns(body, " default charset=latin1 collate latin1_bin")
    assert [c.type.charset for c in by_table] == ["latin1", "gbk", "latin1", None]
    assert [c.type.collation for c in by_table] == ["latin1_bin", None, "latin1_bin", None]
    assert [c.type.name for c in by_table] == ["varchar", "varchar", "tinytext", "int"]
    assert columns(body, " collate utf8_bin")[0].type == varchar(3, "utf8", "utf8_bin")
    assert columns(body, database=Charset("ascii"))[0].type == varchar(3, "ascii")
    assert columns(body, " charset binary")[0].type == ColumnType("varbinary", length=3)


def test_column_options_are_read_in_any_order() -> None:
    read = columns(
        "`a``b` bigint unsigned comment 'it''s' auto_increment unique key, "
        "t.c int null default 3 column_format fixed storage disk, "
        "d timestamp(3) not null default now(3) on update current_timestamp(3), "
        "e int generated always as ((a + 1) * 2) stored not null, "
        "f int as (if(a > 1, 2, 3)) comment 'v', "
        "g int references u (id) match full on delete cascade on update set null, "
        "h int constraint ck check (h > 0) not enforced not null, "
        "i int check (i > 0) not null, "
        "j serial, "
        "k bigint /*T![auto_rand] AUTO_RANDOM(5, 54) */ primary key clustered"
    )
    bigint = ColumnType("bigint", unsigned=True)
    assert read == (
        Column("a`b", bigint, nullable=False, comment="it's"),
        Column("c", INT, default="3"),
        Column(
            "d",
            ColumnType("timestamp", decimals=3),
            nullable=False,
            default="CURRENT_TIMESTAMP(3)",
            default_is_expression=True,
        ),
        Column("e", INT, nullable=False, generated="stored"),
        Column("f", INT, generated="virtual", comment="v"),
        Column("g", INT),
        Column("h", INT, nullable=False),
        Column("i", INT, nullable=False),
        Column("j", bigint, nullable=False),
        Column("k", ColumnType("bigint"), nullable=False),
    )


def test_indexes_are_read_with_their_columns_and_uniqueness() -> None:
    statement = only(
        "create table t (a int, b varchar(9) unique, c int, d int, "
        "constraint pk primary key using btree (a, `C`), "
        "unique (b(3)), unique key (b) using hash comment 'x' key_block_size = 4 invisible, "
        "index (c desc), key kc (c) with parser ngram, fulltext ft (b), "
        "constraint uc unique index (d), unique ue ((a + 1)), "
        "unique uw (d) where c > 1, vector index vi ((vec_l2_distance(b))), "
        "constraint foreign key (c) references u (id) on delete no action, "
        "constraint ck check (a > 0) enforced, check (c > 0), "
        "unique ug (a) /*T![global_index] GLOBAL */)"
    )
    assert statement.indexes == (
        Index("PRIMARY", ("a", "C"), unique=True, primary=True),
        Index("b", ("b",), unique=True),
        Index("b_2", ("b",), unique=True),
        Index("c", ("c",)),
        Index("kc", ("c",)),
        Index("ft", ("b",)),
        Index("uc", ("d",), unique=True),
        Index("ue", ()),
        Index("uw", ("d",)),
        Index("vi", ()),
        Index("ug", ("a",), unique=True),
        Index("b_3", ("b",), unique=True),
    )
    assert [c.nullable for c in statement.columns] == [False, True, False, True]


def test_an_unnamed_index_gets_the_next_free_name() -> None:
    assert find_free_name(Index("", ("a",)), ["A", "a_2", "b"]) == "a_3"
    assert find_free_name(Index("", ("b",)), []) == "b"
    assert find_free_name(Index("", ()), []) == "expression_index"
    assert find_free_name(Index("", ("primary",)), []) == "primary_2"


def test_charset_collation_and_comment_are_read_from_table_options() -> None:
    statement = only(
        "CREATE TEMPORARY TABLE IF NOT EXISTS `d`.`t` (`id` INT PRIMARY KEY) ENGINE = InnoDB "
        "AUTO_INCREMENT = 5, DEFAULT CHARACTER SET = UTF8MB4 DEFAULT COLLATE UTF8MB4_BIN "
        "COMMENT = 'partition by' ROW_FORMAT=COMPACT STATS_PERSISTENT=DEFAULT UNION=(a,b) "
        "DATA DIRECTORY='/x' /*T! SHARD_ROW_ID_BITS = 4 */ /*T![ttl] TTL = `c` + INTERVAL 1 DAY */ "
        "/*T![ttl] TTL_ENABLE = 'OFF' */ /*!90000 PRE_SPLIT_REGIONS=3 */ WHATEVER = 3 "
        "/*T![placement] PLACEMENT POLICY=`p2` */"
    )
    assert statement == ddl.CreateTable(
        ddl.Name("t", "d"),
        (ID,),
        (PRIMARY_ID,),
        charset=Charset("utf8mb4", "utf8mb4_bin"),
        comment="partition by",
        if_not_exists=True,
    )
