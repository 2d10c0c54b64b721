"""Open Protocol by hand: framing, every type code, and input that means no good."""

import json
import time
import tracemalloc
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any
from zoneinfo import ZoneInfo

import lz4.frame  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.events import (
    Column,
    ColumnType,
    Event,
    Op,
    Rejected,
    RowChange,
    SchemaChange,
    TableSchema,
    TopicPosition,
    Watermark,
    row_image,
)
from ticdc_assets.protocols.message import Message
from ticdc_assets.protocols.open_protocol.decoder import OpenProtocolDecoder
from ticdc_assets.protocols.open_protocol.flags import settle

TS = 415508856908021766
ROW_KEY = {"ts": TS, "scm": "test", "tbl": "t", "t": 1}
ID = {"t": 3, "h": True, "f": 11, "v": 1}

Json = dict[str, Any] | bytes


def number(value: int) -> bytes:
    return value.to_bytes(8, "big")


def text_of(content: Json) -> bytes:
    return content if isinstance(content, bytes) else json.dumps(content).encode()


def frame(contents: Sequence[Json]) -> bytes:
    return b"".join(number(len(text)) + text for text in map(text_of, contents))


def framed(*events: tuple[Json, Json]) -> tuple[bytes, bytes]:
    keys, values = zip(*events, strict=True)
    return number(1) + frame(keys), frame(values)


def decode_bytes(
    key: bytes | None, value: bytes | None, tz: str = "UTC", **settings: Any
) -> list[Event]:
    decoder = OpenProtocolDecoder(tz=ZoneInfo(tz), **settings)
    return list(decoder.decode(Message("topic", 2, 11, key, value)))


def decode(*events: tuple[Json, Json], tz: str = "UTC", **settings: Any) -> list[Event]:
    return decode_bytes(*framed(*events), tz, **settings)


def row(value: Json, key: Json = ROW_KEY, tz: str = "UTC", **settings: Any) -> RowChange:
    (event,) = decode((key, value), tz=tz, **settings)
    assert isinstance(event, RowChange), event
    return event


def error_of(value: Json, key: Json = ROW_KEY, tz: str = "UTC", **settings: Any) -> str:
    (event,) = decode((key, value), tz=tz, **settings)
    assert isinstance(event, Rejected), event
    assert event.position == TopicPosition("topic", 2, 11)
    assert event.reason
    return event.error


def column(code: int, flags: int, value: str, tz: str = "UTC") -> tuple[str | None, str | None]:
    """The image text and the observed type of a column, its value given as JSON text."""
    event = row(b'{"u":{"c":{"t":%d,"f":%d,"v":%s}}}' % (code, flags, value.encode()), tz=tz)
    assert event.after is not None
    assert event.observed is not None
    return row_image.load(event.after)["c"], row_image.load(event.observed)["c"]


def test_a_batch_yields_its_events_in_order_each_with_its_place() -> None:
    ddl = {"ts": TS, "scm": "test", "tbl": "t1", "t": 2}, {"q": "CREATE …", "t": 3}
    resolved = {"ts": TS + 1, "t": 3}, b""
    update = ROW_KEY | {"rid": 1, "ptn": 77}, {"u": {"id": ID}, "p": {"id": ID | {"v": 2}}}
    places = [TopicPosition("topic", 2, 11, index) for index in range(3)]
    assert decode(ddl, resolved, update) == [
        SchemaChange(
            commit_ts=TS,
            database="test",
            table="t1",
            sql="CREATE …",
            position=places[0],
            ddl_type="3",
        ),
        Watermark(ts=TS + 1, position=places[1]),
        RowChange(
            op=Op.UPDATE,
            commit_ts=TS,
            database="test",
            table="t",
            position=places[2],
            before='{"id":"2"}',
            after='{"id":"1"}',
            table_id=77,
            observed='{"id":"int not null"}',
            key_columns=("id",),
        ),
    ]


def test_a_bad_event_leaves_the_rest_of_its_batch_alone() -> None:
    good = ROW_KEY, {"d": {"id": ID}}
    events = decode(good, (ROW_KEY, b"{"), (b"\xff", {}), good)
    assert [type(event) for event in events] == [RowChange, Rejected, Rejected, RowChange]
    assert [event.position for event in events] == [
        TopicPosition("topic", 2, 11, index) for index in range(4)
    ]


