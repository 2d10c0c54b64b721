"""Row checksums, verified against recorded rows and against changed ones."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.golden import records
from tests.schema.hashed_values import MAKERS, make_row
from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import (
    Bootstrap,
    Checksum,
    Column,
    ColumnType,
    Event,
    Op,
    RowChange,
    SchemaChange,
    TableSchema,
)
from ticdc_assets.events.row_image import dump, load
from ticdc_assets.protocols.simple.avro import SimpleAvroDecoder
from ticdc_assets.protocols.simple.json import SimpleJsonDecoder
from ticdc_assets.schema.reconciliation import reconcile
from ticdc_assets.schema.types.checksum import RowHasher, verify_checksum
from ticdc_assets.schema.types.mysql_type import parse_type
from ticdc_assets.schema.types.row import RowReader
from ticdc_assets.schema.types.value_reader import read_value

DATASETS = ["types/simple-json-checksum", "types/simple-avro-checksum"]
DECODERS = {
    "types/simple-json-checksum": SimpleJsonDecoder(tz=ZoneInfo("UTC")),
    "types/simple-avro-checksum": SimpleAvroDecoder(tz=ZoneInfo("UTC")),
}


def decode_dataset(dataset: str) -> Iterator[Event]:
    for message in records(dataset):
        yield from DECODERS[dataset].decode(message)


@cache
def rows(dataset: str) -> list[tuple[RowChange, TableSchema]]:
    """Return the rows of a dataset, each with the schema of its schema version."""
    schemas = {}
    changes = []
    for event in decode_dataset(dataset):
        if isinstance(event, Bootstrap | SchemaChange) and event.schema is not None:
            schema = event.schema
            schemas[schema.database, schema.table, schema.version] = schema
        elif isinstance(event, RowChange):
            changes.append(event)
    return [(c, schemas[c.database, c.table, c.schema_version]) for c in changes]


def _usable_checksum(change: RowChange) -> Checksum | None:
    """Return a row's checksums if they can be verified; split updates state only zeros."""
    stated = change.checksum
    return stated if stated and not stated.corrupted and stated.current | stated.previous else None


@pytest.mark.parametrize("dataset", DATASETS)
def test_every_stated_checksum_verifies_unless_tidb_marked_it_corrupted(dataset: str) -> None:
    verdicts = Counter(verify_checksum(change, schema).status for change, schema in rows(dataset))
    stated = [checksum for change, _ in rows(dataset) if (checksum := _usable_checksum(change))]
    assert verdicts.keys() == {"ok", "absent", "corrupted"}
    assert verdicts["ok"] == len(stated)
    assert sum(bool(c.current) + bool(c.previous) for c in stated) == 720


@pytest.mark.parametrize("dataset", DATASETS)
def test_row_images_have_the_stated_checksum(dataset: str) -> None:
    compared = 0
    for change, schema in rows(dataset):
        stated = _usable_checksum(change)
        if stated is None or change.after is None:
            continue
        assert RowHasher(schema).hash_texts(load(change.after)) == stated.current
        compared += 1
    assert compared > 400


def _list_verifiable() -> list[tuple[RowChange, TableSchema]]:
    return [pair for pair in rows(DATASETS[0]) if pair[0].after and _usable_checksum(pair[0])]


@given(st.data())
def test_a_changed_value_is_a_checksum_mismatch(data: st.DataObject) -> None:
    change, schema = data.draw(st.sampled_from(_list_verifiable()))
    assert change.after is not None
    row = load(change.after)
    name = data.draw(st.sampled_from(sorted(row)))
    column = schema.column(name)
    assert column is not None
    text = row[name]
    changed: str | None
    if text:
        at = data.draw(st.integers(0, len(text) - 1))
        changed = (
            text[:at] + chr(ord(text[at]) ^ 1 << data.draw(st.integers(0, 6))) + text[at + 1 :]
        )
    else:
        changed = data.draw(st.sampled_from(["0", "1", "x", None]))
    if changed == text or _has_same_value(changed, text, column):
        return
    row[name] = changed
    verdict = verify_checksum(replace(change, after=dump(row)), schema)
    assert (verdict.status, verdict.side) == ("mismatch", "current")


def _has_same_value(one: str | None, other: str | None, column: Column) -> bool:
    """Whether two texts, such as `+1` and `1`, have the same value."""
    try:
        return read_value(one, column.type) == read_value(other, column.type)
    except InvalidValue:
        return False


def _make_change(
    type_text: str, text: str | None, checksum: Checksum
) -> tuple[RowChange, TableSchema]:
    change, _ = _list_verifiable()[0]
    schema = TableSchema("d", "t", (Column("c", parse_type(type_text)),))
    return replace(change, before=None, after=dump({"c": text}), checksum=checksum), schema


def hash_texts(texts: dict[str, str | None], columns: Sequence[Column]) -> int:
    return RowHasher(TableSchema("d", "t", tuple(columns))).hash_texts(texts)


