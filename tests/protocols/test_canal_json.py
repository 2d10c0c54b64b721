"""Canal-JSON by hand: the dialects that the golden data lack, and input that means no good."""

import json
import time
from base64 import b64decode, b64encode
from hashlib import sha256
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ticdc_assets.events import (
    Event,
    FilePosition,
    Op,
    Quarantined,
    RowChange,
    SchemaChange,
    TopicPosition,
    Watermark,
    row_image,
)
from ticdc_assets.protocols.canal_json.decoder import CanalJsonDecoder
from ticdc_assets.protocols.message import DataFile, Message

UTC = ZoneInfo("UTC")
ES = 1639633141221
TS = ES << 18 | 7


def message(**fields: Any) -> dict[str, Any]:
    """An INSERT as TiCDC writes it, with the extension; None takes a field away."""
    content = {
        "id": 0,
        "database": "test",
        "table": "t",
        "pkNames": ["id"],
        "isDdl": False,
        "type": "INSERT",
        "es": ES,
        "ts": ES + 5,
        "sql": "",
        "sqlType": {"id": 4, "v": 12},
        "mysqlType": {"id": "int", "v": "varchar"},
        "data": [{"id": "1", "v": None}],
        "old": None,
        "_tidb": {"commitTs": TS},
    } | fields
    return {name: value for name, value in content.items() if value is not ...}


def decode(content: dict[str, Any] | bytes | None, tz: str = "UTC", **settings: Any) -> list[Event]:
    value = json.dumps(content).encode() if isinstance(content, dict) else content
    decoder = CanalJsonDecoder(tz=ZoneInfo(tz), **settings)
    return list(decoder.decode(Message("topic", 3, 14, None, value)))


def row(content: dict[str, Any], tz: str = "UTC", **settings: Any) -> RowChange:
    (event,) = decode(content, tz, **settings)
    assert isinstance(event, RowChange), event
    return event


def column(mysql_type: str, text: str | None, tz: str = "UTC", sql_type: int = 12) -> str | None:
    event = row(
        message(mysqlType={"v": mysql_type}, sqlType={"v": sql_type}, data=[{"v": text}]), tz
    )
    return row_image.load(event.after or "")["v"]


def error_of(content: dict[str, Any] | bytes | None, **settings: Any) -> str:
    (event,) = decode(content, **settings)
    assert isinstance(event, Quarantined), event
    assert event.position == TopicPosition("topic", 3, 14)
    assert event.reason
    return event.error


def test_a_row_keeps_what_the_message_says_of_it() -> None:
    assert row(message()) == RowChange(
        op=Op.INSERT,
        commit_ts=TS,
        database="test",
        table="t",
        position=TopicPosition("topic", 3, 14),
        after='{"id": "1", "v": null}',
        observed='{"id": "int", "v": "varchar"}',
        key_columns=("id",),
        build_ts=ES + 5,
    )


def test_without_the_extension_the_millisecond_stands_for_the_commit_ts() -> None:
    event = row(message(_tidb=...))
    assert (event.commit_ts, event.ordering) == (ES << 18, "milliseconds")


@pytest.mark.parametrize("old", [None, [{"id": "1", "v": None}]])
def test_a_delete_has_its_row_in_data_whatever_old_repeats(
    old: list[dict[str, Any]] | None,
) -> None:
    event = row(message(type="DELETE", old=old))
    assert (event.before, event.after) == ('{"id": "1", "v": null}', None)


@pytest.mark.parametrize("names", [None, []])
def test_no_primary_key_is_no_statement_of_a_key(names: list[str] | None) -> None:
    assert row(message(pkNames=names)).key_columns is None


def test_an_update_may_hold_the_changed_old_columns_only() -> None:
    event = row(message(type="UPDATE", old=[{"v": "x"}]))
    assert (event.before, event.after) == ('{"v": "x"}', '{"id": "1", "v": null}')
    assert row(message(type="UPDATE", old=[{}])).before == "{}"
    assert row(message(type="UPDATE")).before is None


