import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.golden import records
from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import (
    Bootstrap,
    Checksum,
    Column,
    ColumnType,
    Event,
    RowChange,
    SchemaChange,
    TableSchema,
)
from ticdc_assets.events.row_image import dump, load
from ticdc_assets.protocols.simple.avro import SimpleAvroDecoder
from ticdc_assets.protocols.simple.json import SimpleJsonDecoder
from ticdc_assets.schema.types.checksum import compute_checksum, verify_checksum
from ticdc_assets.schema.types.mysql_type import parse_type
from ticdc_assets.schema.types.value import Value
from ticdc_assets.schema.types.value_reader import read_value

DATASETS = ["types/simple-json-checksum", "types/simple-avro-checksum"]
DECODERS = {
    "types/simple-json-checksum": SimpleJsonDecoder(tz=ZoneInfo("UTC")),
    "types/simple-avro-checksum": SimpleAvroDecoder(tz=ZoneInfo("UTC")),
}


def decoded(dataset: str) -> Iterator[Event]:
    for message in records(dataset):
        yield from DECODERS[dataset].decode(message)


@cache
def rows(dataset: str) -> list[tuple[RowChange, TableSchema]]:
    """The rows of a dataset with the schema that each names."""
    schemas = {}
    changes = []
    for event in decoded(dataset):
        if isinstance(event, Bootstrap | SchemaChange) and event.schema is not None:
            schema = event.schema
            schemas[schema.database, schema.table, schema.version] = schema
        elif isinstance(event, RowChange):
            changes.append(event)
    return [(c, schemas[c.database, c.table, c.schema_version]) for c in changes]


def _states(change: RowChange) -> Checksum | None:
    """The checksums of a row that can be held against it; split updates state zeros only."""
    stated = change.checksum
    return stated if stated and not stated.corrupted and stated.current | stated.previous else None


@pytest.mark.parametrize("dataset", DATASETS)
def test_every_stated_checksum_verifies_unless_the_server_says_corrupted(dataset: str) -> None:
    verdicts = Counter(verify_checksum(change, schema).status for change, schema in rows(dataset))
    stated = [checksum for change, _ in rows(dataset) if (checksum := _states(change))]
    assert verdicts.keys() == {"ok", "absent", "corrupted"}
    assert verdicts["ok"] == len(stated)
    assert sum(bool(c.current) + bool(c.previous) for c in stated) == 720


@pytest.mark.parametrize("dataset", DATASETS)
def test_typed_rows_have_the_same_checksum(dataset: str) -> None:
    compared = 0
    for change, schema in rows(dataset):
        stated = _states(change)
        if stated is None or change.after is None or change.table == "t_enum_bad":
            continue  # the enums of t_enum_bad hold 0, which prints like the member ''
        types = {column.name: column.type for column in schema.columns}
        row = {name: read_value(text, types[name]) for name, text in load(change.after).items()}
        assert compute_checksum(row, schema.columns) == stated.current
        compared += 1
    assert compared > 400


def _verified() -> list[tuple[RowChange, TableSchema]]:
    return [pair for pair in rows(DATASETS[0]) if pair[0].after and _states(pair[0])]


@given(st.data())
def test_a_value_that_is_not_the_stated_one_is_caught(data: st.DataObject) -> None:
    change, schema = data.draw(st.sampled_from(_verified()))
    assert change.after is not None
    row = load(change.after)
    name = data.draw(st.sampled_from(sorted(row)))
    column = schema.column(name)
    assert column is not None
    text = row[name]
    forged: str | None
    if text:
        at = data.draw(st.integers(0, len(text) - 1))
        forged = text[:at] + chr(ord(text[at]) ^ 1 << data.draw(st.integers(0, 6))) + text[at + 1 :]
    else:
        forged = data.draw(st.sampled_from(["0", "1", "x", None]))
    if forged == text or _alike(forged, text, column):
        return
    row[name] = forged
    verdict = verify_checksum(replace(change, after=dump(row)), schema)
    assert (verdict.status, verdict.side) == ("mismatch", "current")


def _alike(one: str | None, other: str | None, column: Column) -> bool:
    """Texts may differ where values do not: `+1` and `1`."""
    try:
        return read_value(one, column.type) == read_value(other, column.type)
    except InvalidValue:
        return False


def _one(type_text: str, text: str | None, checksum: Checksum) -> tuple[RowChange, TableSchema]:
    change, _ = _verified()[0]
    schema = TableSchema("d", "t", (Column("c", parse_type(type_text)),))
    return replace(change, before=None, after=dump({"c": text}), checksum=checksum), schema


def test_a_vector_contributes_its_serialized_form_without_a_length() -> None:
    # Facts §7: int 1, varchar "aa", NULL, float 90.5, timestamp 2020-01-01 00:00:00 UTC.
    row: dict[str, Value] = {"i": 1, "v": "aa", "n": None, "f": 90.5, "t": "2020-01-01 00:00:00"}
    types = {"i": "int", "v": "varchar(9)", "n": "int", "f": "float", "t": "timestamp"}
    assert compute_checksum(row, [Column(n, parse_type(t)) for n, t in types.items()]) == 55208201
    three = Column("v", parse_type("vector(3)"))
    raw = bytes.fromhex("030000000000803f00000040000020c0")
    as_integers = [int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:], "little")]
    two = [Column(name, parse_type("bigint unsigned")) for name in "ab"]
    assert compute_checksum({"v": "[1,2,-2.5]"}, [three]) == compute_checksum(
        dict(zip("ab", as_integers, strict=True)), two
    )


def test_an_enum_index_is_hashed_as_sent_not_by_its_name() -> None:
    t = parse_type("enum('','x')")
    member = compute_checksum({"c": 1}, [Column("c", ColumnType("bigint"))])
    invalid = compute_checksum({"c": 0}, [Column("c", ColumnType("bigint"))])
    assert read_value("0", t) == read_value("1", t) == ""
    for text, crc in (("1", member), ("0", invalid)):
        assert (
            verify_checksum(*_one("enum('','x')", text, Checksum(1, False, crc, 0))).status == "ok"
        )


def test_what_cannot_be_verified_is_said() -> None:
    stated = Checksum(1, False, 7, 0)
    change, schema = _one("int", "1", stated)
    assert verify_checksum(replace(change, checksum=None), schema).status == "absent"
    assert (
        verify_checksum(replace(change, checksum=Checksum(1, False, 0, 0)), schema).status
        == "absent"
    )
    assert (
        verify_checksum(replace(change, checksum=Checksum(1, True, 7, 7)), schema).status
        == "corrupted"
    )
    assert verify_checksum(replace(change, handle_key_only=True), schema).status == "not verifiable"
    assert verify_checksum(replace(change, after=None), schema).status == "not verifiable"
    other = TableSchema("d", "t", (Column("d", ColumnType("int")),))
    assert verify_checksum(change, other).status == "not verifiable"
    verdict = verify_checksum(change, schema)
    assert (verdict.status, verdict.side, verdict.expected) == ("mismatch", "current", 7)
    assert verdict.computed == compute_checksum({"c": 1}, schema.columns)


@given(st.text(), st.sampled_from(["int", "bit(8)", "json", "vector", "blob", "enum('a')"]))
def test_any_image_gets_a_verdict(text: str, type_text: str) -> None:
    change, schema = _one(type_text, text, Checksum(1, False, 1, 0))
    assert verify_checksum(change, schema).status in ("ok", "mismatch")
    assert verify_checksum(replace(change, after=text), schema).status == "mismatch"
    listed = json.dumps({"c": [text]})
    assert verify_checksum(replace(change, after=listed), schema).status == "mismatch"
