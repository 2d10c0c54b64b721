"""Copies compared with a real TiDB: every type, in every kind of copy."""

from pathlib import Path

import pyarrow as pa
import pytest

from tests.lake.all_types import DDL, make_arrow, write_mysql, write_postgres
from tests.lake.copies import WRITERS, list_found, make_file, write_parquet
from tests.lake.test_against import COPY_ROWS, LAKE_ROWS, NAME, PLANTED
from tests.lake.tidb_copies import against, know
from tests.lake.upstream_copy import UpstreamCopy
from tests.postgres_server import PASSWORD, Postgres
from tests.sql_server import VARIABLE, SqlServer
from tests.tidb_server import Tidb
from ticdc_assets.changefeed.client_settings import Reference


@pytest.fixture
def lake(tmp_path: Path, tidb: Tidb) -> UpstreamCopy:
    tidb.run("DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop CHARACTER SET utf8mb4")
    return UpstreamCopy.make(None, tmp_path / "lake", None)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", WRITERS)
def test_exactly_what_was_planted_is_found_in_every_type(
    lake: UpstreamCopy, tidb: Tidb, tmp_path: Path, kind: str
) -> None:
    fill_types(lake, tidb)
    equal = WRITERS[kind](tmp_path / "equal", "shop", NAME, make_arrow(LAKE_ROWS))
    different = WRITERS[kind](tmp_path / "other", "shop", NAME, make_arrow(COPY_ROWS))

    (same,) = against(lake, tidb, equal)
    (found,) = against(lake, tidb, different)

    assert [(d.key, d.columns, d.lake, d.upstream) for d in same.differences] == []
    assert (same.verdict, same.reason, same.left_out) == ("equal", None, ())
    assert same.lake_rows == same.upstream_rows == len(LAKE_ROWS)
    assert (found.verdict, found.complete) == ("differs", True)
    assert list_found(found, "id") == PLANTED


def fill_types(lake: UpstreamCopy, tidb: Tidb) -> None:
    tidb.run("USE shop", DDL, *write_mysql(f"`{NAME}`", LAKE_ROWS))
    know(lake, DDL)


def test_a_copy_in_postgresql_is_compared(
    lake: UpstreamCopy, tidb: Tidb, postgres: Postgres
) -> None:
    fill_types(lake, tidb)
    postgres.run(
        *("DROP SCHEMA IF EXISTS shop CASCADE", "CREATE SCHEMA shop"),
        f'DROP TABLE IF EXISTS public."{NAME}"',
        *write_postgres(f'public."{NAME}"', LAKE_ROWS),
        *write_postgres(f'shop."{NAME}"', COPY_ROWS),
    )
    options = {"password": Reference("file", make_file(lake, PASSWORD))}

    (same,) = against(lake, tidb, postgres.uri, table_name="{table}", **options)
    (found,) = against(lake, tidb, postgres.uri, **options)

    assert (same.verdict, same.reason, same.left_out) == ("equal", None, ())
    assert list_found(found, "id") == PLANTED


# What a copy may have for a type that has more, or less, digits; the rows are the same.
OTHER_TYPES = {
    "decimal(12,4)": "decimal(10,2)",
    "decimal(10,0)": "decimal(10,3)",
    "datetime(6)": "datetime(3)",
    "datetime": "timestamp(2) NULL",
    "time(1)": "time(5)",
    "timestamp(6) NULL": "datetime",
    "varchar(20)": "longtext",
    "enum('a','b')": "varchar(9)",
    "float": "double",
    "bigint": "int unsigned",
}
OTHER_VALUES = ("1.5", "2", "'2024-01-02 03:04:05.12'", "'2024-01-02 03:04:05'", "'01:02:03.4'")
OTHER_VALUES += ("'2024-01-02 03:04:05'", "'x'", "'b'", "0.25", "7")