def test_what_a_row_is_follows_from_what_it_holds_and_from_the_settings() -> None:
    new, both = {"u": {"id": ID}}, {"u": {"id": ID}, "p": {}}
    assert row({"d": {"id": ID}}).op is Op.DELETE
    assert row(new).op is Op.INSERT
    assert row(new, old_values=False).op is Op.UPSERT
    assert row(new, updated_columns_only=True).op is Op.UPSERT
    assert (row(both).op, row(both).before) == (Op.UPDATE, "{}")


@pytest.mark.parametrize(
    ("code", "flags", "value", "text", "observed"),
    [
        (1, 65, "-128", "-128", "tinyint"),
        (2, 193, "65535", "65535", "smallint unsigned"),
        (9, 1, "7", "7", "mediumint not null"),
        (3, 193, "4294967295", "4294967295", "int unsigned"),
        (8, 129, "18446744073709551615", "18446744073709551615", "bigint unsigned not null"),
        (8, 65, "-9223372036854775808", "-9223372036854775808", "bigint"),
        (4, 65, "3.14", "3.14", "float"),
        (5, 193, "1e-07", "1e-07", "double unsigned"),
        (5, 65, "100000000000000000000", "100000000000000000000", "double"),
        (5, 65, "-0", "-0.0", "double"),
        (7, 65, '"1973-12-30 15:30:00"', "1973-12-30 15:30:00", "timestamp"),
        (10, 65, '"2000-01-01"', "2000-01-01", "date"),
        (14, 65, '"2000-01-01"', "2000-01-01", "date"),
        (11, 65, '"-838:59:59"', "-838:59:59", "time"),
        (12, 65, '"2015-12-20 23:58:58.1"', "2015-12-20 23:58:58.1", "datetime"),
        (13, 193, "1970", "1970", "year"),
        (16, 193, "18446744073709551615", "18446744073709551615", "bit"),
        (245, 65, r'"{\"key1\": \"value1\"}"', '{"key1": "value1"}', "json"),
        (246, 65, '"129012.1230000"', "129012.1230000", "decimal"),
        (246, 129, '"1"', "1", "decimal unsigned not null"),
        (247, 64, "1", "1", "enum"),
        (247, 65, "0", "0", "enum"),
        (248, 64, "9223372036854775808", "9223372036854775808", "set"),
        (225, 65, '"[1,2.5]"', "[1,2.5]", "vector"),
        (15, 64, '"测试"', "测试", "varchar"),
        (253, 64, r'"\\n"', r"\n", "varchar"),
        (254, 10, '""', "", "char not null"),
        (15, 65, r'"\\x89PNG\\r\\n\\x1a\\n"', "iVBORw0KGgo=", "varbinary"),
        (253, 1, r'"\""', '"', "varchar"),
        (254, 65, r'"\\x00\\\"\\\\é"', "ACJcw6k=", "binary"),
        (249, 64, '"5rWL6K+VdGV4dA=="', "测试text", "tinytext"),
        (250, 65, '"5rWL"', "5rWL", "mediumblob"),
        (251, 64, '"/w=="', "\udcff", "longtext"),
        (252, 65, '"/w=="', "/w==", "blob"),
        # No flags are no statement: the server did not know the column yet.
        (8, 0, "1", "1", "bigint"),
        (6, 0, "null", None, "null"),
        (15, 65, "null", None, "varbinary"),
    ],
)
def test_every_type_code_has_its_text(
    code: int, flags: int, value: str, text: str | None, observed: str
) -> None:
    assert column(code, flags, value) == (text, observed)


def test_columns_without_flags_are_read() -> None:
    assert row(b'{"u":{"c":{"t":3,"h":true,"v":1}}}').key_columns == ("c",)


