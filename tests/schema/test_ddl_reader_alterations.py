"""Every kind of ALTER TABLE action, including partitions."""

import pytest

from tests.schema.reading import INT, PRIMARY_ID, actions, only
from ticdc_assets.events import Charset, Index, Partition, Partitioning
from ticdc_assets.schema.ddl import statement as ddl

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


X = ddl.DeclaredColumn("x", INT)
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
            ddl.AddColumn(ddl.DeclaredColumn("y", INT, unique=True)),
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
    ("add vector int", (ddl.AddColumn(ddl.DeclaredColumn("vector", INT)),)),
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
    ("alter x set default 3", (ddl.SetDefault("x", ddl.Default("3", literal="number")),)),
    ("ALTER COLUMN `x` SET DEFAULT _UTF8MB4'a'", (ddl.SetDefault("x", ddl.Default("a")),)),
    ("alter x set default x'00ff'", (ddl.SetDefault("x", ddl.Default("00ff", literal="bytes")),)),
    (
        "alter x set default (uuid())",
        (ddl.SetDefault("x", ddl.Default("uuid()", is_expression=True)),),
    ),
    ("alter x set default null, alter y drop default", (ddl.SetDefault("x"), ddl.SetDefault("y"))),
    ("ALTER INDEX i INVISIBLE", (NOTHING("index visibility"),)),
    ("alter check c not enforced", (NOTHING("constraint"),)),
    ("RENAME AS `u`", (ddl.RenameTo(ddl.Name("u")),)),
    ("rename to d.u", (ddl.RenameTo(ddl.Name("u", "d")),)),
    ("rename = u", (ddl.RenameTo(ddl.Name("u")),)),
    ("rename u", (ddl.RenameTo(ddl.Name("u")),)),
    ("RENAME COLUMN `a` TO `b`", (ddl.RenameColumn("a", "b"),)),
    ("rename key a to b", (ddl.RenameIndex("a", "b"),)),
    ("CONVERT TO CHARACTER SET UTF8MB4", (ddl.ConvertCharset(Charset("utf8mb4")),)),
    (
        "convert to charset default collate utf8mb4_bin",
        (ddl.ConvertCharset(Charset("utf8mb4", "utf8mb4_bin")),),
    ),
    (
        "CHARACTER SET utf8 COLLATE utf8_bin",
        (NOTHING("charset"), NOTHING("collate"), ddl.SetOptions(Charset("utf8", "utf8_bin"))),
    ),
    ("/*T![force_inc] FORCE */ AUTO_INCREMENT = 12", (NOTHING("auto_increment"),)),
    (
        "FORCE /* AlterTableForce is not supported */ , AUTO_INCREMENT = 12",
        (NOTHING("force"), NOTHING("auto_increment")),
    ),
    ("COMMENT = 'c'", (NOTHING("comment"), ddl.SetOptions(comment="c"))),
    (
        "comment 'c' engine innodb comment ''",
        (*map(NOTHING, ("comment", "engine", "comment")), ddl.SetOptions(comment="")),
    ),
    ("COMMENT = 5", (NOTHING("comment"),)),
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
def test_an_alteration_is_parsed(text: str, expected: tuple[ddl.Action, ...]) -> None:
    assert actions(text) == expected


def test_the_table_name_is_read_and_ignore_is_skipped() -> None:
    assert only("alter ignore table `d`.`t` force") == ddl.AlterTable(
        ddl.Name("t", "d"), (NOTHING("force"),)
    )
