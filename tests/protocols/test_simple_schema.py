"""Conversion of stated columns: their types and defaults."""

import json
from base64 import b64decode
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests import golden
from tests.protocols.simple_messages import decode, row
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events import ColumnType, SchemaChange
from ticdc_assets.protocols.simple.json import SimpleJsonDecoder
from ticdc_assets.protocols.simple.schema import DataType, column, column_type
from ticdc_assets.reference.replay import ModelReplay
from ticdc_assets.reference.row_lines import encode_rows
from ticdc_assets.schema.types.mysql_type import map_to_delta_type


def convert(name: str, **stated: Any) -> ColumnType:
    return column_type(DataType(name, **stated))


@pytest.mark.parametrize(
    ("stated", "type_"),
    [
        (
            convert("INT", length=10, unsigned=True),
            ColumnType("int", unsigned=True, length=10),
        ),
        (
            convert("int", length=5, unsigned=True, zerofill=True),
            ColumnType("int", unsigned=True, zerofill=True, length=5),
        ),
        (convert("decimal", length=10), ColumnType("decimal", length=10, decimals=0)),
        (
            convert("decimal", length=12, decimal=2),
            ColumnType("decimal", length=12, decimals=2),
        ),
        (convert("float", length=12), ColumnType("float", length=12)),
        (convert("char"), ColumnType("char", length=0)),
        (convert("vector", length=-1), ColumnType("vector")),
        (convert("vector", length=3), ColumnType("vector", length=3)),
        # Flags of TiDB that are no part of the type.
        (convert("bit", length=8, unsigned=True), ColumnType("bit", length=8)),
        (
            convert("year", length=4, unsigned=True, zerofill=True),
            ColumnType("year", length=4),
        ),
        # JSON states fractional digits, Avro only the length of the text.
        (
            convert("datetime", length=26, decimal=6),
            ColumnType("datetime", length=26, decimals=6),
        ),
        (convert("datetime", length=26), ColumnType("datetime", length=26, decimals=6)),
        (convert("timestamp", length=19), ColumnType("timestamp", length=19, decimals=0)),
        (convert("time", length=14), ColumnType("time", length=14, decimals=3)),
        (convert("time", length=-1, decimal=-1), ColumnType("time")),
        (
            convert(
                "enum", length=1, elements=("a", "b"), charset="utf8mb4", collate="utf8mb4_bin"
            ),
            ColumnType(
                "enum", length=1, elements=("a", "b"), charset="utf8mb4", collation="utf8mb4_bin"
            ),
        ),
        # The columns of views.
        (convert("unspecified"), ColumnType("unspecified")),
    ],
)
def test_stated_types_are_converted(stated: ColumnType, type_: ColumnType) -> None:
    assert stated == type_


@pytest.mark.parametrize(
    ("type_", "stated", "default", "is_expression"),
    [
        ("int", None, None, False),
        ("int", "42", "42", False),
        ("int", "-1", "-1", False),
        ("bigint", "nextval(`d`.`s`)", "nextval(`d`.`s`)", True),
        ("decimal", "1.5", "1.5", False),
        ("double", "rand()", "rand()", True),
        ("datetime", "CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP", True),
        ("timestamp", "2024-06-01 12:00:00", "2024-06-01 12:00:00", False),
        ("time", "-01:00:00", "-01:00:00", False),
        ("varchar", "", "", False),
        ("varchar", "CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP", False),
        ("enum", "n", "n", False),
        ("set", "a,c", "a,c", False),
        ("json", "json_object()", "json_object()", True),
        ("text", "", "", False),
        ("bit", 5, "5", False),
        ("bit", "\udcff\x00", "65280", False),
        ("varbinary", "\x00\udcff", "AP8=", False),
        ("varbinary", "\x00\ufffd", "AO+/vQ==", False),
    ],
)
def test_defaults_follow_the_row_image_convention(
    type_: str, stated: int | str | None, default: str | None, is_expression: bool
) -> None:
    found = column("c", ColumnType(type_), nullable=True, default=stated)
    assert (found.default, found.default_is_expression) == (default, is_expression)


