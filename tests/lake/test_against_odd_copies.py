"""Copies of odd forms: old Parquet, files that are no data, and names that mean something else."""

import os
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.lake.copies import (
    ITEMS,
    Write,
    compare,
    list_found,
    make_file,
    make_items,
    make_table,
    put_items,
    write_delta,
    write_duckdb,
    write_iceberg,
    write_parquet,
)
from tests.lake.upstream_copy import UpstreamCopy
from tests.mariadb_server import MariaDb
from tests.postgres_server import PASSWORD, Postgres
from tests.sql_server import VARIABLE
from ticdc_assets.changefeed.client_settings import Reference
from ticdc_assets.resources.copies import open_copy
from ticdc_assets.verify.against import AgainstEnvironment, verify_copy


@pytest.fixture
def lake(tmp_path: Path) -> UpstreamCopy:
    return UpstreamCopy.make(None, tmp_path / "lake", None)  # type: ignore[arg-type]


@pytest.mark.parametrize("write", [write_parquet, write_delta])
def test_moments_of_96_bits_are_not_cut_to_nanoseconds(
    lake: UpstreamCopy, tmp_path: Path, write: Write
) -> None:
    moments = [datetime(9999, 12, 31, 23, 59, 59), datetime(1000, 1, 1), datetime(1969, 12, 31, 23)]
    ddl = "CREATE TABLE t (id int NOT NULL PRIMARY KEY, at datetime)"
    put_items(lake, [(n, at.isoformat(" ")) for n, at in enumerate(moments)], ddl=ddl)
    moments[2] = datetime(1969, 12, 31, 22)
    rows = pa.table({"id": [0, 1, 2], "at": pa.array(moments, pa.timestamp("us"))})
    uri = write(tmp_path, "shop", "t", rows)
    for file in tmp_path.glob("*/shop*/**/*.parquet"):
        # As Spark writes it.
        content = pq.read_table(file, partitioning=None)
        pq.write_table(content, file, use_deprecated_int96_timestamps=True)
    (found,) = compare(lake, uri)
    assert list_found(found, "id") == {("differs", "2", ("at",))}


def test_files_in_hidden_folders_are_no_rows(lake: UpstreamCopy, tmp_path: Path) -> None:
    put_items(lake, make_items(3))
    uri = write_parquet(tmp_path, "shop", "items", make_table(make_items(3)))
    for hidden in ("_temporary/0", ".staging"):
        folder = tmp_path / "parquet" / "shop" / "items" / hidden
        folder.mkdir(parents=True)
        pq.write_table(make_table([(9, "x", "1.5")]), folder / "part.parquet")
    (found,) = compare(lake, uri)
    assert (found.verdict, found.upstream_rows) == ("equal", 3)


def test_the_files_of_a_delta_table_are_not_taken_for_its_rows(
    lake: UpstreamCopy, tmp_path: Path
) -> None:
    put_items(lake, make_items(3))
    for _ in range(2):
        write_delta(tmp_path, "shop", "items", make_table(make_items(3)))
    (found,) = compare(lake, f"parquet:{tmp_path}/delta")
    reason = "it is a Delta table: compare it with delta:"
    assert (found.verdict, found.reason) == ("skipped", reason)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_names_of_folders_that_look_like_numbers_are_texts(
    lake: UpstreamCopy, tmp_path: Path, scheme: str
) -> None:
    ddl = "CREATE TABLE t (id int NOT NULL, v varchar(9), n int, PRIMARY KEY (id, n))"
    put_items(lake, [(1, "007", "1"), (2, "7", "1"), (3, None, "1")], ddl=ddl)
    rows = make_table(
        [(1, "007", 1), (2, "07", 1), (3, None, 1)], id=pa.int32(), v=pa.string(), n=pa.int32()
    )
    # Some writers have the column in the files, too.
    for number, value in enumerate(["007", "07", "__HIVE_DEFAULT_PARTITION__"]):
        folder = tmp_path / "shop" / "t" / f"v={value}" / "n=1"
        folder.mkdir(parents=True)
        pq.write_table(rows.slice(number, 1).select(["id", "n"]), folder / "part.parquet")
    (found,) = compare(lake, f"parquet:{scheme}{tmp_path}")
    (other,) = compare(lake, f"parquet:{scheme}{tmp_path}", table_name="other.{table}")
    assert (other.verdict, other.reason) == ("differs", "the copy has no table of this name")
    assert found.left_out == ()
    assert list_found(found, "id") == {("differs", "2", ("v",))}


def test_a_folder_that_is_not_there_is_no_difference(lake: UpstreamCopy, tmp_path: Path) -> None:
    put_items(lake, make_items(3))
    (found,) = compare(lake, f"parquet:{tmp_path}/typo")
    assert (found.verdict, found.reason) == ("skipped", f"there is no folder {tmp_path}/typo")


def test_metadata_of_iceberg_that_is_not_the_newest_is_not_read(
    lake: UpstreamCopy, tmp_path: Path
) -> None:
    put_items(lake, make_items(3))
    uri = write_iceberg(tmp_path, "shop", "items", make_table(make_items(3)))
    first, newest = sorted((tmp_path / "iceberg").glob("**/*.metadata.json"))
    late = newest.with_name("00001-ffffffff-0000-0000-0000-000000000000.metadata.json")
    late.write_bytes(first.read_bytes())
    os.utime(late, (1, 1))
    (found,) = compare(lake, uri)
    assert found.verdict == "equal"
    newest.write_text("{}")
    (found,) = compare(lake, uri)
    assert found.verdict == "skipped"


