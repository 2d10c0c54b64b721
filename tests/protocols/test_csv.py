from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as with_fields

from tests.protocols.csv_writer import (
    DEFAULT,
    FULL,
    VERSION,
    Written,
    dialects,
    outcomes,
    read,
    table,
    write,
)
from ticdc_assets.changefeed import CsvDialect
from ticdc_assets.events import (
    Column,
    ColumnType,
    FilePosition,
    Op,
    Quarantined,
    RowChange,
    row_image,
)


def test_half_an_update_remains_an_insert_or_a_delete() -> None:
    schema = table("n1")
    cases = [
        ([Written("D", 5, True, [1])], [Op.DELETE]),
        ([Written("I", 5, True, [1])], [Op.INSERT]),
        ([Written("D", 5, True, [1]), Written("I", 6, True, [1])], [Op.DELETE, Op.INSERT]),
        ([Written("D", 5, False, [1]), Written("I", 5, False, [1])], [Op.DELETE, Op.INSERT]),
        ([Written("D", 5, True, [1]), Written("I", 5, False, [1])], [Op.DELETE, Op.INSERT]),
        ([Written("I", 5, True, [1]), Written("D", 5, True, [1])], [Op.INSERT, Op.DELETE]),
        ([Written("D", 5, True, [n // 2]) if n % 2 == 0 else Written("I", 5, True, [n // 2])
          for n in range(6)], [Op.UPDATE] * 3),
    ]  # fmt: skip
    for rows, ops in cases:
        found = read(write(FULL, schema, rows), schema, FULL)
        assert [event.op for event in found if isinstance(event, RowChange)] == ops


def test_records_beside_a_broken_one_are_not_paired() -> None:
    schema = table("n1")
    delete, insert = (Written(op, 5, True, [1]) for op in "DI")
    data = write(FULL, schema, [delete]) + b'"I"\r\n' + write(FULL, schema, [insert])
    assert outcomes(read(data, schema, FULL)) == [(1, "delete"), (2, "broken"), (3, "insert")]


def test_rows_without_commit_ts_have_the_table_version() -> None:
    [event] = read(b'"I","tab","db",1\r\n', table("n1"))
    assert isinstance(event, RowChange)
    assert (event.commit_ts, event.ordering, event.schema_version) == (
        VERSION,
        "table_version",
        VERSION,
    )
    assert (event.table_id, event.position) == (7, FilePosition("f.csv", 1))


def test_names_come_from_the_row_not_from_the_schema() -> None:
    [event] = read(b'"I","new ""name""","other",1\r\n', table("n1"))
    assert isinstance(event, RowChange)
    assert (event.database, event.table) == ("other", 'new "name"')


def test_timestamps_are_converted_to_utc() -> None:
    rows = [Written("I", 5, False, [text]) for text in (
        "2024-06-01 12:00:00.120", "0000-00-00 00:00:00.000", None, "1970-01-01 08:00:01.000",
    )]  # fmt: skip
    data = write(FULL, table("d1"), rows)
    found = read(data, table("d1"), FULL, ZoneInfo("Asia/Shanghai"))
    assert [row_image.load(e.after or "")["d1"] for e in found if isinstance(e, RowChange)] == [
        "2024-06-01 04:00:00.120", "0000-00-00 00:00:00.000", None, "1970-01-01 00:00:01.000",
    ]  # fmt: skip


def test_bytes_that_are_not_utf8_are_kept() -> None:
    [event] = read(b'"I","tab","db","\xff\xc3"\r\n', table("t1"))
    assert isinstance(event, RowChange)
    [text] = row_image.load(event.after or "").values()
    assert text is not None
    assert text.encode("utf-8", "surrogateescape") == b"\xff\xc3"


def test_virtual_and_hidden_columns_are_not_in_the_rows() -> None:
    schema = table("n1", "t2", "n3", t2="virtual", n3="stored")
    hidden = Column("_V$_idx_0", ColumnType("bigint"))
    schema = with_fields(schema, columns=(*schema.columns, hidden))
    [event] = read(b'"I","tab","db",1,3\r\n', schema)
    assert isinstance(event, RowChange)
    assert row_image.load(event.after or "") == {"n1": "1", "n3": "3"}


def test_records_with_an_unexpected_number_of_fields_are_quarantined() -> None:
    data = b'"I","tab","db",1\r\n"I","tab","db",1,2\r\n"I","tab","db",1,2,3,4\r\n'
    found = read(data, table("n1", "n2", "n3", n3="virtual"))
    assert outcomes(found) == [(1, "broken"), (2, "insert"), (3, "broken")]
    first = found[0]
    assert isinstance(first, Quarantined)
    assert first.error == "MalformedMessage"
    assert first.reason == "4 fields; 5 or 6 are expected"


HEADER = "ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema"


@pytest.mark.parametrize("declared", [True, False])
def test_a_header_names_the_columns_of_the_records(declared: bool) -> None:
    dialect = replace(DEFAULT, field_header=declared)
    schema = table("n1", "t2", "n3,x", "n4")
    data = f'{HEADER},ticdc-meta$commit-ts,n1,n3,x,n4\r\n"I","tab","db",9,1,3,4\r\n'.encode()
    [event] = read(data, schema, dialect)
    assert isinstance(event, RowChange)
    assert (event.commit_ts, event.ordering) == (9, "commit_ts")
    assert row_image.load(event.after or "") == {"n1": "1", "n3,x": "3", "n4": "4"}
    assert event.position == FilePosition("f.csv", 1)


def test_a_declared_header_may_be_missing() -> None:
    dialect = replace(DEFAULT, field_header=True)
    assert outcomes(read(b'"I","tab","db",1\r\n', table("n1"), dialect)) == [(1, "insert")]


@pytest.mark.parametrize(
    "header", [f"{HEADER},n1,nope\r\n", f"{HEADER},n1", f"{HEADER}\r\n", HEADER.replace(",", ";")]
)
def test_a_file_with_an_invalid_header_is_quarantined(header: str) -> None:
    found = read(header.encode() + b'"I","tab","db",1\r\n'[: 1 if header.endswith("n1") else None],
                 table("n1", "n2"))  # fmt: skip
    assert outcomes(found) == [(0, "broken")]


def test_a_file_without_a_schema_is_quarantined() -> None:
    [event] = read(b'"I","tab","db",1\r\n' * 3, None)
    assert isinstance(event, Quarantined)
    assert event.error == "UnknownMessage"
    assert event.position == FilePosition("f.csv")


GOOD = b'"I","tab","db",1,"x"\r\n'


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (GOOD[:-1], [(1, "broken")]),
        (GOOD + GOOD[:-4], [(1, "insert"), (2, "broken")]),
        (GOOD + GOOD[:12] + GOOD, [(1, "insert"), (2, "broken")]),
        (GOOD[:-4] + b"\r\n" + GOOD * 2, [(1, "broken"), (2, "insert"), (3, "insert")]),
        (GOOD.replace(b'"x"', b'"x"y') + GOOD, [(1, "broken"), (2, "insert")]),
        (GOOD.replace(b"1", b'1"') + GOOD, [(1, "broken"), (2, "insert")]),
        (GOOD.replace(b'"I"', b'"X"') + GOOD, [(1, "broken"), (2, "insert")]),
        (GOOD.replace(b'"I"', b"\\N") + GOOD, [(1, "broken"), (2, "insert")]),
        (GOOD.replace(b'"db"', b'"\xff"') + GOOD, [(1, "broken"), (2, "insert")]),
        (b"\r\n" + GOOD, [(1, "broken"), (2, "insert")]),
        (GOOD.replace(b"\r\n", b"\n") * 2 + GOOD, [(1, "broken")]),
        (b"," * 5000 + b"\r\n" + GOOD, [(1, "broken"), (2, "insert")]),
    ],
)
def test_a_broken_record_does_not_affect_the_rest_of_the_file(
    data: bytes, expected: list[tuple[int, str]]
) -> None:
    assert outcomes(read(data, table("n1", "t2"))) == expected


