"""Canal-JSON by hand: the dialects that the golden data lack, and hostile input."""

import json
import time
from base64 import b64decode, b64encode
from hashlib import sha256
from random import Random
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.protocols.canal_json_messages import ES, TS, column, decode, error_of, message, row
from ticdc_assets.events import (
    Op,
    Quarantined,
    RowChange,
    SchemaChange,
    TopicPosition,
    Watermark,
    row_image,
)
from ticdc_assets.protocols.canal_json import decoder
from ticdc_assets.schema.inference import parse_observed_columns


def test_a_row_keeps_every_field_of_its_message() -> None:
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


def test_without_the_extension_the_commit_ts_is_the_millisecond() -> None:
    event = row(message(_tidb=...))
    assert (event.commit_ts, event.ordering) == (ES << 18, "milliseconds")


@pytest.mark.parametrize("old", [None, [{"id": "1", "v": None}]])
def test_a_delete_has_its_row_in_data_and_old_is_ignored(
    old: list[dict[str, Any]] | None,
) -> None:
    event = row(message(type="DELETE", old=old))
    assert (event.before, event.after) == ('{"id": "1", "v": null}', None)


@pytest.mark.parametrize("names", [None, []])
def test_a_message_without_primary_key_states_no_key(names: list[str] | None) -> None:
    assert row(message(pkNames=names)).key_columns is None


@pytest.mark.parametrize(
    ("fields", "has_key_only"),
    [
        ({"type": "DELETE"}, True),
        ({"type": "INSERT"}, False),
        ({"type": "UPDATE", "old": [{"u": "0"}]}, False),
        ({"type": "INSERT", "_tidb": {"commitTs": TS, "onlyHandleKey": True}}, True),
    ],
)
def test_a_message_without_primary_key_that_has_a_key_only_states_it(
    fields: dict[str, Any], has_key_only: bool
) -> None:
    content = message(pkNames=None, data=[{"u": "1"}], mysqlType={"u": "int"}, **fields)
    expected = ("u",) if has_key_only else None
    assert row(content, deletes_have_keys_only=True).key_columns == expected


def test_an_update_may_hold_the_changed_old_columns_only() -> None:
    event = row(message(type="UPDATE", old=[{"v": "x"}]))
    assert (event.before, event.after) == ('{"v": "x"}', '{"id": "1", "v": null}')
    assert row(message(type="UPDATE", old=[{}])).before == "{}"
    assert row(message(type="UPDATE")).before is None


def test_messages_of_the_original_canal_have_several_rows_and_full_types() -> None:
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


def test_is_ddl_decides_that_a_message_is_a_ddl() -> None:
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


def test_a_watermark_has_the_ts_of_the_extension() -> None:
    content = message(type="TIDB_WATERMARK", database="", _tidb={"watermarkTs": TS})
    position = TopicPosition("topic", 3, 14)
    assert decode(content) == [Watermark(ts=TS, position=position, build_ts=ES + 5)]


def test_binary_values_are_code_points() -> None:
    octets = bytes([5, 7, 10, 15, 36, 50, 43, 99, 120, 60, 38, 255, 254, 45, 55, 70])
    text = "\u0005\u0007\n\u000f$2+cx\u003c\u0026ÿþ-7F"
    for kind in ("blob", "varbinary", "LONGBLOB", "binary(16)", "tinyblob"):
        assert b64decode(column(kind, text) or "") == octets
        assert column(kind, None) is None
        assert column(kind, "") == ""


def test_only_the_name_of_a_type_marks_binary_columns() -> None:
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
        ("timestamp", "2024-11-03 01:30:00", "2024-11-03 05:30:00|2024-11-03 06:30:00"),
        ("datetime", "2024-01-01 08:00:00", "2024-01-01 08:00:00"),
    ],
)
def test_timestamps_are_converted_to_utc(kind: str, text: str, utc: str) -> None:
    assert column(kind, text, "America/New_York") == utc
    assert column(kind, text) == text


def test_a_too_large_row_is_marked_handle_key_only() -> None:
    tidb = {"commitTs": TS, "onlyHandleKey": True}
    assert row(message(_tidb=tidb)).handle_key_only


class Objects(dict[str, bytes]):
    def fetch(self, name: str) -> bytes:
        return self[name]


def claimed(**fields: Any) -> dict[str, Any]:
    tidb = {"commitTs": TS, "claimCheckLocation": "s3://bucket/prefix/a-b.json"}
    return message(**{"_tidb": tidb, "data": [{"id": "1"}]} | fields)


def test_a_claim_check_is_replaced_by_its_object() -> None:
    whole = json.dumps(message(data=[{"id": "1", "v": "long"}])).encode()
    wrapped = json.dumps({"key": None, "value": b64encode(whole).decode()}).encode()
    for stored, raw in ((wrapped, False), (whole, True)):
        event = row(claimed(), payloads=Objects({"a-b.json": stored}), raw_payloads=raw)
        assert event.after == '{"id": "1", "v": "long"}'
        assert event.claim_check_digest == sha256(stored).hexdigest()
        assert not event.handle_key_only


def test_an_invalid_claim_check_is_quarantined() -> None:
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
def test_an_invalid_message_is_quarantined(
    error: str, content: dict[str, Any] | bytes | None
) -> None:
    assert error_of(content) == error


def test_an_invalid_timestamp_is_quarantined_where_it_is_converted() -> None:
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
def test_no_bytes_make_the_decoder_raise(value: bytes) -> None:
    assert all(isinstance(event, Quarantined) for event in decode(value, tz="Asia/Shanghai"))


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 7), st.booleans())
def test_no_damage_makes_the_decoder_raise(place: int, bit: int, cut: bool) -> None:
    value = bytearray(WHOLE)
    value[place] ^= 1 << bit
    if cut:
        del value[place:]
    for event in decode(bytes(value), tz="Asia/Shanghai"):
        assert isinstance(event, RowChange | Quarantined | SchemaChange)
        if isinstance(event, RowChange):
            row_image.load(event.after or event.before or "")


def test_decoding_takes_time_in_proportion_to_the_message() -> None:
    start = time.process_time()
    for columns in (4096, 50_000):
        wide = {f"c{n}": "timestamp" for n in range(columns)}
        content = message(mysqlType=wide, data=[dict.fromkeys(wide, "2024-01-01 00:00:00")])
        if columns == 4096:
            assert row(content, "Asia/Shanghai").op is Op.INSERT
        else:
            # No table of TiDB has as many.
            assert error_of(content) == "MalformedMessage"
    assert time.process_time() - start < 2


def test_the_types_of_a_table_are_checked_once_in_whatever_order_they_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check = MagicMock(side_effect=parse_observed_columns)
    monkeypatch.setattr(decoder, "parse_observed_columns", check)
    # As a map of Go: TiCDC lists them in another order in every message.
    names, random = [f"any_order_{n}" for n in range(12)], Random(1)
    for _ in range(50):
        random.shuffle(names)
        types = {name: "blob" if name.endswith("_7") else "int" for name in names}
        event = row(message(mysqlType=types, sqlType={}, data=[dict.fromkeys(types, "1")]))
        assert event.observed == json.dumps(types)
        image = row_image.load(event.after or "")
        assert image == {name: "MQ==" if name.endswith("_7") else "1" for name in names}
    assert check.call_count == 1


# --- files