def test_a_folder_without_a_table_does_not_hide_the_next_one(
    lake: UpstreamCopy, tmp_path: Path
) -> None:
    put_items(lake, make_items(3))
    uri = write_delta(tmp_path, "shop", "items", make_table(make_items(3)))
    (tmp_path / "delta" / "shop" / "items").mkdir(parents=True)
    (found,) = compare(lake, uri)
    assert found.verdict == "equal"


@pytest.mark.parametrize("type", ["int", "varchar(9)"])
def test_a_column_that_duckdb_would_take_for_the_number_of_a_row(
    lake: UpstreamCopy, tmp_path: Path, type: str
) -> None:
    ddl = f"CREATE TABLE t (id int NOT NULL PRIMARY KEY, RowId {type})"
    put_items(lake, [(1, None), (2, "-5"), (3, "7")], ddl=ddl)
    columns = {"id": pa.int32(), "ROWID": pa.int32() if type == "int" else pa.string()}
    values = [None, "-5", "8"] if type != "int" else [None, -5, 8]
    rows = make_table(list(zip([1, 2, 3], values, strict=True)), **columns)
    (found,) = compare(lake, write_duckdb(tmp_path, "shop", "t", rows))
    assert list_found(found, "id") == {("differs", "3", ("RowId",))}


def test_texts_of_a_copy_are_not_taken_for_several_values_nor_for_null(
    lake: UpstreamCopy, tmp_path: Path
) -> None:
    put_items(lake, [(1, "2,1:x"), (None, "y")], ddl="CREATE TABLE t (a int, b varchar(40))")
    rows = pa.table({"a": ["1,5:2", "~"], "b": ["x", "y"]})
    (found,) = compare(lake, write_parquet(tmp_path, "shop", "t", rows))
    assert sorted(each.what for each in found.differences) == ["extra"] * 2 + ["missing"] * 2


def test_a_number_that_is_none_is_shown(lake: UpstreamCopy, tmp_path: Path) -> None:
    put_items(lake, [(1, "1")], ddl="CREATE TABLE t (id int NOT NULL PRIMARY KEY, v double)")
    (found,) = compare(lake, write_duckdb(tmp_path, "shop", "t", pa.table({"id": [1], "v": ["x"]})))
    (difference,) = found.differences
    assert (difference.lake, difference.upstream) == ('{"v": "1"}', '{"v": "x"}')


def test_a_killed_run_is_not_continued_with_other_names(lake: UpstreamCopy, tmp_path: Path) -> None:
    for name in ("items", "others"):
        put_items(lake, make_items(3), ddl=ITEMS.replace("items", name))
        uri = write_duckdb(tmp_path, "raw", f"shop__{name}", make_table(make_items(3)))
    killed = verify_copy(AgainstEnvironment(lake.lake, open_copy(uri)), [], lambda rows: None)
    assert next(iter(killed)).reason == "the copy has no table of this name"
    found = compare(lake, uri, table_name="raw.{schema}__{table}")
    assert [each.verdict for each in found] == ["equal", "equal"]


def test_a_server_sends_equal_rows_without_a_key_once(lake: UpstreamCopy, mariadb: MariaDb) -> None:
    ddl = "CREATE TABLE t (a int, b varchar(9))"
    put_items(lake, [(7, "x")] * 500 + [(8, None)], ddl=ddl)
    values = ", ".join(["(7, 'x')"] * 498 + ["(8, NULL)", "(8, NULL)"])
    mariadb.run("CREATE OR REPLACE DATABASE equals", "USE equals", ddl)
    mariadb.run("USE equals", f"INSERT INTO t VALUES {values}")
    uri = f"mysql://verify@127.0.0.1:{mariadb.port}/equals"
    (found,) = compare(lake, uri, password=Reference("env", VARIABLE))
    stated = {(each.what, each.copies, each.lake) for each in found.differences}
    assert stated == {
        ("missing", 2, '{"a": "7", "b": "x"}'),
        ("extra", 1, '{"a": "8", "b": null}'),
    }
    assert found.rows_sent == 4


def test_arrays_of_postgresql_are_lists(lake: UpstreamCopy, postgres: Postgres) -> None:
    ddl = "CREATE TABLE t (id int NOT NULL PRIMARY KEY, s set('x','y'), v vector, w varchar(9))"
    put_items(
        lake, [(1, "x,y", "[1,0.1]", "x"), (2, "x", "[1]", "x"), (3, None, None, "")], ddl=ddl
    )
    postgres.run(
        *("DROP SCHEMA IF EXISTS shop CASCADE", "CREATE SCHEMA shop"),
        "CREATE TABLE shop.t (id int, s text[], v float4[], w varchar[])",
        "INSERT INTO shop.t VALUES (1, '{x,y}', '{1,0.1}'), (2, '{x,NULL}', '{2}')",
        "INSERT INTO shop.t VALUES (3)",
    )
    options = {"password": Reference("file", make_file(lake, PASSWORD))}
    (found,) = compare(lake, postgres.uri, **options)
    assert found.left_out == ("w: texts as another type, which does not keep how they are",)
    assert list_found(found, "id") == {("differs", "2", ("s", "v"))}
