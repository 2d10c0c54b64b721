"""CSV files as TiCDC writes them, in any dialect, and the events that they stand for."""

import base64
import re
from collections.abc import Sequence
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from ticdc_assets.changefeed import CsvDialect
from ticdc_assets.events import (
    Column,
    ColumnType,
    Event,
    FilePosition,
    Op,
    Quarantined,
    RowChange,
    TableSchema,
    row_image,
)
from ticdc_assets.protocols.csv.decoder import CsvDecoder
from ticdc_assets.protocols.message import DataFile

UTC = ZoneInfo("UTC")
VERSION = 470608230563184640

TYPES = {
    "n": ColumnType("bigint"),
    "f": ColumnType("double"),
    "t": ColumnType("varchar"),
    "b": ColumnType("varbinary"),
    "e": ColumnType("enum"),
    "d": ColumnType("timestamp"),
}
DEFAULT = CsvDialect()
FULL = CsvDialect(include_commit_ts=True, output_old_value=True)


def table(*names: str, **generated: str) -> TableSchema:
    """A table whose columns are called by their kind: n1, t2, …"""
    columns = tuple(Column(name, TYPES[name[0]], generated=generated.get(name)) for name in names)
    return TableSchema("db", "tab", columns, version=VERSION)


class Written(NamedTuple):
    op: str
    commit_ts: int
    is_update: bool
    values: Sequence[object]


def write(dialect: CsvDialect, schema: TableSchema, rows: Sequence[Written]) -> bytes:
    """Write a file by TiCDC's rules: `int` and `float` bare, `str` as text, `bytes` encoded."""
    delimiter = dialect.delimiter.encode()
    lines = []
    if dialect.field_header:
        names = ["operation", "table", "schema"]
        names += ["commit-ts"] * dialect.include_commit_ts + [
            "is-update"
        ] * dialect.output_old_value
        header = [f"ticdc-meta${name}" for name in names]
        lines.append([name.encode() for name in (*header, *(c.name for c in schema.columns))])
    for row in rows:
        values: list[object] = [row.op, schema.table, schema.database]
        if dialect.include_commit_ts:
            values.append(row.commit_ts)
        if dialect.output_old_value:
            values.append(row.is_update)
        if dialect.handle_key:
            values.append("{1, x}")
        lines.append([written_value(dialect, value) for value in (*values, *row.values)])
    end = dialect.terminator.encode()
    return b"".join(delimiter.join(line) + end for line in lines)


def written_value(dialect: CsvDialect, value: object) -> bytes:
    if value is None:
        return dialect.null.encode()
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int | float):
        return repr(value).encode()
    if isinstance(value, bytes):
        value = (
            base64.b64encode(value).decode() if dialect.binary_encoding == "base64" else value.hex()
        )
    text = str(value).encode("utf-8", "surrogateescape")
    if quote := dialect.quote.encode():
        return quote + text.replace(quote, quote * 2) + quote
    delimiter = dialect.delimiter.encode()
    return re.sub(rb"[\\\r\n]|" + re.escape(delimiter), _escape, text)


def _escape(found: re.Match[bytes]) -> bytes:
    """Escape a backslash, a line break, or every byte of a whole delimiter."""
    letters = {b"\r": b"r", b"\n": b"n"}
    signs = [bytes([byte]) for byte in found[0]]
    return b"".join(b"\\" + letters.get(sign, sign) for sign in signs)


def image_of(schema: TableSchema, values: Sequence[object]) -> dict[str, str | None]:
    row: dict[str, str | None] = {}
    for column, value in zip(schema.columns, values, strict=True):
        if isinstance(value, bytes):
            value = base64.b64encode(value).decode()
        row[column.name] = None if value is None else str(value)
    return row


def events_of(schema: TableSchema, rows: Sequence[Written]) -> list[tuple[Any, ...]]:
    """What the rows are as events: position, op, commit ts, before, after."""
    events: list[tuple[Any, ...]] = []
    for record, row in enumerate(rows, start=1):
        image = image_of(schema, row.values)
        previous = rows[record - 2] if record > 1 else None
        if (
            previous is not None
            and (previous.op, row.op) == ("D", "I")
            and previous.is_update
            and row.is_update
            and previous.commit_ts == row.commit_ts
        ):
            events[-1] = (record - 1, Op.UPDATE, row.commit_ts, events[-1][3], image)
        elif row.op == "D":
            events.append((record, Op.DELETE, row.commit_ts, image, None))
        else:
            op = Op.UPDATE if row.op == "U" else Op.INSERT
            events.append((record, op, row.commit_ts, None, image))
    return events


