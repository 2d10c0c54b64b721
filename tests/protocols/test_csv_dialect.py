import json
from collections.abc import Iterator
from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.golden import datasets
from tests.protocols.csv_files import data_files, feed_of
from tests.protocols.csv_writer import (
    FULL,
    UTC,
    VERSION,
    Written,
    dialects,
    events_of,
    read,
    read_events,
    table,
    write,
    written_files,
)
from ticdc_assets.changefeed import CsvDialect
from ticdc_assets.changefeed.csv_dialect import find_fault
from ticdc_assets.events import Op, Quarantined, RowChange, TableSchema, row_image
from ticdc_assets.protocols.csv import columnar as csv_columnar
from ticdc_assets.protocols.csv import decoder as csv
from ticdc_assets.protocols.csv.batch import numbered
from ticdc_assets.protocols.csv.columnar import ColumnarReader
from ticdc_assets.protocols.csv.scanner import Scanner
from ticdc_assets.protocols.csv.shape import Row, Shape, find_shapes


@settings(max_examples=150)
@given(written_files(dialects))
def test_rows_survive_writing_and_reading_in_any_dialect(
    case: tuple[CsvDialect, TableSchema, list[Written]],
) -> None:
    dialect, schema, rows = case
    assert find_fault(dialect) is None
    data = write(dialect, schema, rows)
    assert read_events(data, schema, dialect) == events_of(schema, rows)


AMBIGUOUS: list[tuple[str, CsvDialect, list[object], list[object]]] = [
    # the setting that is wrong, the dialect, two rows with the same bytes
    ("null", CsvDialect(quote="", null=""), ["a", None], ["a", ""]),
    ("null", CsvDialect(quote="", null="NULL"), ["a", None], ["a", "NULL"]),
    ("null", CsvDialect(quote="", null="\\\\N"), ["a", None], ["a", "\\N"]),
    ("null", CsvDialect(null='""'), ["a", None], ["a", ""]),
    ("null", CsvDialect(null="0"), [1, None], [1, 0]),
    ("delimiter", CsvDialect(delimiter="1"), [1, 15], [11, 5]),
    ("delimiter", CsvDialect(quote="", delimiter="||"), ["a|", "b"], ["a", "|b"]),
    ("delimiter", CsvDialect(quote="", delimiter="|,|"), ["a|,", "b"], ["a", ",|b"]),
    ("delimiter", CsvDialect(quote="", delimiter="n"), ["a\n", "b"], ["an", "b"]),
]


@pytest.mark.parametrize(("setting", "dialect", "one", "other"), AMBIGUOUS)
def test_a_dialect_that_gives_two_rows_the_same_bytes_is_an_error(
    setting: str, dialect: CsvDialect, one: list[object], other: list[object]
) -> None:
    schema = table(*("n1", "n2") if isinstance(one[0], int) else ("t1", "t2"))
    data = [write(dialect, schema, [Written("I", 5, False, row)]) for row in (one, other)]
    assert one != other
    assert data[0] == data[1]
    fault = find_fault(dialect)
    assert fault is not None
    assert fault[0] == setting


@pytest.mark.parametrize(
    ("setting", "dialect"),
    [
        ("terminator", CsvDialect(quote="", terminator=";")),
        ("terminator", CsvDialect(terminator="0")),
        ("delimiter", CsvDialect(quote="", delimiter="¦")),
        ("delimiter", CsvDialect(delimiter="|", terminator="|\n")),
        ("quote", CsvDialect(quote="e")),
        ("null", CsvDialect(null=",")),
        ("null", CsvDialect(quote="", null="\\")),
        ("null", CsvDialect(null="\n")),
    ],
)
def test_a_dialect_whose_signs_may_be_mistaken_for_each_other_is_an_error(
    setting: str, dialect: CsvDialect
) -> None:
    fault = find_fault(dialect)
    assert fault is not None
    assert fault[0] == setting


def test_a_custom_terminator_is_literal_inside_text() -> None:
    dialect = replace(FULL, terminator="<end>")
    schema = table("n1", "t2")
    rows = [Written("I", 5, False, [1, 'a<end>b"']), Written("D", 6, False, [2, "<end>"])]
    assert read_events(write(dialect, schema, rows), schema, dialect) == events_of(schema, rows)


def scanned(data: bytes, shape: Shape, dialect: CsvDialect) -> Iterator[tuple[Row, int]]:
    """Rows and their ends, up to the first record that is broken."""
    for record in Scanner(dialect, 100).records(data, 0):
        if record.problem is not None or len(record.fields) != shape.width:
            return
        try:
            yield loaded(shape.read(record.fields, VERSION)), record.end
        except Exception:  # whatever it is, reading ends here
            return


