"""Every form of statement, with what it must mean."""

from typing import Any

import pytest

from ticdc_assets.errors import UnreadableDdl
from ticdc_assets.events import Column, ColumnType, Index, Partition, Partitioning
from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.indexes import free_name
from ticdc_assets.schema.ddl.reader import read_ddl

T = ddl.Name("t")
INT = ColumnType("int")
PRIMARY_ID = Index("PRIMARY", ("id",), unique=True, primary=True)
ID = Column("id", INT, nullable=False)


def varchar(length: int, charset: str = "utf8mb4", collation: str | None = None) -> ColumnType:
    return ColumnType("varchar", length=length, charset=charset, collation=collation)


def only(sql: str, **settings: str) -> Any:
    (statement,) = read_ddl(sql, **settings)
    return statement


def columns(body: str, behind: str = "", **settings: str) -> tuple[Column, ...]:
    return only(f"create table t ({body}){behind}", **settings).columns


def actions(text: str) -> tuple[ddl.Action, ...]:
    statement = only(f"ALTER TABLE t {text}")
    assert isinstance(statement, ddl.AlterTable)
    assert statement.name == T
    return statement.actions


STATEMENTS = [
    ("", ()),
    (" ;; -- nothing\n ; # at all", ()),
    ("create database d", (ddl.CreateDatabase("d"),)),
    (
        "CREATE SCHEMA IF NOT EXISTS `d` DEFAULT CHARSET=gbk COLLATE gbk_bin ENCRYPTION='N' "
        "/*T![placement] PLACEMENT POLICY=`p` */",
        (ddl.CreateDatabase("d", "gbk", "gbk_bin", if_not_exists=True),),
    ),
    ("DROP DATABASE IF EXISTS `d`;", (ddl.DropDatabase("d"),)),
    ("drop schema d", (ddl.DropDatabase("d"),)),
    ("ALTER DATABASE `d`  CHARACTER SET = utf8mb4", (ddl.AlterDatabase("d", "utf8mb4"),)),
    ("alter database collate utf8_bin", (ddl.AlterDatabase(None, None, "utf8_bin"),)),
    ("ALTER DATABASE d SET TIFLASH REPLICA 1", (ddl.AlterDatabase("d"),)),
    (
        "DROP TABLE IF EXISTS `a`.`b`, c RESTRICT",
        (ddl.DropTables((ddl.Name("b", "a"), ddl.Name("c"))),),
    ),
    ("drop temporary tables t cascade", (ddl.DropTables((T,)),)),
    ("TRUNCATE t", (ddl.TruncateTable(T),)),
    ("TRUNCATE TABLE `d`.`t`", (ddl.TruncateTable(ddl.Name("t", "d")),)),
    (
        "rename tables a to d.b, `c` as e",
        (ddl.RenameTables(((ddl.Name("a"), ddl.Name("b", "d")), (ddl.Name("c"), ddl.Name("e")))),),
    ),
    (
        "RENAME TABLE `a`.`b` TO `a`.`c`;RENAME TABLE `a`.`c` TO `a`.`b`;",
        (
            ddl.RenameTables(((ddl.Name("b", "a"), ddl.Name("c", "a")),)),
            ddl.RenameTables(((ddl.Name("c", "a"), ddl.Name("b", "a")),)),
        ),
    ),
    (
        "CREATE ALGORITHM = UNDEFINED DEFINER = `root`@`%` SQL SECURITY DEFINER VIEW `d`.`v` "
        "(`x`) AS SELECT (1) AS `x` FROM `t` WHERE `a` = 'x;y'",
        (ddl.CreateView(ddl.Name("v", "d")),),
    ),
    (
        "create or replace view v as select 1; drop view v",
        (ddl.CreateView(ddl.Name("v")), ddl.DropViews((ddl.Name("v"),))),
    ),
    ("DROP VIEW IF EXISTS d.v, w CASCADE", (ddl.DropViews((ddl.Name("v", "d"), ddl.Name("w"))),)),
    ("RECOVER TABLE `d`.`t`", (ddl.RecoverTable(ddl.Name("t", "d")),)),
    ("recover table t 2", (ddl.RecoverTable(T),)),
    ("RECOVER TABLE BY JOB 53", (ddl.RecoverTable(None),)),
    ("FLASHBACK TABLE `t` TO `u`", (ddl.RecoverTable(T, ddl.Name("u")),)),
    ("FLASHBACK TABLE t", (ddl.RecoverTable(T),)),
    ("flashback schema d to e", (ddl.RecoverDatabase("d", "e"),)),
    ("FLASHBACK DATABASE `d`", (ddl.RecoverDatabase("d"),)),
    ("CREATE TABLE `t` LIKE `d`.`s`", (ddl.CreateTableLike(T, ddl.Name("s", "d")),)),
    (
        "create table if not exists t (like s)",
        (ddl.CreateTableLike(T, ddl.Name("s"), if_not_exists=True),),
    ),
    (
        "CREATE UNIQUE INDEX `i` USING BTREE ON `d`.`t` (`a`(3), `b` DESC) COMMENT 'c' LOCK = NONE",
        (ddl.AlterTable(ddl.Name("t", "d"), (ddl.AddIndex(Index("i", ("a", "b"), unique=True)),)),),
    ),
    (
        "create vector index if not exists v on t ((vec_cosine_distance(e))) using hnsw",
        (ddl.AlterTable(T, (ddl.AddIndex(Index("v", ()), if_not_exists=True),)),),
    ),
    ("DROP INDEX IF EXISTS i ON t", (ddl.AlterTable(T, (ddl.DropIndex("i", if_exists=True),)),)),
    ("drop index `primary` on t", (ddl.AlterTable(T, (ddl.DropPrimaryKey(),)),)),
    ("CREATE SEQUENCE s START WITH 1 CACHE 10", (ddl.NoTableEffect("create sequence"),)),
    ("drop placement policy p", (ddl.NoTableEffect("drop placement policy"),)),
    ("alter resource group rg ru_per_sec=1", (ddl.NoTableEffect("alter resource group"),)),
    ("CREATE USER 'u'@'%' IDENTIFIED BY 'x'", (ddl.NoTableEffect("create user"),)),
    (
        "lock tables t read; unlock tables",
        (ddl.NoTableEffect("lock tables"), ddl.NoTableEffect("unlock tables")),
    ),
    ("ADMIN SET BDR ROLE PRIMARY", (ddl.NoTableEffect("admin"),)),
    ("ALTER INSTANCE RELOAD TLS", (ddl.NoTableEffect("alter instance"),)),
    ("analyze table t", (ddl.NoTableEffect("analyze"),)),
]