def read(
    data: bytes, schema: TableSchema | None, dialect: CsvDialect = DEFAULT, tz: ZoneInfo = UTC
) -> list[Event]:
    file = DataFile("f.csv", data, VERSION, table_id=7, schema=schema)
    return list(CsvDecoder(dialect=dialect, tz=tz).decode_file(file))


def read_events(data: bytes, schema: TableSchema, dialect: CsvDialect) -> list[tuple[Any, ...]]:
    found = []
    for event in read(data, schema, dialect):
        assert isinstance(event, RowChange), event
        before, after = (
            None if image is None else row_image.load(image)
            for image in (event.before, event.after)
        )
        assert isinstance(event.position, FilePosition)
        found.append((event.position.record, event.op, event.commit_ts, before, after))
    return found


def outcomes(events: Sequence[Event]) -> list[tuple[int, str]]:
    """Record numbers, and the op or the word "broken"."""
    found = []
    for event in events:
        assert isinstance(event, RowChange | Quarantined)
        assert isinstance(event.position, FilePosition)
        what = event.op.value if isinstance(event, RowChange) else "broken"
        found.append((event.position.record, what))
    return found


plain_text = st.text(
    st.sampled_from("ab,;|\"'\\\r\nN\t\0\x1f<é表\U0001f600") | st.characters(codec="utf-8"),
    max_size=8,
)
broken_text = st.binary(max_size=4).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
kinds: dict[str, st.SearchStrategy[object]] = {
    "n": st.none() | st.integers(-(1 << 63), (1 << 64) - 1),
    "f": st.none() | st.floats(allow_nan=False, allow_infinity=False),
    "t": st.none() | plain_text | st.just("\\N") | st.just("NULL") | broken_text,
    "b": st.none() | st.binary(max_size=8),
    "e": st.none() | plain_text,
    "d": st.none() | st.sampled_from(["2024-01-01 00:00:00.120", "0000-00-00 00:00:00"]),
}


def _dialects(
    delimiters: list[str], quotes: list[str], nulls: list[str]
) -> st.SearchStrategy[CsvDialect]:
    return st.builds(
        CsvDialect,
        delimiter=st.sampled_from(delimiters),
        quote=st.sampled_from(quotes),
        null=st.sampled_from(nulls),
        terminator=st.sampled_from(["\r\n", "\n"]),
        include_commit_ts=st.booleans(),
        output_old_value=st.booleans(),
        binary_encoding=st.sampled_from(["base64", "hex"]),
        field_header=st.booleans(),
        handle_key=st.booleans(),
    )


# Dialects in which every row has its own bytes.
quoted = _dialects(
    [",", "|", "\t", "||", "|,|", ";;", "¦", "::::"], ['"', "'"], ["\\N", "NULL", "", "null!"]
)
unquoted = _dialects([",", "|", "\t", "|,", "b;", "<|>"], [""], ["\\N", "\\0", "a\\\\\\0"])
dialects = quoted | quoted | quoted | unquoted


@st.composite
def written_rows(
    draw: st.DrawFn, dialect: CsvDialect, schema: TableSchema, most: int = 6
) -> list[Written]:
    rows = []
    stamps = st.integers(1, (1 << 63) - 1) if dialect.include_commit_ts else st.just(VERSION)
    for _ in range(draw(st.integers(0, most))):
        values = [draw(kinds[column.name[0]]) for column in schema.columns]
        commit_ts = draw(stamps)
        op = draw(st.sampled_from("IDUP"))
        if op == "P" and dialect.output_old_value:
            old = [draw(kinds[column.name[0]]) for column in schema.columns]
            rows.append(Written("D", commit_ts, True, old))
            rows.append(Written("I", commit_ts, True, values))
        else:
            rows.append(Written(op.replace("P", "I"), commit_ts, False, values))
    return rows


@st.composite
def written_files(
    draw: st.DrawFn, dialects: st.SearchStrategy[CsvDialect]
) -> tuple[CsvDialect, TableSchema, list[Written]]:
    dialect = draw(dialects)
    names = draw(st.lists(st.sampled_from("nftbed"), min_size=1, max_size=4))
    schema = table(*(f"{name}{place}" for place, name in enumerate(names)))
    return dialect, schema, draw(written_rows(dialect, schema))
