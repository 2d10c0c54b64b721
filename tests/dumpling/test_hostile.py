"""Damaged and hostile files: every byte is a row or has a reason, in linear time and memory."""

import io
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dumpling.exporter import FORMATTERS, ExportOptions, Row, compress
from tests.dumpling.test_round_trip import DIALECTS, read
from ticdc_assets.dumpling import source
from ticdc_assets.dumpling.dialect import Dialect
from ticdc_assets.dumpling.path import parse_path
from ticdc_assets.dumpling.reader import read_head, read_rows
from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events import Column, ColumnType, TableSchema

SCHEMA = TableSchema(
    "d",
    "t",
    (
        Column("i", ColumnType("int")),
        Column("t", ColumnType("text")),
        Column("b", ColumnType("blob")),
    ),
)
PLAIN = Dialect()
STAMPED = TableSchema("d", "t", (Column("at", ColumnType("timestamp")),))
GENERATED = TableSchema(
    "d",
    "t",
    (
        Column("i", ColumnType("int")),
        Column("v", ColumnType("int"), generated="virtual"),
        Column("s", ColumnType("int"), generated="stored"),
    ),
)
ROWS: list[Row] = [(str(n), f"text '{n}'\n", "AAE=") for n in range(100)]


def read_all(
    content: bytes, ending: str, dialect: Dialect = PLAIN, schema: TableSchema = SCHEMA
) -> tuple[list[tuple[str | None, ...]], list[str]]:
    file = parse_path(f"d.t.0.{ending}")
    assert file is not None
    rows, problems = [], []
    for batch in read(content, file, schema, dialect):
        for row in batch.to_pylist():
            if row["problem"] is not None:
                problems.append(row["problem"])
            else:
                rows.append(tuple(row[f"c{n}"] for n in range(len(batch.schema) - 4)))
    return rows, problems


@pytest.mark.parametrize(
    ("ending", "content", "rows", "problems"),
    [
        ("sql", b"INSERT INTO t VALUES\n(1,'a'),\n(2,'b',x'00');\n", 1, ["2 values for 3"]),
        ("sql", b"INSERT INTO t VALUES\n(1,oops,NULL),\n(2,'b',NULL);\n", 1, ["no literal"]),
        ("sql", b"INSERT INTO t VALUES\n(1,'a',NULL),\n(2,'b", 1, ["the file ends in this row"]),
        ("sql", b"INSERT INTO t VALUES\n(1,'a',NULL),\n", 1, ["the file ends in an INSERT"]),
        ("sql", b"INSERT INTO t VALUES\n(1,'a',NULL)", 1, ["the file ends in an INSERT"]),
        ("sql", b"INSERT INTO t (i,x) VALUES\n(1,'a');\n", 0, ["no column 'x'"]),
        ("sql", b"INSERT INTO t (i) VALUES\n(1);\n", 0, ["lacks column 't'"]),
        ("sql", b"INSERT INTO t (i,I,t,b) VALUES\n(1,1,'','');\n", 0, ["named twice"]),
        ("sql", b"DELETE FROM t;\nINSERT INTO t VALUES\n(1,'a',NULL);\n", 0, ["not an INSERT"]),
        ("sql", b"INSERT INTO t VALUES\n(1,'a',NULL);\nDROP TABLE t;\n", 1, ["not an INSERT"]),
        ("sql", b"/*!40101 SET NAMES gbk*/;\nINSERT INTO t VALUES\n(1,'a',NULL);\n", 0, ["gbk"]),
        ("sql", b"/*!40101 SET NAMES binary*/", 0, []),
        ("sql", b"/* no end", 0, ["not an INSERT"]),
        ("sql", b"", 0, ["it is empty"]),
        ("csv", b'"i","t","b"\r\n1,"a","b"\r\n2,"a\r\n3,"c",\\N\r\n', 2, ["breaks the rules"]),
        ("csv", b'"i","t","b"\r\n1,"a"\r\n', 0, ["2 values for 3 columns"]),
        ("csv", b'"i","t","b"\r\n1,"a","b"\r\n2,"a","', 1, ["the file ends in this row"]),
        ("csv", b'"i","t","b"\r\n1,"a\\x","b"\r\n', 0, ["breaks the rules"]),
        ("csv", b'1,"a","b"\r\n', 0, ["no header"]),
        ("csv", b'"i","t"\r\n', 0, ["lacks column 'b'"]),
        ("csv", b"", 0, ["it is empty"]),
        ("parquet", b"PAR1", 0, ["not a Parquet file"]),
        ("parquet", b"", 0, ["not a Parquet file"]),
        (
            "sql.gz",
            compress(b"INSERT INTO t VALUES\n(1,'a',NULL);\n", ".gz")[:-12],
            0,
            ["ends in", "trunc"],
        ),
        ("sql.gz", b"no gzip", 0, ["gzip: "]),
        ("sql.gz", b"", 0, ["gzip: the file is truncated"]),
        ("csv.zst", b"", 0, ["it is empty"]),
        ("csv.snappy", b"", 0, ["it is empty"]),
        ("sql.zst", b"no zstd", 0, ["zstd: "]),
        ("sql.snappy", b"no snappy frames", 0, ["snappy: "]),
    ],
)
def test_what_is_no_row_has_a_reason(
    ending: str, content: bytes, rows: int, problems: list[str]
) -> None:
    found, reasons = read_all(content, ending)

    assert len(found) == rows
    assert len(reasons) == len(problems), reasons
    for reason, part in zip(reasons, problems, strict=True):
        assert part in reason