@pytest.mark.parametrize(("sql", "expected"), STATEMENTS)
def test_a_statement_means_what_it_says(sql: str, expected: tuple[ddl.Statement, ...]) -> None:
    assert read_ddl(sql) == expected


UNREADABLE = [
    "CREATE TABLE t (a INT) AS SELECT 1",
    "CREATE TABLE t SELECT 1",
    "create table t (a int) select * from u",
    "CREATE TABLE t",
    "CREATE TABLE t (a)",
    "CREATE TABLE t (a VARCHAR)",
    "CREATE TABLE t (a GEOMETRY)",
    "CREATE TABLE t (a INT,)",
    "CREATE TABLE t (a INT SOMETHING)",
    "CREATE TABLE t (a INT DEFAULT)",
    "CREATE TABLE t (a DATE(3))",
    "CREATE TABLE t (a VECTOR<DOUBLE>(3))",
    "CREATE TABLE t (a INT) PARTITION BY RANGE (a)",
    "CREATE TABLE t (a INT) PARTITION BY RANGE (a) INTERVAL (10) FIRST PARTITION LESS THAN (0) "
    "LAST PARTITION LESS THAN (90)",
    "CREATE TABLE t (a INT) PARTITION BY HASH (a) PARTITIONS 99999999999",
    "CREATE TABLE t (a INT) PARTITION BY SYSTEM_TIME",
    "ALTER TABLE t FIRST PARTITION LESS THAN (10)",
    "ALTER TABLE t LAST PARTITION LESS THAN (10)",
    "ALTER TABLE t MERGE FIRST PARTITION LESS THAN (10)",
    "ALTER TABLE t SPLIT MAXVALUE PARTITION LESS THAN (10)",
    "ALTER TABLE t DO SOMETHING",
    "ALTER TABLE t DROP COLUMN a b",
    "ALTER TABLE t MODIFY a INT PRIMARY KEY",
    "ALTER TABLE t ADD COLUMN a INT DROP COLUMN b",
    "ALTER TABLE t ADD COLUMN (a INT",
    "ALTER TABLE t ADD COLUMN a INT)",
    "FLASHBACK CLUSTER TO TIMESTAMP '2024-01-01 00:00:00'",
    "FLASHBACK TABLE t, u TO TIMESTAMP '2024-01-01 00:00:00'",
    "FLASHBACK DATABASE d TO TSO 1",
    "IMPORT INTO t FROM 's3://x'",
    "INSERT INTO t VALUES (1)",
    "CREATE PROCEDURE p() BEGIN END",
    "DROP TABLE t; DROP SOMETHING",
    "DROP TABLE 'a'",
    "DROP TABLE t /* without end",
    "DROP TABLE t */",
    "DROP TABLE `t",
    "/*!50100 DROP TABLE t",
    "DROP TABLE \ud800",
]


