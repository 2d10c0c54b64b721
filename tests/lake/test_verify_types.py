"""`verify` finds every type equal, with all values that a real server takes for it."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.lake.upstream_copy import UpstreamCopy, read_schema
from tests.mariadb_server import MariaDb

ALL_TYPES = """CREATE TABLE `all types` (
    id bigint NOT NULL PRIMARY KEY, a tinyint, b smallint unsigned, c mediumint,
    d int(10) unsigned zerofill, e bigint unsigned, f float, g double, h decimal(10,2),
    i decimal(65,30), j bit(1), k bit(64), l year, m date, n datetime, o datetime(6),
    p timestamp(3) NULL, q time, r time(6), s char(10), t varchar(40),
    u varchar(40) CHARACTER SET latin1, v text CHARACTER SET gbk, w longtext, x binary(4),
    y varbinary(40), z longblob, `e,1` enum('a','b''c','é'), `s``1` set('x','y','z'),
    js json, stor int AS (a + 2) STORED, virt int AS (a + 1) VIRTUAL
) CHARACTER SET utf8mb4"""
ROWS = """
    (-9223372036854775808, -128, 65535, -8388608, 42, 18446744073709551615, -3.4e38,
     1.7976931348623157e308, -99999999.99,
     -99999999999999999999999999999999999.999999999999999999999999999999, 1, 18446744073709551615,
     2155, '9999-12-31', '9999-12-31 23:59:59', '9999-12-31 23:59:59.999999',
     '2038-01-19 03:14:07.999', '-838:59:59', '838:59:59.000001', 'é', '日本😀', 'café', '中文',
     REPEAT('long ', 2000), 'a', '', REPEAT(X'00FF', 5000), 'é', 'x,z', '{"b": 1, "a": [2.5]}'),
    (9223372036854775807, 127, 0, 8388607, 4294967295, 0, 1e-45, 5e-324, 0, 0, 0, 0, 0,
     '0000-00-00', '0000-00-00 00:00:00', '1000-01-01 00:00:00.5', '1970-01-01 00:00:01.1',
     '-00:00:01', '00:00:00', '', '', '', '', '', '', X'00', '', '', '', '[]'),
    (0, 0, 1, 1, 1, 9223372036854775808, 0.1, 0.1, 0.01, 0.000000000000000000000000000001, 1,
     9223372036854775808, 1901, '2024-02-00', '2024-00-01 10:00:00', '2024-01-01 00:00:00', NULL,
     '00:00:00', '12:00:00.5', 'a ', 'tab\t', 'x\\y', 'x', 'y', X'00000000', X'5C78', 'x', 'a',
     'y', 'null'),
    (7, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
     NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"""
FILLED = ", ".join(f"`{name}`" for name in [*"abcdefghijklmnopqrstuvwxyz", "e,1", "s``1", "js"])


@pytest.fixture(scope="module")
def server(mariadb: MariaDb) -> MariaDb:
    mariadb.run("CREATE DATABASE t CHARACTER SET utf8mb4")
    return mariadb


def test_a_table_of_all_types_is_equal(
    spark: SparkSession, tmp_path: Path, server: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.run("USE t", ALL_TYPES, f"INSERT INTO `all types` (id, {FILLED}) VALUES {ROWS}")
    copy = UpstreamCopy.make(spark, tmp_path, server)
    copy.copy(read_schema("t", ALL_TYPES))

    (here,) = copy.verify()
    monkeypatch.setattr("ticdc_assets.verify.verify.MANY_ROWS", -1)
    (with_spark,) = copy.verify()

    assert here.differences == with_spark.differences == ()
    assert (here.verdict, here.lake_rows, here.upstream_rows) == ("equal", 4, 4)
    assert (with_spark.verdict, with_spark.lake_rows) == ("equal", 4)


def test_a_moment_that_is_one_of_two_is_equal_to_either(tmp_path: Path, server: MariaDb) -> None:
    ddl = "CREATE TABLE moments (id int NOT NULL PRIMARY KEY, at timestamp NULL)"
    moments = ["2024-11-03 05:30:00", "2024-11-03 06:30:00", "2024-11-03 07:30:00"]
    server.run("USE t", ddl, ("INSERT INTO moments VALUES (1, %s), (2, %s), (3, %s)", moments))
    copy = UpstreamCopy.make(None, tmp_path, server)
    first = datetime(2024, 11, 3, 5, 30, tzinfo=UTC)
    texts = [[("at", "|".join(moments[:2]))]] * 3
    copy.put_arrow(
        read_schema("t", ddl),
        pa.table(
            {
                "id": pa.array([1, 2, 3], pa.int32()),
                "at": pa.array([first] * 3, pa.timestamp("us", "UTC")),
                "_inexact": pa.array(texts, pa.map_(pa.string(), pa.string())),
            }
        ),
    )
    (found,) = copy.verify()
    assert [(each.key, each.columns) for each in found.differences] == [('{"id": "3"}', ("at",))]
