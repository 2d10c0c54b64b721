"""Schema files: their checksums, column types, defaults and events."""

import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import GOLDEN, datasets, open_lines, records, released_datasets, storage_tree
from ticdc_assets.errors import DecodeError, MalformedMessage, UnknownMessage
from ticdc_assets.events import Bootstrap, Column, ColumnType, FilePosition, SchemaChange
from ticdc_assets.storage_sink.schema_file import SchemaFile, read_schema_file, to_event

HERE = FilePosition("a/b/meta/schema_1_0000000001.json")


def schema_files(dataset: str) -> Iterator[tuple[str, SchemaFile]]:
    for path, content in storage_tree(dataset).items():
        if "/meta/schema_" in path:
            yield path, read_schema_file(content)


def written(columns: list[dict[str, Any]] | None, **changes: Any) -> bytes:
    content = {
        "Table": "table1",
        "Schema": "schema1",
        "Version": 1,
        "TableVersion": 5,
        "Query": "CREATE …",
        "Type": 3,
        "TableColumns": columns,
        "TableColumnsTotal": len(columns or []),
    }
    return json.dumps(content | changes).encode()


def column(type_name: str, **keys: Any) -> Column:
    stated = {"ColumnName": "c", "ColumnType": type_name} | keys
    schema = read_schema_file(written([stated])).table_schema
    assert schema is not None
    return schema.columns[0]


@pytest.mark.parametrize("dataset", [*datasets("*storage*"), *released_datasets("*storage*")])
def test_every_recorded_schema_file_has_the_checksum_in_its_name(dataset: str) -> None:
    for path, file in schema_files(dataset):
        name = path.rsplit("/", 1)[1]
        assert name == f"schema_{file.version}_{file.checksum:010}.json"


def test_checksums_match_those_in_ticdc_tests() -> None:
    database = written(None, Table="", Query="CREATE DATABASE `schema1`", Type=1)
    assert read_schema_file(database).checksum == 3233644819
    table = written(
        [
            {
                "ColumnName": "Id",
                "ColumnType": "INT",
                "ColumnDefault": 10,
                "ColumnPrecision": "11",
                "ColumnNullable": "false",
                "ColumnIsPk": "true",
            },
            {
                "ColumnName": "LastName",
                "ColumnType": "VARCHAR",
                "ColumnDefault": "Default LastName",
                "ColumnPrecision": "128",
                "ColumnNullable": "false",
            },
            {
                "ColumnName": "FirstName",
                "ColumnType": "VARCHAR",
                "ColumnDefault": "Default FirstName",
                "ColumnPrecision": "64",
            },
            {"ColumnName": "Birthday", "ColumnType": "DATETIME", "ColumnDefault": 12345678},
        ]
    )
    assert read_schema_file(table).checksum == 3752767265
    # The order of the keys in a file does not matter.
    content = json.loads(table)
    content["TableColumns"] = [dict(reversed(keys.items())) for keys in content["TableColumns"]]
    reordered = json.dumps(dict(reversed(content.items()))).encode()
    assert read_schema_file(reordered).checksum == 3752767265


@pytest.mark.parametrize(
    ("type_name", "keys", "expected"),
    [
        ("INT UNSIGNED", {"ColumnPrecision": "10"}, ColumnType("int", unsigned=True, length=10)),
        ("YEAR UNSIGNED", {"ColumnPrecision": "4"}, ColumnType("year")),
        ("BIT UNSIGNED", {"ColumnPrecision": "33"}, ColumnType("bit", length=33)),
        ("FLOAT", {"ColumnPrecision": "12"}, ColumnType("float")),
        ("DOUBLE UNSIGNED", {"ColumnPrecision": "22"}, ColumnType("double", unsigned=True)),
        (
            "FLOAT",
            {"ColumnPrecision": "7", "ColumnScale": "2"},
            ColumnType("float", length=7, decimals=2),
        ),
        (
            "DECIMAL",
            {"ColumnPrecision": "10", "ColumnScale": "0"},
            ColumnType("decimal", length=10, decimals=0),
        ),
        ("DATETIME", {"ColumnScale": "6"}, ColumnType("datetime", decimals=6)),
        ("TIME", {}, ColumnType("time")),
        ("VARCHAR", {"ColumnPrecision": 64}, ColumnType("varchar", length=64)),
        ("CHAR", {"ColumnLength": "20"}, ColumnType("char", length=20)),
        ("SET", {"ColumnElems": ["a", "b,"]}, ColumnType("set", elements=("a", "b,"))),
    ],
)
def test_column_types_are_read(type_name: str, keys: dict[str, Any], expected: ColumnType) -> None:
    assert column(type_name, **keys).type == expected


