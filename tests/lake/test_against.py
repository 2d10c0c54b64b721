"""Copies that other programs have written, compared with the lake: exactly what was planted."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from tests.lake.all_types import (
    COLUMNS,
    DDL,
    EXTREMES,
    Row,
    list_images,
    make_arrow,
    write_mysql,
    write_postgres,
)
from tests.lake.copies import (
    WRITERS,
    Found,
    compare,
    list_found,
    make_file,
    make_items,
    make_table,
    put_items,
    write_duckdb,
    write_parquet,
)
from tests.lake.upstream_copy import UpstreamCopy, read_schema
from tests.mariadb_server import MariaDb
from tests.postgres_server import PASSWORD, Postgres
from tests.sql_server import VARIABLE, SqlServer
from ticdc_assets.changefeed.client_settings import Reference
from ticdc_assets.errors import ConfigError

NAME = "all types"
# Row k of the copy has another value in column k; one row is missing, and one is extra.
LAKE_ROWS = (*EXTREMES, *(Row(n) for n in range(1, len(COLUMNS) + 1)), Row(100, 1))
COPY_ROWS = (
    *EXTREMES,
    *(Row(n, 0, (column.name, 1 + n % 2)) for n, column in enumerate(COLUMNS, 1)),
    Row(200, 1),
)
PLANTED: Found = {
    ("missing", "100", ()),
    ("extra", "200", ()),
    *(("differs", str(n), (column.name,)) for n, column in enumerate(COLUMNS, 1)),
}


@pytest.fixture
def lake(tmp_path: Path) -> UpstreamCopy:
    return UpstreamCopy.make(None, tmp_path / "lake", None)  # type: ignore[arg-type]


@pytest.fixture
def types(lake: UpstreamCopy) -> UpstreamCopy:
    """A lake with a table of all types."""
    lake.put_images(read_schema("shop", DDL), list_images(LAKE_ROWS))
    return lake


@pytest.fixture(scope="module")
def database(mariadb: MariaDb) -> MariaDb:
    mariadb.run("CREATE OR REPLACE DATABASE against CHARACTER SET utf8mb4")
    return mariadb


# --- every type, every kind of copy ------------------------------------------


@pytest.mark.parametrize("kind", WRITERS)
def test_exactly_what_was_planted_is_found_in_every_type(
    types: UpstreamCopy, tmp_path: Path, kind: str
) -> None:
    equal = WRITERS[kind](tmp_path / "equal", "shop", NAME, make_arrow(LAKE_ROWS))
    different = WRITERS[kind](tmp_path / "other", "shop", NAME, make_arrow(COPY_ROWS))

    (same,) = compare(types, equal)
    (found,) = compare(types, different)

    assert (same.verdict, same.reason, same.left_out) == ("equal", None, ())
    assert same.lake_rows == same.upstream_rows == len(LAKE_ROWS)
    assert (found.verdict, found.complete) == ("differs", True)
    assert list_found(found, "id") == PLANTED


def test_a_copy_in_postgresql_is_compared(types: UpstreamCopy, postgres: Postgres) -> None:
    postgres.run(
        f'DROP TABLE IF EXISTS public."{NAME}"',
        *("DROP SCHEMA IF EXISTS shop CASCADE", "CREATE SCHEMA shop"),
        *write_postgres(f'public."{NAME}"', LAKE_ROWS),
        *write_postgres(f'shop."{NAME}"', COPY_ROWS),
    )
    options = {"password": Reference("file", make_file(types, PASSWORD))}

    (same,) = compare(types, postgres.uri, table_name="{table}", **options)
    (found,) = compare(types, postgres.uri, **options)

    assert (same.verdict, same.reason, same.left_out) == ("equal", None, ())
    assert list_found(found, "id") == PLANTED


@pytest.mark.parametrize("kind", ["mariadb", "tidb"])
def test_a_copy_in_a_database_of_mysql_s_protocol_hashes_its_rows_itself(
    types: UpstreamCopy, kind: str, request: pytest.FixtureRequest
) -> None:
    server: SqlServer = request.getfixturevalue(kind)
    server.run("DROP DATABASE IF EXISTS copies", "CREATE DATABASE copies CHARACTER SET utf8mb4")
    server.run("USE copies", DDL, *write_mysql(f"`{NAME}`", LAKE_ROWS))
    uri = f"mysql://verify@127.0.0.1:{server.port}/copies"
    options = {"password": Reference("env", VARIABLE)}

    (same,) = compare(types, uri, **options)
    server.run("USE copies", f"DELETE FROM `{NAME}`", *write_mysql(f"`{NAME}`", COPY_ROWS))
    (found,) = compare(types, uri, **options)

    assert [(d.key, d.columns, d.lake, d.upstream) for d in same.differences] == []
    assert (same.verdict, same.reason, same.left_out) == ("equal", None, ())
    assert (same.rows_summed, same.rows_sent) == (len(LAKE_ROWS), 0)
    assert list_found(found, "id") == PLANTED


# --- columns, keys and names --------------------------------------------------


def test_columns_that_cannot_be_compared_are_named_with_the_reason(
    lake: UpstreamCopy, tmp_path: Path
) -> None:
    ddl = "CREATE TABLE t (id int NOT NULL PRIMARY KEY, a varbinary(9), b time, c int, d datetime)"
    put_items(lake, [(1, "AP8=", "10:00:00", "3", "2024-01-01 00:00:00")], ddl=ddl)
    rows = make_table(
        [(1, "00ff", 36_000_000_000, 1_704_067_200, True)],
        ID=pa.int8(),
        a=pa.string(),
        b=pa.int64(),
        d=pa.int64(),
        synced=pa.bool_(),
    )
    (found,) = compare(lake, write_parquet(tmp_path, "shop", "t", rows))
    assert (found.verdict, found.lake_rows, found.upstream_rows) == ("equal", 1, 1)
    assert found.left_out == (
        "a: binary values as text, in an encoding that is not known",
        "b: a number whose unit is not known",
        "c: the copy has no such column",
        "d: a number whose unit is not known",
        "synced: only the copy has it",
    )
    keyless = write_parquet(tmp_path / "keyless", "shop", "t", pa.table({"c": [3]}))
    (found,) = compare(lake, keyless)
    reason = "its key has columns that cannot be compared: id: the copy has no such column"
    assert (found.verdict, found.reason) == ("skipped", reason)


def test_rows_without_a_key_are_counted(lake: UpstreamCopy, tmp_path: Path) -> None:
    ddl = "CREATE TABLE t (a int, b varchar(9))"
    put_items(lake, [(1, "x"), (1, "x"), (2, None), (3, "z")], ddl=ddl)
    rows = make_table([(1, "x"), (2, None), (2, None), (3, "y")], a=pa.int32(), b=pa.string())
    (found,) = compare(lake, write_parquet(tmp_path, "shop", "t", rows))
    stated = {(each.what, each.copies, each.lake, each.upstream) for each in found.differences}
    assert len(found.differences) == 4
    assert stated == {
        ("missing", 1, '{"a": "1", "b": "x"}', '{"a": "1", "b": "x"}'),
        ("missing", 1, '{"a": "3", "b": "z"}', None),
        ("extra", 1, '{"a": "2", "b": null}', '{"a": "2", "b": null}'),
        ("extra", 1, None, '{"a": "3", "b": "y"}'),
    }


def test_a_key_of_several_columns_and_a_key_that_the_copy_has_twice(
    lake: UpstreamCopy, tmp_path: Path
) -> None:
    ddl = "CREATE TABLE t (a int NOT NULL, b varchar(9) NOT NULL, c int, PRIMARY KEY (b, a))"
    put_items(lake, [(1, "1,1:x", 1), (1, "x", 1), (2, "x", 1)], ddl=ddl)
    rows = make_table(
        [(1, "1,1:x", 1), (1, "x", 2), (2, "x", 1), (2, "x", 1)],
        a=pa.int32(),
        b=pa.string(),
        c=pa.int32(),
    )
    (found,) = compare(lake, write_parquet(tmp_path, "shop", "t", rows))
    assert list_found(found, "a", "b") == {
        ("differs", ("1", "x"), ("c",)),
        ("extra", ("2", "x"), ()),
    }


HOSTILE = ['a"b`c', "it's; DROP TABLE x --", "{schema}", "%s $1 %", "é ✓", "select", " a.b "]


def test_names_are_names_whatever_is_in_them(lake: UpstreamCopy, tmp_path: Path) -> None:
    uris = set()
    for name in HOSTILE:
        quoted = name.replace("`", "``")
        ddl = f"CREATE TABLE `{quoted}` (id int NOT NULL PRIMARY KEY, `{quoted}` varchar(9))"
        put_items(lake, [(1, "x"), (2, "y")], ddl=ddl, database=name)
        rows = make_table([(1, "x"), (2, "z")], **{"id": pa.int32(), name: pa.string()})
        uris |= {write(tmp_path, name, name, rows) for write in (write_parquet, write_duckdb)}
    for uri in uris:
        found = {each.table: list_found(each, "id") for each in compare(lake, uri)}
        assert found == {name: {("differs", "2", (name,))} for name in HOSTILE}, uri


def test_hostile_names_in_databases(
    lake: UpstreamCopy, database: MariaDb, postgres: Postgres
) -> None:
    name = HOSTILE[0] + HOSTILE[1] + HOSTILE[3]
    quoted, double = name.replace("`", "``"), name.replace('"', '""')
    ddl = f"CREATE TABLE `{quoted}` (id int NOT NULL PRIMARY KEY, `{quoted}` varchar(9))"
    put_items(lake, [(1, "x"), (2, "y")], ddl=ddl, database=name)
    database.run(
        *(f"CREATE OR REPLACE DATABASE `{quoted}`", f"USE `{quoted}`", ddl),
        (f"INSERT INTO `{quoted.replace('%', '%%')}` VALUES (1, %s), (2, 'z')", ["x"]),
    )
    postgres.run(
        *(f'DROP SCHEMA IF EXISTS "{double}" CASCADE', f'CREATE SCHEMA "{double}"'),
        f'CREATE TABLE "{double}"."{double}" (id int, "{double}" text)',
        f"""INSERT INTO "{double}"."{double}" VALUES (1, 'x'), (2, 'z')""",
    )
    servers = {
        f"mysql://verify@127.0.0.1:{database.port}": Reference("env", VARIABLE),
        postgres.uri: Reference("file", make_file(lake, PASSWORD)),
    }
    for uri, password in servers.items():
        (found,) = compare(lake, uri, password=password)
        assert list_found(found, "id") == {("differs", "2", (name,))}, uri


def test_tables_are_found_by_a_template(lake: UpstreamCopy, tmp_path: Path) -> None:
    put_items(lake, make_items(3))
    uri = write_duckdb(tmp_path, "raw", "shop__items", make_table(make_items(3)))
    (named,) = compare(lake, uri, table_name="raw.{schema}__{table}")
    (other,) = compare(lake, uri)
    assert named.verdict == "equal"
    assert (other.verdict, other.reason) == ("differs", "the copy has no table of this name")
    with pytest.raises(ConfigError, match="--table-name"):
        compare(lake, uri, table_name="{schema}")


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_columns_that_are_in_the_names_of_folders_are_compared(
    lake: UpstreamCopy, tmp_path: Path, kind: str
) -> None:
    groups = {n: f"group {n % 2}" for n in range(9)}
    put_items(lake, make_items(9, groups))
    rows = make_table(make_items(9, groups | {5: "group 0"}))
    path = tmp_path / "shop" / "items"
    if kind == "delta":
        write_deltalake(path, rows, partition_by=["title"])
    else:
        pq.write_to_dataset(rows, path, partition_cols=["title"])
    (found,) = compare(lake, f"{kind}:{tmp_path}")
    assert found.left_out == ()
    assert list_found(found, "id") == {("differs", "5", ("title",))}