@pytest.mark.parametrize(
    ("null", "line", "column"),
    [
        ("\\N", b'2,NULL,"b"', "t"),
        ("\\N", b'2,,"b"', "t"),
        ("NULL", b'2,"a",', "b"),
        ("", b"2,NULL,NULL", "t"),
    ],
)
@pytest.mark.parametrize("rows", [1, 1000])
def test_a_text_without_quotes_that_is_not_null_is_no_row(
    null: str, line: bytes, column: str, rows: int
) -> None:
    good = b'1,"a",%b\r\n' % null.encode()
    content = b'"i","t","b"\r\n' + good * rows + line + b"\r\n" + good

    found, problems = read_all(content, "csv", Dialect(null=null))

    assert found == [("1", "a", None)] * (rows + 1)
    (problem,) = problems
    assert problem.startswith(f"the value of {column!r} is neither in quotes nor NULL: ")


@pytest.mark.parametrize("compression", [".gz", ".zst", ".snappy"])
def test_rows_before_damage_are_kept(compression: str) -> None:
    options = DIALECTS["csv"]
    rows = ROWS * 400
    content = compress(FORMATTERS["csv"](SCHEMA, rows, options), compression)  # type: ignore[arg-type]

    found, problems = read_all(content[: len(content) * 9 // 10], f"csv{compression}")

    assert found == rows[: len(found)]
    assert len(found) > 1000
    assert problems[-1].startswith({".gz": "gzip", ".zst": "zstd"}.get(compression, "snappy"))


@pytest.mark.parametrize("format", ["sql", "csv"])
@settings(max_examples=40)
@given(data=st.data())
def test_a_damaged_file_loses_no_row_silently(format: str, data: st.DataObject) -> None:
    """A changed byte concerns its own row and, if it is a quote or line break, the next ones."""
    options = ExportOptions(format, Dialect(), statement_rows=50)  # type: ignore[arg-type]
    content = bytearray(FORMATTERS[options.format](SCHEMA, ROWS, options))
    place = data.draw(st.integers(120, len(content) - 1))
    content[place] = data.draw(st.integers(0, 255))

    rows, problems = read_all(bytes(content), format)

    same = set(rows) & set(ROWS)
    assert len(same) >= len(ROWS) - 2 or problems
    assert len(same) == len(ROWS) or len(set(rows) - same) + len(problems) > 0


@settings(max_examples=60)
@given(data=st.data())
def test_a_damaged_parquet_file_is_reported(data: st.DataObject) -> None:
    content = bytearray(FORMATTERS["parquet"](SCHEMA, ROWS, DIALECTS["parquet"]))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))

    rows, problems = read_all(bytes(content), "parquet")

    assert len(rows) == len(ROWS) or problems


def test_no_damaged_byte_of_a_parquet_file_loses_rows_silently() -> None:
    content = FORMATTERS["parquet"](SCHEMA, ROWS, DIALECTS["parquet"])
    for place in range(len(content)):
        rows, problems = read_all(content[:place] + b"\1" + content[place + 1 :], "parquet")

        assert len(rows) == len(ROWS) or problems, place


class Failing(io.BytesIO):
    """A file whose storage fails after some reads."""

    left = 2

    def read(self, size: int | None = -1, /) -> bytes:
        self.left -= 1
        if self.left < 0:
            raise OSError("the storage does not answer")
        return super().read(size)