def test_the_original_canal_sends_several_rows_a_message_and_full_types() -> None:
    content = message(
        type="UPDATE",
        mysqlType={"id": "int(11)", "v": "varbinary(16)"},
        data=[{"id": "1", "v": "\u00ff"}, {"id": "2", "v": "\u0100"}, {"id": "3", "v": None}],
        old=[{"v": ""}, {"v": "x"}, {"v": "y"}],
        _tidb=...,
    )
    first, second, third = decode(content)
    assert isinstance(first, RowChange)
    assert isinstance(second, Quarantined)
    assert isinstance(third, RowChange)
    assert (first.before, first.after) == ('{"v":""}', '{"id":"1","v":"/w=="}')
    assert (third.before, third.after) == ('{"v":"eQ=="}', '{"id":"3","v":null}')
    assert [event.position for event in (first, second, third)] == [
        TopicPosition("topic", 3, 14, index) for index in range(3)
    ]


def test_a_ddl_is_a_ddl_whatever_its_type() -> None:
    for kind in ("CREATE", "RENAME", "CINDEX", "DINDEX", "ERASE", "TRUNCATE", "ALTER", "QUERY"):
        content = message(isDdl=True, type=kind, sql="DROP …", data=None, table="")
        assert decode(content) == [
            SchemaChange(
                commit_ts=TS,
                database="test",
                table="",
                sql="DROP …",
                position=TopicPosition("topic", 3, 14),
                ddl_type=kind,
                build_ts=ES + 5,
            )
        ]
    (event,) = decode(message(isDdl=True, type="QUERY", sql="x", _tidb=...))
    assert isinstance(event, SchemaChange)
    assert (event.commit_ts, event.ordering) == (ES << 18, "milliseconds")


def test_a_watermark_is_its_own_time() -> None:
    content = message(type="TIDB_WATERMARK", database="", _tidb={"watermarkTs": TS})
    position = TopicPosition("topic", 3, 14)
    assert decode(content) == [Watermark(ts=TS, position=position, build_ts=ES + 5)]


def test_bytes_come_as_code_points() -> None:
    octets = bytes([5, 7, 10, 15, 36, 50, 43, 99, 120, 60, 38, 255, 254, 45, 55, 70])
    text = "\u0005\u0007\n\u000f$2+cx\u003c\u0026ÿþ-7F"
    for kind in ("blob", "varbinary", "LONGBLOB", "binary(16)", "tinyblob"):
        assert b64decode(column(kind, text) or "") == octets
        assert column(kind, None) is None
        assert column(kind, "") == ""


def test_only_the_name_of_a_type_tells_bytes() -> None:
    for kind in ("enum('binary','blob')", "set('a (binary)')", "varchar(20)", "text"):
        assert column(kind, "ÿ") == "ÿ"
    # A CHAR flagged binary is bytes under a character type: the JDBC code says so.
    assert column("char", "ÿ", sql_type=2004) == "/w=="
    assert column("enum('timestamp')", "2024-01-01 00:00:00", "Asia/Shanghai").startswith("2024")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("kind", "text", "utc"),
    [
        ("timestamp", "2024-01-01 08:00:00", "2024-01-01 13:00:00"),
        ("timestamp(6)", "2024-07-01 08:00:00.100000", "2024-07-01 12:00:00.100000"),
        ("timestamp(3)", "0000-00-00 00:00:00.000", "0000-00-00 00:00:00.000"),
        # The hour that comes twice: the first one.
        ("timestamp", "2024-11-03 01:30:00", "2024-11-03 05:30:00"),
        ("datetime", "2024-01-01 08:00:00", "2024-01-01 08:00:00"),
    ],
)
def test_timestamps_are_brought_to_utc(kind: str, text: str, utc: str) -> None:
    assert column(kind, text, "America/New_York") == utc
    assert column(kind, text) == text


def test_a_too_large_row_says_that_only_its_key_came() -> None:
    tidb = {"commitTs": TS, "onlyHandleKey": True}
    assert row(message(_tidb=tidb)).handle_key_only


class Objects(dict[str, bytes]):
    def fetch(self, name: str) -> bytes:
        return self[name]


def claimed(**fields: Any) -> dict[str, Any]:
    tidb = {"commitTs": TS, "claimCheckLocation": "s3://bucket/prefix/a-b.json"}
    return message(**{"_tidb": tidb, "data": [{"id": "1"}]} | fields)