@pytest.mark.parametrize("sql", UNREADABLE)
def test_what_is_not_understood_is_said_and_never_guessed(sql: str) -> None:
    with pytest.raises(UnreadableDdl) as caught:
        read_ddl(sql)
    assert caught.value.sql == sql
    assert caught.value.reason


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
def test_a_type_is_taken_apart(text: str, expected: ColumnType) -> None:
    (column,) = columns(f"c {text}")
    assert column.type == expected


def test_a_column_without_a_charset_has_its_tables_or_else_its_databases() -> None:
    body = "a varchar(3), b varchar(3) charset gbk, c text(100), d int"
    by_table = columns(body, " default charset=latin1 collate latin1_bin")
    assert [c.type.charset for c in by_table] == ["latin1", "gbk", "latin1", None]
    assert [c.type.collation for c in by_table] == ["latin1_bin", None, "latin1_bin", None]
    assert [c.type.name for c in by_table] == ["varchar", "varchar", "tinytext", "int"]
    assert columns(body, " collate utf8_bin")[0].type == varchar(3, "utf8", "utf8_bin")
    assert columns(body, charset="ascii")[0].type == varchar(3, "ascii")
    assert columns(body, " charset binary")[0].type == ColumnType("varbinary", length=3)


def test_options_of_a_column_are_taken_in_any_order() -> None:
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


def test_names_are_read_however_they_are_written() -> None:
    read = columns('`select` int, 1a int, $x int, _x int, 列名 int, `a,b` int, "dq" int, 1e int')
    assert [c.name for c in read] == ["select", "1a", "$x", "_x", "列名", "a,b", "dq", "1e"]
    assert only("drop table `a``b` . 1c").names == (ddl.Name("1c", "a`b"),)
    unreserved = columns("comment int, date date, vector int, first int, type int, status int")
    assert [c.name for c in unreserved] == ["comment", "date", "vector", "first", "type", "status"]


def test_indexes_keep_what_tells_rows_apart() -> None:
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
    assert free_name(Index("", ("a",)), ["A", "a_2", "b"]) == "a_3"
    assert free_name(Index("", ("b",)), []) == "b"
    assert free_name(Index("", ()), []) == "expression_index"
    assert free_name(Index("", ("primary",)), []) == "primary_2"


def test_table_options_say_nothing_but_charset_and_collation() -> None:
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
        charset="utf8mb4",
        collation="utf8mb4_bin",
        if_not_exists=True,
    )


def test_executable_comments_are_part_of_the_statement_and_others_are_not() -> None:
    plain = only("create table t (id int primary key) partition by hash (id) partitions 2")
    assert plain.partitioning is not None
    for text in (
        "create table t (id int primary key)\n/*!50100 PARTITION BY HASH (id) PARTITIONS 2 */",
        "/*!40101 create table t (id int /*T![x,y] primary key */) */"
        "/* no */ partition /**/ by hash (id) -- no\n partitions # no\n 2",
        "create table t (id int/*!primary key*/)/*T! partition by hash (id)*/ partitions 2;",
    ):
        read = only(text)
        assert read.columns == plain.columns
        assert read.indexes == plain.indexes
        assert read.partitioning == plain.partitioning
    assert only("drop table t /*T [x] , u */ /*M! , v */ /*+ , w */").names == (T,)
    assert only("create table t (a varchar(9) default '/*!50100 x */')").columns[0].default == (
        "/*!50100 x */"
    )


