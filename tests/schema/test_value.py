"""Reading values from row images and writing them as MySQL prints them."""

import base64
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any, Protocol
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.golden import GOLDEN, find_folder, open_lines, records
from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import ColumnType, Event, RowChange
from ticdc_assets.events.row_image import load
from ticdc_assets.protocols.canal_json.decoder import CanalJsonDecoder
from ticdc_assets.protocols.message import Message
from ticdc_assets.protocols.open_protocol.decoder import OpenProtocolDecoder
from ticdc_assets.protocols.simple.avro import SimpleAvroDecoder
from ticdc_assets.protocols.simple.json import SimpleJsonDecoder
from ticdc_assets.schema.types.mysql_type import TYPES, parse_type
from ticdc_assets.schema.types.value_reader import make_reader, read_value
from ticdc_assets.schema.types.value_writer import make_writer, write_value

UTC = ZoneInfo("UTC")


def image_text(text: str | None, encoding: str) -> str | None:
    """A truth cell as it would stand in a row image with member names."""
    if encoding == "hex" and text is not None:
        return base64.b64encode(bytes.fromhex(text)).decode()
    return text


@pytest.mark.parametrize("workload", ["types", "lifecycle", "random_1"])
def test_every_recorded_value_survives_reading_and_writing(workload: str) -> None:
    cells = 0
    for table in open_lines(find_folder(workload) / "truth.jsonl"):
        for at, column in enumerate(table["columns"]):
            t = parse_type(column["mysql_type"])
            read, write = make_reader(t, member_names=True), make_writer(t)
            for row in table["rows"]:
                assert write(read(image_text(row[at], column["enc"]))) == row[at]
                cells += 1
    assert cells > 2000


class Decoder(Protocol):
    def decode(self, message: Message) -> Iterator[Event]: ...


DECODERS: dict[str, Decoder] = {
    "simple-json": SimpleJsonDecoder(tz=UTC),
    "simple-avro": SimpleAvroDecoder(tz=UTC),
    "canal-json-ext": CanalJsonDecoder(tz=UTC, compression="none", payloads=None),
    "open-protocol": OpenProtocolDecoder(tz=UTC, compression="none", payloads=None),
}


@pytest.fixture(scope="module")
def last_truth() -> dict[tuple[str, str], dict[str, Any]]:
    lines = open_lines(GOLDEN / "types" / "truth.jsonl")
    return {(line["schema"], line["table"]): line for line in lines}


@pytest.mark.parametrize("generation", ["", "newarch-"])
@pytest.mark.parametrize("protocol", DECODERS)
def test_messages_of_every_protocol_have_the_recorded_values(
    generation: str, protocol: str, last_truth: dict[tuple[str, str], dict[str, Any]]
) -> None:
    types = {
        (table, column["name"]): parse_type(column["mysql_type"])
        for table, line in last_truth.items()
        for column in line["columns"]
    }
    sent = defaultdict(set)
    for message in records(f"types/{generation}{protocol}"):
        for event in DECODERS[protocol].decode(message):
            if isinstance(event, RowChange) and event.after is not None:
                for name, text in load(event.after).items():
                    place = (event.database, event.table), name
                    sent[place].add(write_value(read_value(text, types[place]), types[place]))
    for table, line in last_truth.items():
        if table[1] in ("t_nopk", "t_uk_null"):
            continue  # without a key they are not replicated
        for at, column in enumerate(line["columns"]):
            if column.get("generated") != "VIRTUAL":
                assert {row[at] for row in line["rows"]} <= sent[table, column["name"]]


def test_bit_values_and_set_masks_may_be_in_twos_complement() -> None:
    assert read_value("-1", parse_type("bit(64)")) == 2**64 - 1
    masks = ColumnType("set", elements=tuple(map(str, range(64))))
    assert read_value("-9223372036854775808", masks) == "63"


def test_an_enum_without_known_members_keeps_its_index() -> None:
    assert read_value("3", ColumnType("enum")) == "3"
    assert read_value("5", ColumnType("set")) == "5"


def test_index_0_is_the_invalid_member() -> None:
    assert read_value("0", ColumnType("enum", elements=("a",))) == ""


def test_a_decimal_keeps_its_declared_scale_exactly() -> None:
    t = parse_type("decimal(65,30)")
    digits = "-" + "9" * 35 + "." + "123456789" * 3 + "123"
    assert str(read_value(digits, t)) == digits
    assert write_value(read_value("1.5", t), t) == "1.5" + "0" * 29
    assert write_value(read_value("1.50", parse_type("decimal(10,1)")), t) == "1.5"
    assert write_value(read_value("0.000000000000", parse_type("decimal")), t) == "0.000000000000"
    assert write_value(read_value("-0.00", parse_type("decimal(5,2)")), t) == "0.00"