def test_a_claim_check_is_redeemed() -> None:
    whole = json.dumps(message(data=[{"id": "1", "v": "long"}])).encode()
    wrapped = json.dumps({"key": None, "value": b64encode(whole).decode()}).encode()
    for stored, raw in ((wrapped, False), (whole, True)):
        event = row(claimed(), payloads=Objects({"a-b.json": stored}), raw_payloads=raw)
        assert event.after == '{"id": "1", "v": "long"}'
        assert event.claim_check_digest == sha256(stored).hexdigest()
        assert not event.handle_key_only


def test_a_claim_check_that_cannot_be_redeemed_is_rejected() -> None:
    assert error_of(claimed()) == "MissingPayload"
    assert error_of(claimed(), payloads=Objects()) == "MissingPayload"
    others = [message(table="u"), message(_tidb={"commitTs": TS + 1}), claimed(), {"x": 1}]
    for other in others:
        stored = Objects({"a-b.json": json.dumps(other).encode()})
        assert error_of(claimed(), payloads=stored, raw_payloads=True) == "MalformedMessage"


BAD: list[tuple[str, dict[str, Any] | bytes | None]] = [
    ("MalformedMessage", None),
    ("MalformedMessage", b""),
    ("MalformedMessage", b"\x00"),
    ("MalformedMessage", b"[]"),
    ("MalformedMessage", b"\xff"),
    ("MalformedMessage", b'{"type":"INSERT"'),
    ("MalformedMessage", b'{"x":' + b"[" * 1_000_000),
    ("MalformedMessage", b'{"data":[' * 200_000),
    ("MalformedMessage", {}),
    ("MalformedMessage", message(_tidb={"commitTs": -1})),
    ("MalformedMessage", message(_tidb={"commitTs": 2**63})),
    ("MalformedMessage", message(_tidb={"commitTs": 1.5})),
    ("MalformedMessage", message(_tidb=..., es=...)),
    ("MalformedMessage", message(_tidb=..., es=2**46)),
    ("MalformedMessage", message(_tidb=..., es=-1)),
    ("MalformedMessage", message(ts=10**30)),
    ("MalformedMessage", message(type="TIDB_WATERMARK")),
    ("MalformedMessage", message(type="TIDB_WATERMARK", _tidb={"watermarkTs": -1})),
    ("MalformedMessage", message(isDdl=True, sql="")),
    ("MalformedMessage", message(data=[])),
    ("MalformedMessage", message(data=None)),
    ("MalformedMessage", message(data={"id": "1"})),
    ("MalformedMessage", message(data=["x"])),
    ("MalformedMessage", message(data=[None])),
    ("MalformedMessage", message(type="UPDATE", old=[])),
    ("MalformedMessage", message(type="UPDATE", old=[{}, {}])),
    ("MalformedMessage", message(database="")),
    ("MalformedMessage", message(table=None)),
    ("MalformedMessage", message(mysqlType=None)),
    ("MalformedMessage", message(mysqlType=...)),
    ("MalformedMessage", message(mysqlType={"id": 4, "v": "blob"})),
    ("MalformedMessage", message(mysqlType={"v": "blob"}, data=[{"v": 1}])),
    ("MalformedMessage", message(mysqlType={"v": "blob"}, data=[{"v": "\u0100"}])),
    ("MalformedMessage", message(sqlType={"v": [2004]})),
    ("UnknownMessage", message(type="QUERY")),
    ("UnknownMessage", message(type="x" * 10_000)),
    ("MalformedMessage", json.dumps(message()).encode().replace(b"varchar", b"\xff")),
    ("MalformedMessage", json.dumps(message()).encode().replace(b'"1"', b'"\xff"')),
]


@pytest.mark.parametrize(("error", "content"), BAD)
def test_what_is_no_message_is_rejected(error: str, content: dict[str, Any] | bytes | None) -> None:
    assert error_of(content) == error


def test_a_timestamp_that_is_none_is_rejected_where_it_must_be_read() -> None:
    for text in ("", "x", "2024-13-01 00:00:00", "0001-01-01 00:00:00", "2024-01-01"):
        content = message(mysqlType={"v": "timestamp"}, data=[{"v": text}])
        assert error_of(content, tz="Asia/Shanghai") == "MalformedMessage"