@pytest.mark.parametrize(
    ("type_name", "stated", "keys", "expected"),
    [
        ("INT", "42", {}, "42"),
        ("INT", 42, {}, "42"),
        ("VARCHAR", "de'f", {}, "de'f"),
        ("VARCHAR", "", {}, ""),
        ("VARCHAR", "CURRENT_TIMESTAMP", {}, "CURRENT_TIMESTAMP"),
        ("BIT UNSIGNED", "\x05", {}, "5"),
        ("BIT UNSIGNED", "\x02\x10", {}, "528"),
        ("VARBINARY", "\x00\ufffd", {}, base64.b64encode(b"\x00\xef\xbf\xbd").decode()),
        ("ENUM", "y", {"ColumnElems": ["x", "y"]}, "y"),
        ("SET", "c,a", {"ColumnElems": ["a", "b", "c"]}, "c,a"),
        ("SET", "", {"ColumnElems": ["a"]}, ""),
    ],
)
def test_defaults_follow_the_row_image_convention(
    type_name: str, stated: Any, keys: dict[str, Any], expected: str
) -> None:
    read = column(type_name, ColumnDefault=stated, **keys)
    assert (read.default, read.default_is_expression) == (expected, False)


@pytest.mark.parametrize(
    ("type_name", "stated"),
    [
        ("TIMESTAMP", "CURRENT_TIMESTAMP"),
        ("DATETIME", "CURRENT_TIMESTAMP"),
        ("VARCHAR", "uuid()"),
        ("INT", "nextval(`d`.`s`)"),
    ],
)
def test_expression_defaults_are_recognized(type_name: str, stated: str) -> None:
    read = column(type_name, ColumnDefault=stated)
    assert (read.default, read.default_is_expression) == (stated, True)


def test_a_bit_default_with_lost_bytes_is_unknown() -> None:
    read = column("BIT UNSIGNED", ColumnDefault="\ufffd")
    assert (read.default, read.default_is_expression) == (None, False)


@pytest.mark.parametrize("generation", ["", "newarch-"])
@pytest.mark.parametrize("workload", ["types", "lifecycle", "random_1"])
def test_the_schema_equals_the_one_of_the_simple_protocol(workload: str, generation: str) -> None:
    stated = {}
    for record in records(f"{workload}/{generation}simple-json"):
        message = json.loads(record.value or b"")
        if schema := message.get("tableSchema"):
            key = message["commitTs"], schema["schema"], schema["table"]
            stated[key] = schema
    compared = 0
    for _path, file in schema_files(f"{workload}/{generation}storage-csv-full"):
        other = stated.get((file.version, file.database, file.table))
        if other is None or file.table_schema is None or "VIEW" in file.query:
            continue
        compared += 1
        columns = {column.name: column for column in file.table_schema.columns}
        assert columns.keys() == {column["name"] for column in other["columns"]}
        for theirs in other["columns"]:
            ours, kind = columns[theirs["name"]], theirs["dataType"]
            assert ours.type.name == kind["mysqlType"]
            assert ours.type.unsigned == (
                kind.get("unsigned", False) and kind["mysqlType"] not in ("bit", "year")
            )
            assert ours.nullable == theirs["nullable"]
            if ours.type.name in ("char", "varchar", "binary", "decimal", "bit", "bigint"):
                assert ours.type.length == kind["length"]
            if ours.type.name == "decimal":
                assert ours.type.decimals == kind.get("decimal", 0)
            if ours.type.elements is not None:
                assert list(ours.type.elements) == kind["elements"]
            if ours.type.name == "bit":
                assert ours.default == (None if (bit := theirs["default"]) is None else str(bit))
        unique = [set(index["columns"]) for index in other["indexes"] if index["unique"]]
        primary = [set(index["columns"]) for index in other["indexes"] if index["primary"]]
        key = {name for index in file.table_schema.indexes for name in index.columns}
        # Simple states an artificial primary index where only a unique key stands for it; here the
        # files have nothing.
        assert [key] == primary or (not key and (not primary or unique.count(primary[0]) > 1))
    assert compared > 10