@pytest.mark.parametrize("kind", ["mariadb", "tidb"])
def test_a_copy_in_a_database_of_mysql_s_protocol_sends_no_equal_row_either(
    lake: UpstreamCopy, tidb: Tidb, kind: str, request: pytest.FixtureRequest
) -> None:
    fill_types(lake, tidb)
    mine = ", ".join(f"c{n} {type}" for n, type in enumerate(OTHER_TYPES))
    theirs = ", ".join(f"c{n} {type}" for n, type in enumerate(OTHER_TYPES.values()))
    row = f"INSERT INTO other VALUES (1, {', '.join(OTHER_VALUES)})"
    create = "CREATE TABLE other (id int NOT NULL PRIMARY KEY, {})"
    tidb.run("USE shop", create.format(mine), row)
    know(lake, create.format(mine))
    server: SqlServer = request.getfixturevalue(kind)
    server.run("DROP DATABASE IF EXISTS copies", "CREATE DATABASE copies CHARACTER SET utf8mb4")
    server.run("USE copies", DDL, *write_mysql(f"`{NAME}`", LAKE_ROWS))
    server.run("USE copies", create.format(theirs), row)
    uri = f"mysql://verify@127.0.0.1:{server.port}/copies"
    options = {"password": Reference("env", VARIABLE)}

    for same in against(lake, tidb, uri, **options):
        assert [(d.key, d.columns, d.lake, d.upstream) for d in same.differences] == []
        assert (same.verdict, same.reason, same.left_out) == ("equal", None, ())
        assert (same.rows_summed, same.rows_sent) == (same.lake_rows, 0)
    server.run("USE copies", f"DELETE FROM `{NAME}`", *write_mysql(f"`{NAME}`", COPY_ROWS))
    server.run(
        "UPDATE copies.other SET c0 = 1.51, c3 = '2024-01-02 03:04:05.5', c4 = '01:02:03.41'"
    )
    types, other = against(lake, tidb, uri, **options)
    assert list_found(types, "id") == PLANTED
    assert list_found(other, "id") == {("differs", "1", ("c0", "c3", "c4"))}


def test_a_table_that_needs_too_much_memory_of_tidb_is_skipped_and_others_are_compared(
    lake: UpstreamCopy, tidb: Tidb, tmp_path: Path
) -> None:
    for name in ("large", "small"):
        ddl = f"CREATE TABLE {name} (id int NOT NULL PRIMARY KEY, v longtext)"
        tidb.run("USE shop", ddl)
        know(lake, ddl)
        size = 1_000_000 if name == "large" else 1
        tidb.run(f"INSERT INTO shop.{name} VALUES (1, REPEAT('x', {size})), (2, 'y')")
        held = pa.table({"id": [1, 2], "v": ["z" if size > 1 else "x", "y"]})
        uri = write_parquet(tmp_path, "shop", name, held)
    ((before,),) = tidb.run("SELECT @@GLOBAL.tidb_mem_quota_query")
    tidb.run("SET GLOBAL tidb_mem_quota_query = 131072")
    try:
        large, small = against(lake, tidb, uri)
    finally:
        tidb.run(f"SET GLOBAL tidb_mem_quota_query = {before}")
    assert (large.verdict, small.verdict) == ("skipped", "equal")
    assert "increase the tidb_mem_quota_query" in (large.reason or "")
    large, small = against(lake, tidb, uri)
    assert (list_found(large, "id"), small.verdict) == ({("differs", "1", ("v",))}, "equal")


# A text that a copy has for each type, and what is none of its values.
TEXTS = {
    "int": ("-5", ["~5", "-5.5", "-5 ", "~", ""]),
    "decimal(8,2)": ("-1.50", ["~1.50", "-1,50", "-1.501", "-1.5.0"]),
    "double": ("1", ["4503599627370496p0", "1.0000000000000002", "p"]),
    "date": ("2024-01-02", ["2024~01~02", "2024-01-02 00:00", "24-01-02"]),
    "datetime": ("2024-01-02 03:04:05", ["2024~01~02 03:04:05", "2024-01-02 03:04"]),
    "time": ("-01:02:03", ["~01:02:03", "01:02:03"]),
}


def test_a_text_that_only_looks_like_a_value_differs(
    lake: UpstreamCopy, tidb: Tidb, tmp_path: Path
) -> None:
    for number, (type, (value, others)) in enumerate(TEXTS.items()):
        ddl = f"CREATE TABLE t{number} (id int NOT NULL PRIMARY KEY, v {type})"
        texts = [value, *others]
        rows = ", ".join(f"({id}, '{value}')" for id in range(len(texts)))
        tidb.run("USE shop", ddl, f"INSERT INTO t{number} VALUES {rows}")
        know(lake, ddl)
        held = pa.table({"id": [*range(len(texts))], "v": texts})
        uri = write_parquet(tmp_path, "shop", f"t{number}", held)
    for found in against(lake, tidb, uri):
        ((count,),) = tidb.run(f"SELECT COUNT(*) FROM shop.{found.table}")
        # As plain texts, only the first row of each is the one that TiDB prints.
        planted = {("differs", str(id), ("v",)) for id in range(1, count)}
        assert list_found(found, "id") == planted, found.table