RANGES = (
    Partition("p0", less_than=("10",)),
    Partition("p1", less_than=("MAXVALUE",)),
)
PARTITIONINGS = [
    ("hash(id)", Partitioning("hash", (Partition("p0"),), expression="id")),
    (
        "LINEAR HASH (`id` + 1) PARTITIONS 2",
        Partitioning("hash", (Partition("p0"), Partition("p1")), expression="`id` + 1"),
    ),
    (
        "hash (id) partitions 2 (partition a engine innodb, partition b comment = 'x')",
        Partitioning("hash", (Partition("a"), Partition("b")), expression="id"),
    ),
    ("key ()", Partitioning("key", (Partition("p0"),))),
    (
        "KEY ALGORITHM=2 (`id`, b) PARTITIONS 1",
        Partitioning("key", (Partition("p0"),), columns=("id", "b")),
    ),
    (
        "range (to_days(d)) (partition p0 values less than (10) placement policy = x, "
        "partition p1 values less than maxvalue)",
        Partitioning("range", RANGES, expression="to_days(d)"),
    ),
    (
        "RANGE (`id`) INTERVAL (10) FIRST PARTITION LESS THAN (10) LAST PARTITION LESS THAN (20) "
        "NULL PARTITION MAXVALUE PARTITION "
        "(PARTITION `p0` VALUES LESS THAN (10),PARTITION `p1` VALUES LESS THAN (MAXVALUE))",
        Partitioning("range", RANGES, expression="`id`"),
    ),
    (
        "range columns (a, b) (partition p0 values less than (1, _utf8mb4'x''y'), "
        "partition p1 values less than (-2, maxvalue) (subpartition s0, subpartition s1))",
        Partitioning(
            "range columns",
            (
                Partition("p0", less_than=("1", "'x''y'")),
                Partition("p1", less_than=("-2", "MAXVALUE")),
            ),
            columns=("a", "b"),
        ),
    ),
    (
        "list (id) (partition p0 values in (1, null, (2), -3), partition p1 default)",
        Partitioning(
            "list",
            (
                Partition("p0", values=(("1",), ("NULL",), ("2",), ("-3",))),
                Partition("p1", values=(("DEFAULT",),)),
            ),
            expression="id",
        ),
    ),
    (
        "LIST COLUMNS (`a`,`b`) (PARTITION `p0` VALUES IN ((1, _UTF8MB4'x'), (NULL, 'y')), "
        "PARTITION `p1` VALUES IN (DEFAULT)) UPDATE INDEXES (`i` GLOBAL)",
        Partitioning(
            "list columns",
            (
                Partition("p0", values=(("1", "'x'"), ("NULL", "'y'"))),
                Partition("p1", values=(("DEFAULT",),)),
            ),
            columns=("a", "b"),
        ),
    ),
    (
        "range (id) subpartition by hash (b) subpartitions 2 (partition p0 values less than (10), "
        "partition p1 values less than (maxvalue))",
        Partitioning("range", RANGES, expression="id"),
    ),
]


@pytest.mark.parametrize(("text", "expected"), PARTITIONINGS)
def test_partitions_are_read_from_tables_and_alterations(text: str, expected: Partitioning) -> None:
    assert only(f"create table t (id int) partition by {text}").partitioning == expected
    assert actions(f"PARTITION BY {text}") == (ddl.PartitionBy(expected),)