def test_timestamp_defaults_are_in_utc_and_replaced_bytes_are_kept() -> None:
    truth = {}
    for row in open_lines(GOLDEN / "types" / "truth.jsonl"):
        truth[row["table"]] = row
    names = [column["name"] for column in truth["t_cpk"]["columns"]]
    filled = dict(zip(names, truth["t_cpk"]["rows"][0], strict=True))
    last = [file for path, file in schema_files("types/storage-csv-tz-shanghai") if "t_cpk" in path]
    schema = max(last, key=lambda file: file.version).table_schema
    assert schema is not None
    timestamp, binary = schema.column("added_ts"), schema.column("added_bin")
    assert timestamp is not None
    assert timestamp.default == filled["added_ts"]
    assert binary is not None
    assert base64.b64decode(binary.default or "").hex() == filled["added_bin"]


def test_a_statement_becomes_a_schema_change_and_a_snapshot_a_bootstrap() -> None:
    columns = [{"ColumnName": "c", "ColumnType": "INT"}]
    change = to_event(read_schema_file(written(columns)), HERE)
    assert isinstance(change, SchemaChange)
    assert (change.commit_ts, change.database, change.table) == (5, "schema1", "table1")
    assert (change.sql, change.ddl_type, change.position) == ("CREATE …", "3", HERE)
    assert change.schema is not None
    snapshot = to_event(read_schema_file(written(columns, Query="", Type=0)), HERE)
    assert isinstance(snapshot, Bootstrap)
    assert snapshot.schema == change.schema
    of_database = to_event(read_schema_file(written(None, Table="", Type=2)), HERE)
    assert isinstance(of_database, SchemaChange)
    assert of_database.schema is None


def test_numbers_may_be_written_as_strings() -> None:
    columns = [{"ColumnName": "c", "ColumnType": "INT"}]
    texts = written(columns, Version="1", TableVersion="5", Type="3", TableColumnsTotal="1")
    assert read_schema_file(texts) == read_schema_file(written(columns))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"null",
        written([])[:-1],
        written([], Schema=""),
        written([], Schema=7),
        written([], TableVersion=-1),
        written([], TableVersion="9" * 5000),
        written([], TableColumnsTotal=2),
        written([{"ColumnName": "c"}]),
        written([{"ColumnName": "c", "ColumnType": " "}]),
        written([{"ColumnName": "c", "ColumnType": "INT", "ColumnPrecision": "x"}]),
        written([{"ColumnName": "c", "ColumnType": "INT", "ColumnDefault": [1]}]),
        written([{"ColumnName": "c", "ColumnType": "INT", "ColumnIsPk": "no"}]),
        written([{"ColumnName": "c", "ColumnType": "SET", "ColumnElems": "ab"}]),
        written(None, Table="", Query=""),
        written([], Query=""),
        written([]).replace(b"schema1", b"\xff"),
        b'{"Table":' + b"[" * 100_000,
    ],
)
def test_broken_schema_files_are_malformed(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read_schema_file(data)


def test_a_later_file_format_is_unknown() -> None:
    with pytest.raises(UnknownMessage):
        read_schema_file(written([], Version=2))


@given(st.data())
def test_a_damaged_schema_file_is_read_or_malformed(data: st.DataObject) -> None:
    whole = next(
        content
        for path, content in storage_tree("types/newarch-storage-csv-full").items()
        if "t_enum/meta/schema_" in path
    )
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 20)))
    with suppress(DecodeError):
        read_schema_file(whole[:start] + data.draw(st.binary(max_size=6)) + whole[end:])
