"""Dumps of a topic in both layouts, compressed or not, complete or not."""

import base64
import gzip
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ticdc_assets.errors import ConfigError
from ticdc_assets.events import FilePosition, Quarantined
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources import dump
from ticdc_assets.resources.dump import read_dump

BYTES = st.none() | st.binary(max_size=40)
RECORDS = st.lists(
    st.builds(
        Message,
        topic=st.sampled_from(["shop", "golden_ws____t_1"]),
        partition=st.integers(0, 2**31 - 1),
        offset=st.integers(0, 2**63 - 1),
        key=BYTES,
        value=BYTES,
        timestamp_ms=st.none() | st.integers(0, 2**53),
    ),
    max_size=8,
)
ONE = b'{"topic":"t","partition":0,"offset":1,"key_b64":null,"value_b64":"aGk=","timestamp_ms":5}\n'
READ = Message("t", 0, 1, None, b"hi", 5)


def our_line(record: Message) -> bytes:
    def text(value: bytes | None) -> str | None:
        return None if value is None else base64.b64encode(value).decode()

    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "key_b64": text(record.key),
        "value_b64": text(record.value),
        "timestamp_ms": record.timestamp_ms,
    }
    return json.dumps(fields).encode() + b"\n"


def dump_of(folder: Path, content: bytes, name: str = "records.jsonl") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def list_quarantined(records: list[Message | Quarantined]) -> list[tuple[FilePosition, str]]:
    """List position and reason of all quarantined lines, which must all be malformed."""
    assert {r.error for r in records if isinstance(r, Quarantined)} <= {"MalformedMessage"}
    return [(r.position, r.reason) for r in records if isinstance(r, Quarantined)]


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "zipped"])
@settings(max_examples=50)
@given(records=RECORDS)
def test_our_layout_keeps_every_byte(
    tmp_path_factory: pytest.TempPathFactory, pack: Callable[[bytes], bytes], records: list[Message]
) -> None:
    # The first bytes decide whether a file is compressed, not its name.
    path = dump_of(tmp_path_factory.getbasetemp(), pack(b"".join(map(our_line, records))))
    assert list(read_dump(path)) == records


def test_the_output_of_kcat_is_read_as_text(tmp_path: Path) -> None:
    lines = (
        '{"topic":"t","partition":0,"offset":1,"tstype":"create","ts":1700000000000,"broker":0,'
        '"key":null,"payload":"{\\"id\\":0,\\"名\\":\\"\\u00e9\\"}"}\n'
        '{"topic":"t","partition":2,"offset":7,"tstype":"create","ts":1,"broker":1,'
        '"headers":["a","b"],"key":"k","payload":null}\n'
    )
    assert list(read_dump(dump_of(tmp_path, lines.encode()))) == [
        Message("t", 0, 1, None, '{"id":0,"名":"é"}'.encode(), 1700000000000),
        Message("t", 2, 7, b"k", None, 1),
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"not JSON",
        b"[]",
        b"{}",
        b'{"topic":"t","partition":0}',
        b'{"topic":"t","partition":0,"offset":1}',
        b'{"topic":"t","partition":"0","offset":1,"value_b64":null}',
        b'{"topic":"t","partition":-1,"offset":1,"value_b64":null}',
        b'{"topic":"t","partition":0,"offset":1,"value_b64":"*"}',
        b'{"topic":"t","partition":0,"offset":1,"value_b64":"\xc3\xa9"}',
        b'{"topic":"t","partition":0,"offset":1,"value_b64":"\xff"}',
        b'{"topic":"t","partition":0,"offset":1,"payload":{}}',
        b'{"topic":"t","partition":0,"offset":1,"payload":"\\ud800"}',
        b'{"topic":"t","partition":0,"offset":1,"deep":' + b"[" * 100_000,
        ONE[:-10],
    ],
    ids=lambda line: line[-24:].decode(errors="replace"),
)
def test_a_line_that_is_not_a_record_is_quarantined_with_its_position(
    tmp_path: Path, line: bytes
) -> None:
    first, second, third = read_dump(dump_of(tmp_path, ONE + line + b"\n" + ONE))
    assert (first, third) == (READ, READ)
    assert isinstance(second, Quarantined)
    assert second.position == FilePosition(str(tmp_path / "records.jsonl"), 2)


@given(st.binary(max_size=200))
def test_any_bytes_are_records_or_quarantined(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = dump_of(tmp_path_factory.getbasetemp(), content)
    assert {type(record) for record in read_dump(path)} <= {Message, Quarantined}


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_gzip_file_yields_what_is_readable_and_reports_the_rest(
    tmp_path: Path, damage: str
) -> None:
    records = [Message("t", 0, i, None, str(i).encode() * 9, i) for i in range(2000)]
    zipped = bytearray(gzip.compress(b"".join(map(our_line, records))))
    middle = len(zipped) // 2
    if damage == "cut":
        del zipped[middle:]
    else:
        zipped[middle] ^= 0xFF
    *read, last = read_dump(dump_of(tmp_path, bytes(zipped)))
    whole = [record for record in read if isinstance(record, Message)]
    assert 0 < len(whole) <= 2000
    assert whole[:100] == records[:100]
    assert isinstance(last, Quarantined)
    assert "cannot be read to its end" in last.reason


def test_a_file_that_ends_within_a_line_yields_the_lines_before(tmp_path: Path) -> None:
    read = list(read_dump(dump_of(tmp_path, ONE * 2 + ONE[:30])))
    assert read[:2] == [READ, READ]
    assert [position.record for position, _ in list_quarantined(read)] == [3]


@pytest.mark.parametrize(
    "content", [b"", b"\n \r\n\n", gzip.compress(b"", mtime=0)], ids=["empty", "blank", "zipped"]
)
def test_an_empty_file_has_no_records(tmp_path: Path, content: bytes) -> None:
    assert list(read_dump(dump_of(tmp_path, content))) == []


def test_the_last_line_needs_no_line_break(tmp_path: Path) -> None:
    assert list(read_dump(dump_of(tmp_path, ONE.replace(b"\n", b"\r\n") + ONE[:-1]))) == [READ] * 2


def test_a_line_longer_than_any_record_is_quarantined_without_being_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dump, "_MAX_LINE", 1 << 20)
    # Small as a file; as one text it would take 64 MB.
    content = gzip.compress(ONE + b" " * (64 << 20) + b"\n" + ONE)
    path = dump_of(tmp_path, content)
    tracemalloc.start()
    first, second, third = read_dump(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (first, third) == (READ, READ)
    assert list_quarantined([second]) == [
        (FilePosition(str(path), 2), "a line of more than 1,048,576 bytes")
    ]
    assert most < 16 << 20


@pytest.mark.parametrize("name", ["nowhere.jsonl", "folder", "records.jsonl/inside"])
def test_the_error_names_a_missing_file(tmp_path: Path, name: str) -> None:
    dump_of(tmp_path, ONE)
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError) as caught:
        list(read_dump(tmp_path / name))
    assert caught.value.setting == "sink-uri"
    assert caught.value.file == str(tmp_path / name)