X = Column("x", INT)
NOTHING = ddl.ChangesNothing
ACTIONS = [
    ("", ()),
    ("ADD x INT", (ddl.AddColumn(X),)),
    ("add column if not exists x int first", (ddl.AddColumn(X, ddl.First(), True),)),
    ("ADD COLUMN `x` INT AFTER `y`", (ddl.AddColumn(X, ddl.After("y")),)),
    (
        "add (x int, y int unique, index (x))",
        (
            ddl.AddColumn(X),
            ddl.AddColumn(Column("y", INT)),
            ddl.AddIndex(Index("y", ("y",), unique=True)),
            ddl.AddIndex(Index("x", ("x",))),
        ),
    ),
    ("ADD INDEX IF NOT EXISTS i (a)", (ddl.AddIndex(Index("i", ("a",)), if_not_exists=True),)),
    ("add key (a, b)", (ddl.AddIndex(Index("a", ("a", "b"))),)),
    ("ADD UNIQUE `u`(`a`)", (ddl.AddIndex(Index("u", ("a",), unique=True)),)),
    ("ADD CONSTRAINT `u` UNIQUE KEY (`a`)", (ddl.AddIndex(Index("u", ("a",), unique=True)),)),
    (
        "ADD PRIMARY KEY(`id`) /*T![clustered_index] CLUSTERED */",
        (ddl.AddIndex(PRIMARY_ID),),
    ),
    ("add fulltext key f (a)", (ddl.AddIndex(Index("f", ("a",))),)),
    ("add constraint fk foreign key (a) references u (b)", (NOTHING("constraint"),)),
    ("ADD CHECK (a > 0) NOT ENFORCED", (NOTHING("constraint"),)),
    (
        "ADD VECTOR INDEX `v`((VEC_COSINE_DISTANCE(`e`))) USING HNSW",
        (ddl.AddIndex(Index("v", ())),),
    ),
    ("add vector int", (ddl.AddColumn(Column("vector", INT)),)),
    ("DROP `x`", (ddl.DropColumn("x"),)),
    ("drop column if exists x restrict", (ddl.DropColumn("x", if_exists=True),)),
    ("DROP INDEX IF EXISTS i", (ddl.DropIndex("i", if_exists=True),)),
    ("drop key `PRIMARY`", (ddl.DropPrimaryKey(),)),
    (
        "DROP PRIMARY KEY, ADD UNIQUE `u`(`id`)",
        (ddl.DropPrimaryKey(), ddl.AddIndex(Index("u", ("id",), unique=True))),
    ),
    (
        "drop foreign key f, drop check c, drop constraint k",
        (NOTHING("constraint"),) * 3,
    ),
    ("MODIFY x INT", (ddl.ModifyColumn("x", X),)),
    (
        "modify column if exists x int first",
        (ddl.ModifyColumn("x", X, ddl.First(), if_exists=True),),
    ),
    ("CHANGE COLUMN `a` `x` INT AFTER `b`", (ddl.ModifyColumn("a", X, ddl.After("b")),)),
    ("alter x set default 3", (ddl.SetDefault("x", "3", literal="number"),)),
    ("ALTER COLUMN `x` SET DEFAULT _UTF8MB4'a'", (ddl.SetDefault("x", "a"),)),
    ("alter x set default x'00ff'", (ddl.SetDefault("x", "00ff", literal="bytes"),)),
    ("alter x set default (uuid())", (ddl.SetDefault("x", "uuid()", is_expression=True),)),
    ("alter x set default null, alter y drop default", (ddl.SetDefault("x"), ddl.SetDefault("y"))),
    ("ALTER INDEX i INVISIBLE", (NOTHING("index visibility"),)),
    ("alter check c not enforced", (NOTHING("constraint"),)),
    ("RENAME AS `u`", (ddl.RenameTo(ddl.Name("u")),)),
    ("rename to d.u", (ddl.RenameTo(ddl.Name("u", "d")),)),
    ("rename = u", (ddl.RenameTo(ddl.Name("u")),)),
    ("rename u", (ddl.RenameTo(ddl.Name("u")),)),
    ("RENAME COLUMN `a` TO `b`", (ddl.RenameColumn("a", "b"),)),
    ("rename key a to b", (ddl.RenameIndex("a", "b"),)),
    ("CONVERT TO CHARACTER SET UTF8MB4", (ddl.ConvertCharset("utf8mb4"),)),
    (
        "convert to charset default collate utf8mb4_bin",
        (ddl.ConvertCharset(None, "utf8mb4_bin"),),
    ),
    ("CHARACTER SET utf8 COLLATE utf8_bin", (NOTHING("charset"), NOTHING("collate"))),
    ("/*T![force_inc] FORCE */ AUTO_INCREMENT = 12", (NOTHING("auto_increment"),)),
    (
        "FORCE /* AlterTableForce is not supported */ , AUTO_INCREMENT = 12",
        (NOTHING("force"), NOTHING("auto_increment")),
    ),
    ("COMMENT = 'c'", (NOTHING("comment"),)),
    ("comment 'c' engine innodb", (NOTHING("comment"), NOTHING("engine"))),
    ("SET TIFLASH REPLICA 2 LOCATION LABELS 'a', 'b'", (NOTHING("tiflash replica"),)),
    (
        "/*T![ttl] TTL = `c` + INTERVAL 1 DAY */ /*T![ttl] TTL_ENABLE = 'OFF' */",
        (
            NOTHING("ttl"),
            NOTHING("ttl_enable"),
        ),
    ),
    ("REMOVE TTL", (NOTHING("remove ttl"),)),
    ("PLACEMENT POLICY SET DEFAULT", (NOTHING("placement policy"),)),
    ("attributes default", (NOTHING("attributes"),)),
    ("PARTITION `p` ATTRIBUTES='a=b'", (NOTHING("partition options"),)),
    ("partition p placement policy = x", (NOTHING("partition options"),)),
    ("cache", (NOTHING("cache"),)),
    ("disable keys", (NOTHING("disable keys"),)),
    ("order by a desc, b, c asc", (NOTHING("order by"),)),
    ("order by a, drop column x", (NOTHING("order by"), ddl.DropColumn("x"))),
    (
        "ALGORITHM = INPLACE, LOCK=NONE, drop x",
        (NOTHING("lock or algorithm"),) * 2 + (ddl.DropColumn("x"),),
    ),
    ("compact tiflash replica", (NOTHING("compact"),)),
    ("analyze partition p index i with 4 buckets", (NOTHING("analyze partition"),)),
    ("REBUILD PARTITION ALL", (NOTHING("rebuild partition"),)),
    ("import partition p tablespace", (NOTHING("import partition"),)),
    (
        "ADD PARTITION (PARTITION `p0` VALUES LESS THAN (10))",
        (ddl.AddPartitions((Partition("p0", less_than=("10",)),)),),
    ),
    ("add partition if not exists partitions 3", (ddl.AddPartitions(count=3),)),
    ("DROP PARTITION IF EXISTS `p0`,`p1`", (ddl.DropPartitions(("p0", "p1")),)),
    ("TRUNCATE PARTITION ALL", (ddl.TruncatePartitions(None),)),
    ("truncate partition p0, p1", (ddl.TruncatePartitions(("p0", "p1")),)),
    (
        "EXCHANGE PARTITION `p` WITH TABLE `d`.`u` WITHOUT VALIDATION",
        (ddl.ExchangePartition("p", ddl.Name("u", "d")),),
    ),
    (
        "REORGANIZE PARTITION `a`,`b` INTO (PARTITION `c` VALUES IN (1))",
        (ddl.ReorganizePartitions(("a", "b"), (Partition("c", values=(("1",),)),)),),
    ),
    ("reorganize partition", (NOTHING("reorganize partition"),)),
    ("COALESCE PARTITION 2", (ddl.CoalescePartitions(2),)),
    ("REMOVE PARTITIONING", (ddl.RemovePartitioning(),)),
    ("add column x int remove partitioning", (ddl.AddColumn(X), ddl.RemovePartitioning())),
    ("ADD COLUMN x INT, ", (ddl.AddColumn(X),)),
]


@pytest.mark.parametrize(("text", "expected"), ACTIONS)
def test_an_alteration_means_what_it_says(text: str, expected: tuple[ddl.Action, ...]) -> None:
    assert actions(text) == expected


def test_altered_names_and_ignore_are_read() -> None:
    assert only("alter ignore table `d`.`t` force") == ddl.AlterTable(
        ddl.Name("t", "d"), (NOTHING("force"),)
    )