@pytest.mark.parametrize(
    ("name", "dialect", "value"),
    [
        ("b1", FULL, b'"AAA"'),
        ("b1", FULL, b'"AAAA=="'),
        ("b1", FULL, b'"A A="'),
        ("b1", replace(FULL, binary_encoding="hex"), b'"0"'),
        ("b1", replace(FULL, binary_encoding="hex"), b'"0g"'),
        ("d1", FULL, b'"yesterday"'),
    ],
)
def test_values_that_cannot_be_converted_are_quarantined(
    name: str, dialect: CsvDialect, value: bytes
) -> None:
    data = b'"I","tab","db",5,false,%b\r\n' % value
    found = read(data, table(name), dialect, ZoneInfo("Asia/Shanghai"))
    assert outcomes(found) == [(1, "broken")]


@pytest.mark.parametrize("value", [b"-1", b"", b"0x10", b"9223372036854775808", b"\\N", b"1e3"])
def test_an_invalid_commit_ts_is_quarantined(value: bytes) -> None:
    data = b'"I","tab","db",%b,false,1\r\n' % value
    assert outcomes(read(data, table("n1"), FULL)) == [(1, "broken")]


@settings(max_examples=100)
@given(st.data(), dialects)
def test_no_bytes_make_the_decoder_raise(data: st.DataObject, dialect: CsvDialect) -> None:
    alphabet = sorted({*dialect.delimiter, *dialect.quote, *dialect.terminator, *"ID1\\N\xff\0"})
    text = data.draw(st.text(st.sampled_from(alphabet), max_size=80))
    start = write(dialect, table("n1", "t2"), [Written("I", 5, False, [1, "x"])])
    for event in read(start + text.encode("latin-1", "replace"), table("n1", "t2"), dialect):
        assert isinstance(event, RowChange | Quarantined)


@pytest.mark.parametrize("unit", [b"a", b'"', b",", b'"",', b"\r", b"\\", b'\r\n"I","'])
def test_large_hostile_files_are_quarantined_at_once(unit: bytes) -> None:
    for dialect in (DEFAULT, replace(DEFAULT, quote="")):
        for event in read(unit * (1_000_000 // len(unit) ** 2), table("n1"), dialect):
            assert isinstance(event, Quarantined)