def loaded(row: Row) -> Row:
    return row._replace(image=json.dumps(row_image.load(row.image)))


def by_column(data: bytes, shape: Shape, dialect: CsvDialect) -> tuple[list[Row], int]:
    rows: list[Row] = []
    end = 0
    for block in ColumnarReader(dialect, shape, VERSION).blocks(data, 0):
        lines = numbered(block.columns, 1).drop_columns(["record"]).to_pylist()
        rows += [loaded(Row(**line)) for line in lines]
        end = block.end
    return rows, end


@pytest.mark.parametrize("dataset", datasets("*storage-csv-full"))
def test_both_readers_read_the_same_from_real_files(dataset: str) -> None:
    feed = feed_of(dataset)
    for file in data_files(dataset)[::3]:
        assert file.schema is not None
        shapes = find_shapes(file.data, file.schema, feed.csv, UTC)
        record = next(Scanner(feed.csv, 100).records(file.data, 0))
        shape = shapes.by_width[len(record.fields)]
        rows, end = by_column(file.data, shape, feed.csv)
        valid = file.data.decode("utf-8", "replace").encode() == file.data
        assert end == (len(file.data) if valid else 0), file.path
        if valid:
            assert rows == [row for row, _ in scanned(file.data, shape, feed.csv)]


@settings(max_examples=150)
@given(
    written_files(dialects.filter(ColumnarReader.serves)),
    st.data(),
)
def test_the_columnar_reader_accepts_only_what_the_scanner_reads_the_same(
    case: tuple[CsvDialect, TableSchema, list[Written]], data: st.DataObject
) -> None:
    dialect, schema, rows = case
    dialect = replace(dialect, field_header=False)
    whole = write(dialect, schema, rows)
    damaged = whole
    if data.draw(st.booleans()):
        start = data.draw(st.integers(0, len(whole)))
        end = data.draw(st.integers(start, min(len(whole), start + 4)))
        patch = data.draw(st.text(st.sampled_from('",\r\n\\N1aID'), max_size=3)).encode()
        damaged = whole[:start] + patch + whole[end:]
    [shape] = find_shapes(damaged, schema, dialect, UTC).by_width.values()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(csv_columnar, "_BLOCK", 200)
        found, end = by_column(damaged, shape, dialect)
    specified = list(scanned(damaged, shape, dialect))
    assert found == [row for row, _ in specified[: len(found)]]
    if found:
        assert end == specified[len(found) - 1][1]
    if damaged == whole and max(map(len, whole.splitlines()), default=0) < 50:
        values = [str(value) for row in rows for value in row.values]
        if not any("\udc80" <= character <= "\udcff" for character in "".join(values)):
            assert end == len(whole)


def test_files_of_many_blocks_are_read_to_the_end_around_broken_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(csv_columnar, "_BLOCK", 1 << 15)
    monkeypatch.setattr(csv, "_SHORT_STRETCH", 1 << 13)
    schema = table("n1", "t2", "b3", "d4")
    rows = []
    for number in range(9_000):
        values = [number, f'"{number}", \\\n\x01', bytes([number % 256]), "2024-06-01 12:00:00"]
        if number % 3:
            rows.append(Written("I", 5 + number, False, values))
        else:
            rows.append(Written("D", 5 + number, True, values))
            rows.append(Written("I", 5 + number, True, values))
    parts = [write(FULL, schema, rows[:1]), *(write(FULL, schema, [row]) for row in rows[1:])]
    broken = {2_000: b'"I","tab","db",x\r\n', 6_000: b'"I","tab"db\r\n', 9_000: b"\r\n"}
    for place, damage in broken.items():
        parts[place] = damage
    survivors = [row for place, row in enumerate(rows) if place not in broken]
    tz = ZoneInfo("Asia/Shanghai")
    found = read(b"".join(parts), schema, FULL, tz)
    quarantined = [event.position.record for event in found if isinstance(event, Quarantined)]
    assert quarantined == [place + 1 for place in broken]
    changes = [event for event in found if isinstance(event, RowChange)]
    assert [event.commit_ts for event in changes] == [
        commit_ts for _, _, commit_ts, _, _ in events_of(schema, survivors)
    ]
    assert {row_image.load(event.after or event.before or "")["d4"] for event in changes} == {
        "2024-06-01 04:00:00"
    }
    assert sum(event.op is Op.UPDATE for event in changes) > 2_990
