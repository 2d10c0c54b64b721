"""Canal-JSON data files of the storage sink."""

import json
from typing import Any

from tests.protocols.canal_json_messages import ES, TS, UTC, message
from ticdc_assets.events import (
    Event,
    FilePosition,
    Op,
    Quarantined,
    RowChange,
)
from ticdc_assets.protocols.canal_json.decoder import CanalJsonDecoder
from ticdc_assets.protocols.message import DataFile

VERSION = TS - 100_000


def file_of(*contents: dict[str, Any] | bytes, end: bytes = b"\r\n") -> bytes:
    lines = [c if isinstance(c, bytes) else json.dumps(c).encode() for c in contents]
    return b"".join(line + end for line in lines)


def decode_file(data: bytes, version: int = VERSION, terminator: str = "\r\n") -> list[Event]:
    decoder = CanalJsonDecoder(tz=UTC, terminator=terminator)
    return list(decoder.decode_file(DataFile("a/b/CDC1.json", data, version, table_id=9)))


def test_a_file_has_one_row_per_line() -> None:
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


def test_without_the_extension_a_row_is_not_older_than_its_table_version() -> None:
    data = file_of(message(_tidb=...))
    for version, commit_ts, ordering in (
        ((ES << 18) - 1, ES << 18, "milliseconds"),
        (ES << 18, ES << 18, "milliseconds"),
        ((ES << 18) + 1, (ES << 18) + 1, "table_version"),
    ):
        (event,) = decode_file(data, version)
        assert isinstance(event, RowChange)
        assert (event.commit_ts, event.ordering) == (commit_ts, ordering)


def test_a_line_ends_at_the_whole_terminator() -> None:
    content = message(data=[{"id": "1", "v": "a|b"}])
    for terminator in ("\n", "|$|", "\r\n", ""):
        data = file_of(content, content, end=terminator.encode() or b"\r\n")
        events = decode_file(data, terminator=terminator)
        assert [type(event) for event in events] == [RowChange, RowChange]


def test_a_truncated_file_loses_no_whole_line() -> None:
    data = file_of(message(), message())
    assert [type(event) for event in decode_file(data[:-2])] == [RowChange, RowChange]
    assert [type(event) for event in decode_file(data[:-3])] == [RowChange, Quarantined]
    assert decode_file(b"") == []


def test_ddl_and_watermarks_in_a_file_are_quarantined() -> None:
    contents = message(isDdl=True, sql="x"), message(type="TIDB_WATERMARK")
    for event in decode_file(file_of(*contents)):
        assert isinstance(event, Quarantined)
        assert event.error == "UnknownMessage"