def test_a_vector_is_hashed_in_serialized_form_without_a_length_prefix() -> None:
    # The checksum that TiDB computed of this row.
    row = {"i": "1", "v": "aa", "n": None, "f": "90.5", "t": "2020-01-01 00:00:00"}
    types = {"i": "int", "v": "varchar(9)", "n": "int", "f": "float", "t": "timestamp"}
    assert hash_texts(row, [Column(n, parse_type(t)) for n, t in types.items()]) == 55208201
    three = Column("v", parse_type("vector(3)"))
    raw = bytes.fromhex("030000000000803f00000040000020c0")
    as_integers = [str(int.from_bytes(part, "little")) for part in (raw[:8], raw[8:])]
    two = [Column(name, parse_type("bigint unsigned")) for name in "ab"]
    assert hash_texts({"v": "[1,2,-2.5]"}, [three]) == hash_texts(
        dict(zip("ab", as_integers, strict=True)), two
    )


def test_an_enum_is_hashed_by_its_index_not_by_its_name() -> None:
    t = parse_type("enum('','x')")
    member = hash_texts({"c": "1"}, [Column("c", ColumnType("bigint"))])
    invalid = hash_texts({"c": "0"}, [Column("c", ColumnType("bigint"))])
    assert read_value("0", t) == read_value("1", t) == ""
    for text, crc in (("1", member), ("0", invalid)):
        assert (
            verify_checksum(*_make_change("enum('','x')", text, Checksum(1, False, crc, 0))).status
            == "ok"
        )


def test_a_row_without_verifiable_checksums_gets_a_verdict_that_says_why() -> None:
    stated = Checksum(1, False, 7, 0)
    change, schema = _make_change("int", "1", stated)
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
    # The old row has the key only, as that of a row that was fetched from upstream.
    right = replace(change, checksum=Checksum(1, False, 2844319735, 7), before="{}")
    assert verify_checksum(right, schema).side == "previous"
    assert verify_checksum(right, schema).status == "not verifiable"
    other = TableSchema("d", "t", (Column("d", ColumnType("int")),))
    assert verify_checksum(change, other).status == "not verifiable"
    verdict = verify_checksum(change, schema)
    assert (verdict.status, verdict.side, verdict.expected) == ("mismatch", "current", 7)
    assert verdict.computed == RowHasher(schema).hash_texts({"c": "1"})


@given(st.text(), st.sampled_from(["int", "bit(8)", "json", "vector", "blob", "enum('a')"]))
def test_any_image_gets_a_verdict(text: str, type_text: str) -> None:
    change, schema = _make_change(type_text, text, Checksum(1, False, 1, 0))
    assert verify_checksum(change, schema).status in ("ok", "mismatch")
    assert verify_checksum(replace(change, after=text), schema).status == "mismatch"
    listed = json.dumps({"c": [text]})
    assert verify_checksum(replace(change, after=listed), schema).status == "mismatch"


EVERY_TYPE = TableSchema(
    "d", "t", tuple(Column(f"c{n}", parse_type(text)) for n, text in enumerate(MAKERS))
)


@given(st.integers(0, 1 << 64))
def test_rows_of_every_type_have_the_checksum_of_the_documentation(seed: int) -> None:
    texts, checksum = make_row(Random(seed))
    hasher = RowHasher(EVERY_TYPE)
    assert hasher.hash_texts(texts) == checksum
    values = RowReader(EVERY_TYPE)(dump(texts))
    # Where the empty text is a member of an ENUM or SET, a value may be one of two numbers.
    unsure = [f"c{n}" for n, type in enumerate(MAKERS) if "(''," in type]
    is_unsure = any(texts[name] and "" in str(values[name]).split(",") for name in unsure)
    assert hasher.hash_values(values) == (None if is_unsure else checksum)


def test_columns_are_hashed_in_the_order_in_which_ticdc_states_them() -> None:
    stated = TableSchema("d", "t", tuple(Column(n, ColumnType("int")) for n in "abc"))
    replayed = TableSchema("d", "t", tuple(Column(n, ColumnType("int")) for n in "cab"))
    known = reconcile(replayed, stated)
    assert [column.name for column in known.columns] == ["c", "a", "b"]
    texts: dict[str, str | None] = {"a": "1", "b": "2", "c": "3"}
    assert RowHasher(known).hash_texts(texts) == RowHasher(stated).hash_texts(texts)
    assert RowHasher(known).hash_texts(texts) != RowHasher(replayed).hash_texts(texts)


def test_a_delete_that_states_its_key_only_is_not_verifiable() -> None:
    change, schema = next(pair for pair in rows(DATASETS[0]) if pair[0].op is Op.DELETE)
    assert change.before is not None
    key = {name: load(change.before)[name] for name in schema.key}
    assert len(key) < len(schema.columns)
    verdict = verify_checksum(replace(change, before=dump(key)), schema)
    assert (verdict.status, verdict.side) == ("not verifiable", "previous")
