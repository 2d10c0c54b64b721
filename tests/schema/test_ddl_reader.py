"""Every kind of statement and the value that the reader returns for it."""

import pytest

from tests.schema.reading import T, columns, only
from ticdc_assets.errors import UnreadableDdl
from ticdc_assets.events import Charset, Index
from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.reader import read_ddl

STATEMENTS = [
    ("", ()),
    (" ;; -- nothing\n ; # at all", ()),
    ("create database d", (ddl.CreateDatabase("d"),)),
    (
        "CREATE SCHEMA IF NOT EXISTS `d` DEFAULT CHARSET=gbk COLLATE gbk_bin ENCRYPTION='N' "
        "/*T![placement] PLACEMENT POLICY=`p` */",
        (ddl.CreateDatabase("d", Charset("gbk", "gbk_bin"), if_not_exists=True),),
    ),
    ("DROP DATABASE IF EXISTS `d`;", (ddl.DropDatabase("d"),)),
    ("drop schema d", (ddl.DropDatabase("d"),)),
    ("ALTER DATABASE `d`  CHARACTER SET = utf8mb4", (ddl.AlterDatabase("d", Charset("utf8mb4")),)),
    ("alter database collate utf8_bin", (ddl.AlterDatabase(None, Charset("utf8", "utf8_bin")),)),
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
def test_a_statement_is_parsed(sql: str, expected: tuple[ddl.Statement, ...]) -> None:
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
def test_an_unknown_statement_is_unreadable_and_never_guessed(sql: str) -> None:
    with pytest.raises(UnreadableDdl) as caught:
        read_ddl(sql)
    assert caught.value.sql == sql
    assert caught.value.reason


def test_names_are_read_in_every_form_of_quoting() -> None:
    read = columns('`select` int, 1a int, $x int, _x int, 列名 int, `a,b` int, "dq" int, 1e int')
    assert [c.name for c in read] == ["select", "1a", "$x", "_x", "列名", "a,b", "dq", "1e"]
    assert only("drop table `a``b` . 1c").names == (ddl.Name("1c", "a`b"),)
    unreserved = columns("comment int, date date, vector int, first int, type int, status int")
    assert [c.name for c in unreserved] == ["comment", "date", "vector", "first", "type", "status"]


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
    (column,) = columns("a varchar(9) default '/*!50100 x */'")
    assert column.default == "/*!50100 x */"