@pytest.mark.parametrize("ending", ["csv", "sql.gz", "csv.zst", "csv.snappy", "parquet"])
def test_a_storage_that_fails_is_no_damage(ending: str) -> None:
    format, dot, compression = ending.partition(".")
    plain = FORMATTERS[format](SCHEMA, ROWS, DIALECTS[format])
    content = compress(plain, dot + compression)  # type: ignore[arg-type]
    file = parse_path(f"d.t.0.{ending}")
    assert file is not None
    with pytest.raises(OSError, match="does not answer"):
        list(read_rows(Failing(content), file, SCHEMA, Dialect()))


@given(st.binary(max_size=200), st.sampled_from(["sql", "csv", "parquet", "sql.gz", "csv.zst"]))
def test_any_bytes_raise_nothing(content: bytes, ending: str) -> None:
    for prefix in (b"", b"INSERT INTO t VALUES\n(", b'"i","t","b"\r\n'):
        read_all(prefix + content, ending)
        read_all(prefix + content, ending, Dialect(escape_backslash=False))


@pytest.mark.parametrize(
    ("ending", "unit"),
    [
        ("sql", b"/*\n"),
        ("sql", b"INSERT INTO t VALUES\n(1,'a"),
        ("sql", b"(1,'a',NULL),\n"),
        ("sql", b"INSERT INTO t VALUES\n(1,'a',NULL)\n"),
        ("sql", b"("),
        ("sql", b"--\n"),
        ("csv", b'"i","t","b"\r\n"'),
        ("csv", b'1,"a""\r\n'),
        ("csv", b"\\"),
        ("csv", b'"""'),
    ],
)
@pytest.mark.parametrize("escapes", [True, False])
def test_hostile_bytes_take_linear_time(ending: str, unit: bytes, escapes: bool) -> None:
    dialect = Dialect(escape_backslash=escapes)
    head = b'"i","t","b"\r\n' if ending == "csv" else b"INSERT INTO t VALUES\n(1,'a',NULL),\n"

    def measure(size: int) -> float:
        content = head + unit * (size // len(unit))
        start = time.process_time()
        read_all(content, ending, dialect)
        return time.process_time() - start

    measure(1 << 13)
    # Of 16 times the bytes: what is quadratic takes 256 times as long, at every attempt.
    assert any(measure(1 << 18) < 64 * measure(1 << 14) + 0.2 for _ in range(3))


def test_a_large_file_is_read_through_a_window() -> None:
    options = ExportOptions("csv", Dialect())
    rows: list[Row] = [(str(n), "x" * 1000, None) for n in range(1000)]
    block = FORMATTERS["csv"](SCHEMA, rows, options)
    header = len(b'"i","t","b"\r\n')

    class Endless(io.RawIOBase):
        """30 MB, of which no more than a read exists at once."""

        def __init__(self) -> None:
            self.left = 30

        def read(self, size: int = -1) -> bytes:
            self.left -= 1
            return block[header if self.left < 29 else 0 :] if self.left >= 0 else b""

        def seek(self, place: int, whence: int = 0) -> int:
            self.left = 30
            return place

    file = parse_path("d.t.0.csv")
    assert file is not None
    tracemalloc.start()
    count = sum(batch.num_rows for batch in read_rows(Endless(), file, SCHEMA, options.dialect))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert count == 30_000
    assert peak < 16 << 20


def test_a_row_that_is_too_large_ends_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_ROW", 1 << 20)

    rows, problems = read_all(
        b"INSERT INTO t VALUES\n(1,'a',NULL),\n(2,'" + b"x" * (8 << 20) + b"',NULL);\n", "sql"
    )

    assert rows == [("1", "a", None)]
    assert any("larger than" in problem for problem in problems)


@pytest.mark.parametrize(
    ("schema", "dialect", "content", "reason"),
    [
        (STAMPED, Dialect(), b'"at"\r\n', "give --time-zone"),
        (GENERATED, Dialect(), b'"i"\r\n1\r\n', "--include-generated-columns=stored"),
        (SCHEMA, Dialect(quote="", null="NULL"), b"i,t,b\r\n", "may look like NULL"),
        (SCHEMA, Dialect(has_header=False), b'"i","t","b"\r\n', "omit --no-header"),
        (SCHEMA, Dialect(has_header=False), b'"I","t","B"\r\n', "omit --no-header"),
        (GENERATED, Dialect(has_header=False), b'"i","s"\r\n', "omit --no-header"),
    ],
)
def test_an_export_that_cannot_be_read_for_certain_is_an_error(
    schema: TableSchema, dialect: Dialect, content: bytes, reason: str
) -> None:
    file = parse_path("d.t.0.csv")
    assert file is not None
    with pytest.raises(MalformedMessage, match=reason):
        read_head(io.BytesIO(content), file, schema, dialect)