@pytest.mark.parametrize(
    ("type_", "stated"), [("int", 5), ("bit", "x" * 9), ("bit", -1), ("char", "\udcff")]
)
def test_defaults_of_the_wrong_kind_are_malformed(type_: str, stated: int | str) -> None:
    with pytest.raises(MalformedMessage):
        column("c", ColumnType(type_), nullable=True, default=stated)


def test_stated_defaults_equal_the_values_of_existing_rows() -> None:
    """TiDB gave the rows of `t_cpk` these values when the columns were added."""
    decoder = SimpleJsonDecoder(tz=ZoneInfo("UTC"))
    stated = {
        column.name: (column.type, column.default)
        for record in golden.records("types/simple-json")
        for event in decoder.decode(record)
        if isinstance(event, SchemaChange) and event.schema and event.table == "t_cpk"
        for column in event.schema.columns
        if column.default is not None
    }
    assert len(stated) == 8
    table = next(
        line
        for line in golden.open_lines(golden.GOLDEN / "types" / "truth.jsonl")
        if line["table"] == "t_cpk" and len(line["columns"]) == 15
    )
    names = [column["name"] for column in table["columns"]]
    oldest = dict(zip(names, table["rows"][0], strict=True))
    for name, (type_, default) in stated.items():
        value = b64decode(default).hex() if type_.name == "varbinary" else default
        scale = type_.decimals or 0
        if type_.name == "decimal":
            value = f"{float(default):.{scale}f}"
        assert oldest[name] == value


# The reference table of TiCDC's document "TiCDC Simple Protocol": what `mysqlType` may be.
DOCUMENTED = {
    **{name: ColumnType(name) for name in ("tinyint", "smallint", "mediumint", "int", "bigint")},
    **{
        f"{name} unsigned": ColumnType(name, unsigned=True)
        for name in ("tinyint", "smallint", "mediumint", "int", "bigint")
    },
    **{name: ColumnType(name) for name in ("float", "double", "enum", "set", "bit", "json")},
    "decimal": ColumnType("decimal", decimals=0),
    **{name: ColumnType(name, length=0) for name in ("varchar", "char", "varbinary", "binary")},
    **{
        prefix + name: ColumnType(prefix + name)
        for prefix in ("tiny", "", "medium", "long")
        for name in ("text", "blob")
    },
    **{name: ColumnType(name) for name in ("date", "year")},
    **{name: ColumnType(name, decimals=0) for name in ("datetime", "timestamp", "time")},
    "bool": ColumnType("tinyint"),
}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_type_of_the_document_is_read(name: str) -> None:
    type_ = convert(name)
    assert type_ == DOCUMENTED[name]
    assert map_to_delta_type(type_)


def test_a_type_with_other_words_stays_unknown() -> None:
    assert convert("INT ON FIRE").name == "int on fire"
    assert convert("").name == ""
    zerofill = ColumnType("int", unsigned=True, zerofill=True)
    assert convert("int unsigned zerofill") == zerofill


def test_a_stream_as_in_the_document_gives_its_rows() -> None:
    """Types with attributes, and a TIMESTAMP that is a string: no server states its zone so."""
    types = {"id": "int unsigned", "on": "bool", "at": "timestamp"}
    schema = {
        "schema": "simple",
        "table": "user",
        "tableID": 148,
        "version": 7,
        "columns": [{"name": n, "dataType": {"mysqlType": t}} for n, t in types.items()],
        "indexes": [{"name": "primary", "unique": True, "primary": True, "columns": ["id"]}],
    }
    messages = [
        {"version": 1, "type": "BOOTSTRAP", "commitTs": 0, "buildTs": 6, "tableSchema": schema},
        json.loads(
            row(
                '{"id":"4294967295","on":"1","at":"2024-02-26 05:00:00"}',
                database="simple",
                table="user",
            )
        ),
        {"version": 1, "type": "WATERMARK", "commitTs": 9, "buildTs": 6},
    ]
    replay = ModelReplay(changefeed_from_uri("dump:///x.jsonl?protocol=simple"))
    replay.add(decode(json.dumps(message)) for message in messages)
    replay.advance(replay.default_ts)
    (table,) = replay.model.tables
    assert [json.loads(line) for line in encode_rows(table)] == [
        {"id": "4294967295", "on": "1", "at": "2024-02-26 05:00:00"}
    ]
    assert replay.problems() == []