@pytest.mark.parametrize(
    ("code", "flags", "value"),
    [
        *((3, 1, value) for value in ("1.5", '"1"', "1e3", "true", "[]", "{}")),
        *((5, 1, value) for value in ('"1.5"', "1e999", "NaN")),
        *((12, 1, value) for value in ("1", "1.5")),
        *((15, 64, value) for value in ("1", "[1]")),
        *((252, flags, value) for flags in (64, 65) for value in ('"x"', '"AA="', '"A A="', '"é"')),
        (6, 0, "1"),
        (3, -1, "1"),
        (256, 0, "1"),
        (-1, 0, "1"),
    ],
)
def test_a_value_of_the_wrong_kind_is_malformed(code: int, flags: int, value: str) -> None:
    content = b'{"u":{"c":{"t":%d,"f":%d,"v":%s}}}' % (code, flags, value.encode())
    assert error_of(content) == "MalformedMessage"


def test_an_undescribed_type_code_is_unknown() -> None:
    assert error_of({"u": {"c": {"t": 255, "f": 0, "v": "x"}}}) == "UnknownMessage"


def test_timestamps_are_brought_to_utc() -> None:
    assert column(7, 65, '"2024-01-01 08:00:00.5"', "Asia/Shanghai")[0] == "2024-01-01 00:00:00.5"
    assert column(7, 65, '"0000-00-00 00:00:00"', "Asia/Shanghai")[0] == "0000-00-00 00:00:00"
    assert column(12, 65, '"2024-01-01 08:00:00"', "Asia/Shanghai")[0] == "2024-01-01 08:00:00"
    content = {"u": {"c": {"t": 7, "f": 65, "v": "x"}}}
    assert error_of(content, tz="Asia/Shanghai") == "MalformedMessage"


def test_text_that_is_no_utf8_keeps_its_bytes() -> None:
    event = row(b'{"u":{"c":{"t":15,"f":64,"v":"a\xff\xe4\xb8"},"n":{"t":8,"f":129,"v":1}}}')
    assert event.after is not None
    assert row_image.load(event.after) == {"c": "a\udcff\udce4\udcb8", "n": "1"}
    # The image itself can be written anywhere.
    assert event.after.encode()


def test_a_name_that_is_no_utf8_is_malformed() -> None:
    content = b'{"u":{"c":{"t":15,"f":64,"v":"\xff"},"\xff":{"t":3,"f":0,"v":1}}}'
    assert error_of(content) == "MalformedMessage"


def test_a_value_flagged_binary_that_go_never_quoted_is_text() -> None:
    stale = {"t": 15, "f": 65, "v": 'a "word"'}
    content = {"u": {"c": stale, "b": stale | {"v": r"\x00"}}, "p": {"c": stale | {"v": "a"}}}
    event = row(content)
    assert (event.before, event.after) == ('{"c":"a"}', '{"c":"a \\"word\\"","b":"AA=="}')
    assert event.observed == '{"c":"varchar","b":"varbinary"}'


@pytest.mark.parametrize(
    ("code", "value", "text_type", "bytes_type"),
    [
        (15, r"C:\new\u0041 é", "varchar", "varbinary"),
        (15, "plain", "varchar", "varbinary"),
        (254, r"\x00\n", "char", "binary"),
        (252, "YWL/", "text", "blob"),
        (249, "", "tinytext", "tinyblob"),
    ],
)
def test_a_flag_of_before_a_ddl_is_settled_by_the_schema(
    code: int, value: str, text_type: str, bytes_type: str
) -> None:
    def schema(of: str) -> TableSchema:
        return TableSchema("test", "t", (Column("c", ColumnType(of)), Column("d", ColumnType("x"))))

    flagged = row({"u": {"c": {"t": code, "f": 65, "v": value}}})
    plain = row({"u": {"c": {"t": code, "f": 64, "v": value}}})
    # What only looks like an escape is text already.
    if flagged.observed != plain.observed:
        assert settle(plain, schema(bytes_type)) == flagged
        assert settle(flagged, schema(bytes_type)) is flagged
    assert settle(flagged, schema(text_type)) == plain
    assert settle(plain, schema(text_type)) is plain


class Objects(dict[str, bytes]):
    def fetch(self, name: str) -> bytes:
        return self[name]


def stored(key: bytes, value: bytes) -> bytes:
    return json.dumps({"key": b64encode(key).decode(), "value": b64encode(value).decode()}).encode()


