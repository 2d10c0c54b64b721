"""The names of an export's files, its metadata, its inventory and its schemas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dumpling.exporter import TSO, escape_name, format_metadata
from ticdc_assets.dumpling.export import list_export
from ticdc_assets.dumpling.metadata import read_metadata
from ticdc_assets.dumpling.path import ExportFile, parse_path
from ticdc_assets.dumpling.table_schema import read_table_schema
from ticdc_assets.errors import MalformedMessage
from ticdc_assets.schema.catalog import SchemaCatalog

NAMES = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]) | st.sampled_from("./%-"),
    min_size=1,
    max_size=20,
) | st.sampled_from(["a-schema", "-SCHEMA-view", "x.0001", "a-schema-create", "b.sql"])


@given(NAMES, NAMES)
def test_any_names_come_back(database: str, table: str) -> None:
    place = f"{escape_name(database)}.{escape_name(table)}"

    for path, role in (
        (f"{place}.0000000010001.csv.gz", "data"),
        (f"{place}-schema.sql", "schema"),
        (f"{place}-schema-view.sql", "view"),
    ):
        found = parse_path(path)
        assert found is not None
        assert (found.role, found.database, found.table) == (role, database, table)
    file = parse_path(f"{escape_name(database)}-schema-create.sql")
    assert file is not None
    assert (file.role, file.database) == ("database", database)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("d.t.000000000.sql", ExportFile("", "data", "d", "t", "sql")),
        ("d.t.0.csv.zst", ExportFile("", "data", "d", "t", "csv", "zstd")),
        ("d.t.sql", ExportFile("", "data", "d", "t", "sql")),
        ("d.t.000000001.snappy.parquet", ExportFile("", "data", "d", "t", "parquet")),
        ("d.t-schema.sql.snappy", ExportFile("", "schema", "d", "t", "sql", "snappy")),
        ("d.s-schema-sequence.sql", ExportFile("", "sequence", "d", "s")),
        ("d.t-schema-triggers.sql", ExportFile("", "other", "d", "t")),
        ("p-placement-policy-create.sql", ExportFile("", "other")),
        ("metadata.bak", None),
        ("folder/d.t.0.sql", None),
    ],
)
def test_a_name_says_what_a_file_is(path: str, expected: ExportFile | None) -> None:
    found = parse_path(path)

    assert (found and (found.role, found.database, found.table)) == (
        expected and (expected.role, expected.database, expected.table)
    )
    if found is not None and expected is not None:
        assert (found.format, found.compression) == (expected.format, expected.compression)


@pytest.mark.parametrize("path", ["d.t.0.sql.rar", "d.%zz.0.sql", "d.%ff.0.sql"])
def test_a_name_that_dumpling_would_write_differently_is_reported(path: str) -> None:
    with pytest.raises(MalformedMessage):
        parse_path(path)


OLD = """Started dump at: 2020-11-10 10:40:19
SHOW MASTER STATUS:
        Log: tidb-binlog
        Pos: 420747102018863124

