"""Hostile Open Protocol: broken input is quarantined, and nothing raises."""

import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocols.open_protocol_messages import (
    ID,
    ROW_KEY,
    TS,
    Json,
    decode,
    decode_bytes,
    error_of,
    framed,
    number,
    row,
)
from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events import (
    Column,
    ColumnType,
    Op,
    Quarantined,
    RowChange,
    TableSchema,
    TopicPosition,
    row_image,
)
from ticdc_assets.protocols.open_protocol.flags import redecode

KEY, VALUE = framed((ROW_KEY, {"u": {"id": ID}}))


@pytest.mark.parametrize(
    ("error", "key", "value"),
    [
        ("MalformedMessage", None, VALUE),
        ("MalformedMessage", KEY, None),
        ("MalformedMessage", None, None),
        ("MalformedMessage", b"", VALUE),
        ("MalformedMessage", KEY[:7], VALUE),
        ("MalformedMessage", KEY[:8], b""),
        ("MalformedMessage", KEY[:8], VALUE),
        ("MalformedMessage", KEY, b""),
        ("MalformedMessage", KEY, VALUE * 2),
        ("MalformedMessage", KEY[:-1], VALUE),
        ("MalformedMessage", KEY, VALUE[:-1]),
        ("MalformedMessage", KEY + b"\0", VALUE),
        ("MalformedMessage", KEY, VALUE + b"\0" * 7),
        ("MalformedMessage", number(1) + number(2**64 - 1), VALUE),
        ("MalformedMessage", KEY, number(100_000_000)),
        ("MalformedMessage", KEY, number(2**63) + b"{}"),
        ("UnknownMessage", number(2) + KEY[8:], VALUE),
        ("UnknownMessage", b"\xff" * 8 + KEY[8:], VALUE),
    ],
)
def test_a_record_with_broken_framing_is_quarantined_once(
    error: str, key: bytes | None, value: bytes | None
) -> None:
    (event,) = decode_bytes(key, value)
    assert isinstance(event, Quarantined)
    assert (event.error, event.position) == (error, TopicPosition("topic", 2, 11))


@pytest.mark.parametrize(
    ("error", "key", "value"),
    [
        *(
            ("MalformedMessage", ROW_KEY | fields, {"u": {"id": ID}})
            for fields in (
                {"ts": -1},
                {"ts": 2**63},
                {"ts": "1"},
                {"ts": 1.5},
                {"ptn": -1},
                {"ptn": 2**63},
                {"scm": ""},
                {"tbl": ""},
                {"scm": None},
                {"t": "1"},
                {"t": None},
                {"ohk": 1},
                {"ccl": "/"},
            )
        ),
        ("UnknownMessage", ROW_KEY | {"t": 4}, {"u": {"id": ID}}),
        ("MalformedMessage", {"ts": TS, "t": 3}, b"{}"),
        *(("MalformedMessage", ROW_KEY | {"t": 2}, v) for v in (b"", {}, {"q": 1, "t": 3})),
        *(
            ("MalformedMessage", ROW_KEY, value)
            for value in (
                b"",
                b"[]",
                b"\xff",
                {},
                {"u": {}},
                {"d": {}},
                {"p": {"id": ID}},
                {"u": {"id": ID}, "d": {"id": ID}},
                {"d": {"id": ID}, "p": {"id": ID}},
                {"u": {"id": {"t": 3, "f": 1}}},
                {"u": {"id": {"v": 1}}},
                {"u": {"id": ID | {"f": 2**16}}},
                {"u": {"x" * 65: ID}},
                {"u": {f"c{n}": ID for n in range(4097)}},
                {"u": [ID]},
                b'{"u":' * 200_000,
                b'{"u":{"c":{"t":15,"f":64,"v":"\xff","x":' + b"[" * 200_000,
                b'{"u":{"c":{"t":15,"f":64,"v":"\\ud800\xff"}}}',
                b'{"u":{"c":{"t":5,"f":65,"v":NaN},"d":{"t":5,"f":65,"v":-0}}}',
            )
        ),
    ],
)
def test_an_invalid_event_is_quarantined(error: str, key: Json, value: Json) -> None:
    assert error_of(value, key) == error


def test_hostile_sizes_take_time_and_memory_in_proportion_to_the_message() -> None:
    key, value = framed((ROW_KEY, {"u": {"id": ID}}))
    start = time.process_time()
    tracemalloc.start()
    try:
        # Lengths that promise a hundred megabytes, and the largest there is.
        for length in (100_000_000, 2**64 - 1):
            assert len(decode_bytes(key, number(length) + value)) == 1
        # Every column of the widest table flagged binary, and none of them is.
        stale = {f"c{n}": {"t": 15, "f": 65, "v": '"'} for n in range(4096)}
        assert row({"u": stale, "p": stale}).op is Op.UPDATE
        # As many empty events as there is room for.
        empty = number(0) * 20_000
        assert len(decode_bytes(number(1) + empty, empty)) == 20_000
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()
    assert time.process_time() - start < 5


WHOLE = framed(
    (ROW_KEY | {"t": 2}, {"q": "x", "t": 3}),
    (
        ROW_KEY,
        {
            "u": {"id": ID, "b": {"t": 15, "f": 65, "v": r"\x00"}},
            "p": {"id": ID, "x": {"t": 252, "f": 64, "v": "AA=="}},
        },
    ),
    (ROW_KEY | {"t": 3}, b""),
)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_no_bytes_make_the_decoder_raise(key: bytes, value: bytes) -> None:
    framing = decode_bytes(key, value)
    inside = decode((key, value), (ROW_KEY, value), (ROW_KEY | {"t": 2}, value))
    assert all(isinstance(event, Quarantined) for event in framing + inside)


@given(st.integers(0, 1), st.integers(0, 10_000), st.integers(0, 7), st.booleans())
def test_no_damage_makes_the_decoder_raise(which: int, place: int, bit: int, cut: bool) -> None:
    parts = [bytearray(part) for part in WHOLE]
    damaged = parts[which]
    place %= len(damaged)
    damaged[place] ^= 1 << bit
    if cut:
        del damaged[place:]
    for event in decode_bytes(bytes(parts[0]), bytes(parts[1]), tz="Asia/Shanghai"):
        if isinstance(event, RowChange):
            row_image.load(event.after or event.before or "")


def test_images_of_contradictory_flags_are_no_row() -> None:
    """One image was decoded as bytes, and the other states that it is text."""
    schema = TableSchema(
        "d", "t", (Column("b", ColumnType("text")), Column("c", ColumnType("char")))
    )
    for name, decoded in (("b", "blob"), ("c", "binary")):
        change = RowChange(
            op=Op.UPDATE,
            commit_ts=1,
            database="d",
            table="t",
            position=TopicPosition("t", 0, 0),
            before=row_image.dump({name: "é"}),
            after=row_image.dump({name: "AA=="}),
            observed=row_image.dump({name: decoded}),
        )
        with pytest.raises(MalformedMessage, match="flags"):
            redecode(change, schema)