LOCATION = '"ccl":"file:///a/b/c-d.json"'
CLAIMS = [
    f'{{"ts":{TS},"scm":"test","tbl":"t","t":1,{LOCATION}}}'.encode(),
    # The new-architecture server writes `ohk` twice.
    f'{{"ts":{TS},"scm":"test","tbl":"t","t":1,"ohk":true,"ohk":false,{LOCATION}}}'.encode(),
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_check_is_redeemed(claim: bytes) -> None:
    whole = {"u": {"id": ID, "v": {"t": 15, "f": 64, "v": "long"}}}
    content = stored(*framed((ROW_KEY, lz4.frame.compress(json.dumps(whole).encode()))))
    small = lz4.frame.compress(json.dumps({"u": {"id": ID}}).encode())
    event = row(small, claim, compression="lz4", payloads=Objects({"c-d.json": content}))
    assert event.after == '{"id":"1","v":"long"}'
    assert event.claim_check_digest == sha256(content).hexdigest()
    assert not event.handle_key_only


def test_a_claim_check_that_cannot_be_redeemed_is_rejected() -> None:
    small: dict[str, Any] = {"u": {"id": ID}}
    assert error_of(small, CLAIMS[0]) == "MissingPayload"
    assert error_of(small, CLAIMS[0], payloads=Objects()) == "MissingPayload"
    good: tuple[Json, Json] = (ROW_KEY, small)
    for batch in (
        [(ROW_KEY | {"ts": TS + 1}, small)],
        [(ROW_KEY | {"tbl": "u"}, small)],
        [(CLAIMS[0], small)],
        [good, good],
        [(b"{", small)],
    ):
        objects = Objects({"c-d.json": stored(*framed(*batch))})
        assert error_of(small, CLAIMS[0], payloads=objects) == "MalformedMessage"
    for content in (b"", b"{}", b'{"key":null,"value":""}', stored(b"", b"")):
        objects = Objects({"c-d.json": content})
        assert error_of(small, CLAIMS[0], payloads=objects) == "MalformedMessage"


def test_a_too_large_row_says_that_only_its_key_came() -> None:
    assert row({"u": {"id": ID}}, ROW_KEY | {"ohk": True}).handle_key_only


def test_compression_is_of_each_value_but_not_of_resolved_events() -> None:
    values: list[Json] = [{"u": {"id": ID}}, {"q": "x", "t": 3}]
    squeezed = [lz4.frame.compress(text_of(value)) for value in values]
    events = decode(
        (ROW_KEY, squeezed[0]),
        (ROW_KEY | {"t": 2}, squeezed[1]),
        (ROW_KEY | {"t": 3}, b""),
        (ROW_KEY, values[0]),
        compression="lz4",
    )
    assert [type(event) for event in events] == [RowChange, SchemaChange, Watermark, Rejected]


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
def test_broken_framing_is_one_rejection(
    error: str, key: bytes | None, value: bytes | None
) -> None:
    (event,) = decode_bytes(key, value)
    assert isinstance(event, Rejected)
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
def test_what_is_no_event_is_rejected(error: str, key: Json, value: Json) -> None:
    assert error_of(value, key) == error


def test_hostile_sizes_take_time_and_memory_in_proportion() -> None:
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
def test_no_bytes_make_it_raise(key: bytes, value: bytes) -> None:
    framing = decode_bytes(key, value)
    inside = decode((key, value), (ROW_KEY, value), (ROW_KEY | {"t": 2}, value))
    assert all(isinstance(event, Rejected) for event in framing + inside)


@given(st.integers(0, 1), st.integers(0, 10_000), st.integers(0, 7), st.booleans())
def test_no_damage_makes_it_raise(which: int, place: int, bit: int, cut: bool) -> None:
    parts = [bytearray(part) for part in WHOLE]
    damaged = parts[which]
    place %= len(damaged)
    damaged[place] ^= 1 << bit
    if cut:
        del damaged[place:]
    for event in decode_bytes(bytes(parts[0]), bytes(parts[1]), tz="Asia/Shanghai"):
        if isinstance(event, RowChange):
            row_image.load(event.after or event.before or "")