BAD = {
    "tinyint": ["128", "-129", "", "1.0", "a", "1_0", "１", " 1", "0x1", "1e2"],
    "tinyint unsigned": ["-1", "256"],
    "bigint unsigned": ["18446744073709551616"],
    "bit(8)": ["256", "-1"],
    "year": ["1900", "2156", "-1", "20"],
    "float": ["nan", "inf", "1e39", "", "1_0", "0x1p3", " 1"],
    "double": ["1e309", "-Infinity", "1e", ".", "1e99999"],
    "decimal(5,2)": ["1000", "1.234", "1e2", "", ".", "-", "NaN", "1e999999999"],
    "date": ["2024-1-1", "2024-13-01", "2024-01-32", "20240101", "2024-01-01 00:00:00"],
    "datetime": [
        "2024-01-01",
        "2024-01-01 24:00:00",
        "2024-01-01T00:00:00",
        "2024-01-01 00:00:00.",
    ],
    "timestamp": ["2024-01-01 00:00:00Z", "2024-01-01 00:60:00"],
    "time": ["1:00:00", "840:00:00", "00:00:60", "00:00", "00:00:00.1234567"],
    "binary(3)": ["a", "====", "YQ", "YQ==\n", "é"],
    "enum('a','b')": ["3", "-1", "a", ""],
    "set('a','b')": ["4", "a", "-1"],
    "vector": ["", "[1", "[a]", "[1,]", "1", "[1e39]", "[nan]"],
}


@pytest.mark.parametrize(("type_text", "text"), [(t, x) for t in BAD for x in BAD[t]])
def test_a_text_that_its_type_cannot_hold_is_an_invalid_value(type_text: str, text: str) -> None:
    with pytest.raises(InvalidValue):
        read_value(text, parse_type(type_text))


def test_member_names_must_be_members() -> None:
    with pytest.raises(InvalidValue):
        read_value("c", parse_type("enum('a','b')"), member_names=True)
    with pytest.raises(InvalidValue):
        read_value("a,c", parse_type("set('a','b')"), member_names=True)
    assert read_value("b,a", parse_type("set('a','b')"), member_names=True) == "a,b"


ANY_TYPE = st.sampled_from(sorted(TYPES)).map(
    lambda name: ColumnType(name, length=5, decimals=2, elements=("a", "b"))
)


@given(ANY_TYPE, st.text(), st.booleans())
def test_any_text_is_read_or_is_an_invalid_value(t: ColumnType, text: str, names: bool) -> None:
    try:
        value = read_value(text, t, member_names=names)
    except InvalidValue:
        return
    assert isinstance(write_value(value, t), str)


@given(ANY_TYPE)
def test_null_is_read_and_written_as_null(t: ColumnType) -> None:
    assert write_value(read_value(None, t), t) is None


@pytest.mark.parametrize("name", sorted(set(TYPES) - {"json"} - {n for n in TYPES if "text" in n}))
@pytest.mark.parametrize("text", ["9" * 10**7, "1e" + "9" * 10**7, "[" + "1," * 10**6])
def test_a_huge_text_is_an_invalid_value_within_a_second(name: str, text: str) -> None:
    if name in ("char", "varchar", "var_string"):
        return
    before = time.thread_time()
    with suppress(InvalidValue):
        read_value(text, ColumnType(name))
    assert time.thread_time() - before < 0.5


FLOAT, DOUBLE = parse_type("float"), parse_type("double")


# Below a power of two floats lie closer than above it: there shortest digits go wrong most easily.
POWERS_OF_TWO = st.integers(-149, 127).map(lambda exponent: 2.0**exponent)


@given(POWERS_OF_TWO | st.floats(width=32, allow_nan=False, allow_infinity=False))
@settings(max_examples=1000)
def test_float_texts_are_the_shortest_that_read_back_as_the_value(value: float) -> None:
    text = write_value(value, FLOAT)
    assert text is not None
    assert "e" not in text
    assert read_value(text, FLOAT) == value
    # An independent writer of shortest digits finds the same.
    theirs = pa.array([value], pa.float32()).cast(pa.string())[0].as_py()
    assert Decimal(text) == Decimal(theirs)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_double_texts_have_no_exponent_and_read_back_as_the_value(value: float) -> None:
    text = write_value(value, DOUBLE)
    assert text is not None
    assert "e" not in text
    assert repr(read_value(text, DOUBLE)) == repr(value)


def test_floats_print_as_tidb_does() -> None:
    assert write_value(read_value("1e+06", FLOAT), FLOAT) == "1000000"
    assert write_value(read_value("0.1", FLOAT), DOUBLE) == "0.10000000149011612"
    assert write_value(read_value("-0", DOUBLE), DOUBLE) == "-0"
    assert write_value(read_value("1e-7", DOUBLE), DOUBLE) == "0.0000001"