Finished dump at: 2020-11-10 10:40:20
"""
AFTER_CONNECTIONS = format_metadata().replace(
    "Finished",
    "SHOW MASTER STATUS: /* AFTER CONNECTION POOL ESTABLISHED */\n"
    "\tLog: tidb-binlog\n\tPos: 470608231338082999\n\tGTID:\n\nFinished",
)


@pytest.mark.parametrize(
    ("text", "tso"),
    [
        (format_metadata(), TSO),
        (OLD, 420747102018863124),
        (AFTER_CONNECTIONS, TSO),
        (format_metadata().replace("MASTER", "BINARY LOG"), TSO),
        (format_metadata().replace("\n", "\r\n"), TSO),
    ],
)
def test_metadata_states_the_tso(text: str, tso: int) -> None:
    assert read_metadata(text.encode()) == tso


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "did not finish"),
        (format_metadata().partition("Finished")[0], "did not finish"),
        ("Finished dump at: 2020-11-10 10:40:20\n", "states no Pos"),
        (format_metadata().replace(str(TSO), "7502"), "from MySQL"),
        (format_metadata().replace(str(TSO), "2020-07-02 17:12:45"), "no TSO"),
        (format_metadata().replace(str(TSO), "9" * 30), "no TSO"),
    ],
)
def test_metadata_without_a_tso_is_an_error(text: str, reason: str) -> None:
    with pytest.raises(MalformedMessage, match=reason):
        read_metadata(text.encode())


def test_the_inventory_says_what_is_left_out() -> None:
    export = list_export(
        [
            *((name, 9, None) for name in ("metadata", "d-schema-create.sql", "d.t-schema.sql")),
            *((f"d.t.00000000{n}.sql", 10, None) for n in (1, 0)),
            *((name, 1, None) for name in ("d.v-schema.sql", "d.v-schema-view.sql")),
            *((name, 1, None) for name in ("d.s-schema-sequence.sql", "notes.txt")),
            *((name, 1, None) for name in ("d.x.0.sql", "d.Y-schema.sql", "d.y.0.sql")),
            ("d.z.0.sql", 0, "a symbolic link is not followed"),
            ("d.v.0.sql.lz4", 1, None),
        ]
    )

    tables = {
        table.name: (len(table.data), table.text_size, table.problem) for table in export.tables
    }
    assert tables == {
        "d.t": (2, 20, None),
        "d.x": (1, 1, "the export has no schema file of it: export without --no-schemas"),
        "d.Y": (1, 1, "the export has d.Y and d.y, which are one table for TiDB"),
    }
    assert dict(export.skipped) == {
        "d.v": "a view: it has no rows of its own",
        "d.s": "a sequence",
        "notes.txt": "not a file of Dumpling's",
        "d.z.0.sql": "a symbolic link is not followed",
        "d.v.0.sql.lz4": "unknown compression .lz4: expected .gz, .snappy, .zst",
    }


NOT_DUMPLINGS = "not a file of Dumpling's"


@pytest.mark.parametrize(
    ("path", "size", "problem", "reason"),
    [
        ("d.t.1.sql", 1, "a symbolic link is not followed", "a symbolic link is not followed"),
        ("d.t.1.sql.lz4", 1, None, "unknown compression .lz4: expected .gz, .snappy, .zst"),
        ("d.t.1.sql.part", 1, None, "unknown compression .part: expected .gz, .snappy, .zst"),
        ("d.t.1.sql.gz.part", 1, None, NOT_DUMPLINGS),
        ("d.t.1.SQL", 1, None, NOT_DUMPLINGS),
        ("D.T.1.SQL", 1, None, NOT_DUMPLINGS),
        ("more/d.t.1.sql", 1, None, NOT_DUMPLINGS),
        ("d.t%zz.1.sql", 1, None, "a % in its name starts no escape"),
        ("d.t%ff.1.sql", 1, None, "the escapes in its name are not UTF-8"),
        *((f"d.t.1.{end}", 0, None, "it is empty") for end in ("sql", "csv", "parquet", "sql.gz")),
    ],
)
def test_a_table_of_which_a_file_is_not_read_is_not_whole(
    path: str, size: int, problem: str | None, reason: str
) -> None:
    names = ("d.t-schema.sql", "d.t.0.sql", "d.t-x-schema.sql", "d.t2-schema.sql", "d%2Et.y.0.sql")
    names += ("d%2Et.y-schema.sql", "d-schema.sql")
    entries = [(path, size, problem), *((name, 1, None) for name in names)]

    export = list_export(entries)

    problems = {table.name: table.problem for table in export.tables if table.problem is not None}
    assert problems == {"d.t": f"its file {path} is not read: {reason}"}
    assert export.skipped == (("d-schema.sql", NOT_DUMPLINGS),)


def test_a_file_that_is_not_read_is_of_the_table_with_the_longest_name() -> None:
    names = ("d.t-schema.sql", "d.t-x-schema.sql", "d.t%2Ey-schema.sql", "d%2Et.y-schema.sql")
    unread = ("d.t-x.1.SQL", "d.t-x.2.SQL", "d.t%2Ey.1.SQL", "d.t2.1.SQL", "d.t")

    export = list_export([(name, 1, None) for name in (*names, *unread)])

    assert [table.problem for table in export.tables] == [
        None,
        f"its file d.t-x.1.SQL is not read: {NOT_DUMPLINGS} (and 1 more)",
        *[f"its file d.t%2Ey.1.SQL is not read: {NOT_DUMPLINGS}"] * 2,
    ]
    assert [name for name, _ in export.skipped] == ["d.t", "d.t2.1.SQL"]


def test_a_schema_is_read_in_the_context_of_its_database() -> None:
    head = b"/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n/*!40101 SET NAMES binary*/;\n"
    collation = b"/*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci */"
    database = head + b"CREATE DATABASE `d` %b;\n" % collation
    table = head + b"CREATE TABLE `t` (`a` int NOT NULL, `b` varchar(9), PRIMARY KEY (`a`));\n"

    schema = read_table_schema("d", "t", database, table, SchemaCatalog())

    assert schema.key == ("a",)
    assert schema.columns[1].type.collation == "utf8mb4_general_ci"


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (b"CREATE TABLE `other` (`a` int);", "creates 'other'"),
        (b"CREATE TABLE `t` (`a` geometry);", "geometry|GEOMETRY"),
        (b"DROP DATABASE d;", "no CREATE TABLE"),
        (b"", "no CREATE TABLE|cannot read"),
        (b"CREATE TABLE `t` (`\xff` int);", "not UTF-8"),
        (b"CREATE TABLE `t` (`a` int", "cannot read"),
    ],
)
def test_a_schema_that_cannot_be_read_is_an_error(sql: bytes, reason: str) -> None:
    with pytest.raises(MalformedMessage, match=reason):
        read_table_schema("d", "t", None, sql, SchemaCatalog())


def test_the_rows_of_a_dense_file_are_taken_for_longer_than_the_file() -> None:
    names = ("d.t.0.csv", "d.t.1.parquet", "d.t.2.sql.gz")
    (table,) = list_export([("d.t-schema.sql", 1, None), *((n, 10, None) for n in names)]).tables

    sizes = [data.text_size for data in table.data]
    assert sizes[0] == 10
    assert min(sizes[1:]) > 10
    assert table.text_size == sum(sizes)