def test_a_compressed_message_must_be_compressed() -> None:
    for method in ("snappy", "lz4"):
        assert error_of(message(), compression=method) == "MalformedMessage"


WHOLE = json.dumps(
    message(
        type="UPDATE",
        mysqlType={"id": "int", "v": "blob"},
        sqlType={"id": 4, "v": 2004},
        data=[{"id": "1", "v": "ÿ"}],
        old=[{"id": "1", "v": "x"}],
    ),
    ensure_ascii=False,
).encode()


@given(st.binary(max_size=60))
@example(b"{}")
def test_no_bytes_make_it_raise(value: bytes) -> None:
    assert all(isinstance(event, Quarantined) for event in decode(value, tz="Asia/Shanghai"))


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 7), st.booleans())
def test_no_damage_makes_it_raise(place: int, bit: int, cut: bool) -> None:
    value = bytearray(WHOLE)
    value[place] ^= 1 << bit
    if cut:
        del value[place:]
    for event in decode(bytes(value), tz="Asia/Shanghai"):
        assert isinstance(event, RowChange | Quarantined | SchemaChange)
        if isinstance(event, RowChange):
            row_image.load(event.after or event.before or "")


def test_a_large_message_takes_time_in_proportion() -> None:
    wide = {f"c{n}": "timestamp" for n in range(50_000)}
    content = message(mysqlType=wide, data=[dict.fromkeys(wide, "2024-01-01 00:00:00")])
    start = time.process_time()
    assert row(content, "Asia/Shanghai").op is Op.INSERT
    assert time.process_time() - start < 2


# --- files

VERSION = TS - 100_000


def file_of(*contents: dict[str, Any] | bytes, end: bytes = b"\r\n") -> bytes:
    lines = [c if isinstance(c, bytes) else json.dumps(c).encode() for c in contents]
    return b"".join(line + end for line in lines)


def decode_file(data: bytes, version: int = VERSION, terminator: str = "\r\n") -> list[Event]:
    decoder = CanalJsonDecoder(tz=UTC, terminator=terminator)
    return list(decoder.decode_file(DataFile("a/b/CDC1.json", data, version, table_id=9)))


def test_a_file_holds_a_row_a_line() -> None:
    events = decode_file(file_of(message(), b"{", message(type="DELETE")))
    assert [event.position for event in events] == [
        FilePosition("a/b/CDC1.json", record) for record in (1, 2, 3)
    ]
    first, second, third = events
    assert isinstance(first, RowChange)
    assert isinstance(second, Quarantined)
    assert isinstance(third, RowChange)
    assert (first.commit_ts, first.ordering) == (TS, "commit_ts")
    assert (first.table_id, first.schema_version) == (9, VERSION)
    assert third.op is Op.DELETE


def test_without_the_extension_a_row_is_never_older_than_its_table_version() -> None:
    data = file_of(message(_tidb=...))
    for version, commit_ts, ordering in (
        ((ES << 18) - 1, ES << 18, "milliseconds"),
        (ES << 18, ES << 18, "milliseconds"),
        ((ES << 18) + 1, (ES << 18) + 1, "table_version"),
    ):
        (event,) = decode_file(data, version)
        assert isinstance(event, RowChange)
        assert (event.commit_ts, event.ordering) == (commit_ts, ordering)


def test_lines_end_where_the_whole_terminator_stands() -> None:
    content = message(data=[{"id": "1", "v": "a|b"}])
    for terminator in ("\n", "|$|", "\r\n", ""):
        data = file_of(content, content, end=terminator.encode() or b"\r\n")
        events = decode_file(data, terminator=terminator)
        assert [type(event) for event in events] == [RowChange, RowChange]


def test_a_file_cut_short_loses_no_whole_line() -> None:
    data = file_of(message(), message())
    assert [type(event) for event in decode_file(data[:-2])] == [RowChange, RowChange]
    assert [type(event) for event in decode_file(data[:-3])] == [RowChange, Quarantined]
    assert decode_file(b"") == []


def test_a_file_holds_neither_ddl_nor_watermark() -> None:
    contents = message(isDdl=True, sql="x"), message(type="TIDB_WATERMARK")
    for event in decode_file(file_of(*contents)):
        assert isinstance(event, Quarantined)
        assert event.error == "UnknownMessage"
