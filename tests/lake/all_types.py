"""A table of every type upstream with its extremes: texts as TiCDC sends them, and by hand the
values that other writers have of the same rows."""

import base64
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from tests.sql_server import Statement


class Typed(NamedTuple):
    """A column: its type upstream, its texts, its values in Arrow, and those in PostgreSQL."""

    name: str
    mysql: str
    texts: tuple[str | None, ...]
    arrow: pa.DataType
    values: tuple[Any, ...]
    postgres: str
    # As literals; by default, the texts.
    literals: tuple[str, ...] | None = None


_US, _UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")
_LAST = datetime(9999, 12, 31, 23, 59, 59, 999999)
_LONG = "long ✓ " * 1000
_WIDE = "-" + "9" * 35 + "." + "9" * 30

COLUMNS = (
    Typed("a", "tinyint(1)", ("1", "0", None), pa.bool_(), (True, False, None), "boolean"),
    Typed(
        "b", "bigint unsigned", ("18446744073709551615", "0", None),
        pa.decimal128(20, 0), (Decimal((1 << 64) - 1), Decimal(0), None), "numeric(20)",
    ),
    Typed(
        "c", "int(10) unsigned zerofill", ("42", "4294967295", None),
        pa.int64(), (42, (1 << 32) - 1, None), "bigint",
    ),
    Typed(
        "d", "float", ("-3.4e38", "1e-45", None), pa.float32(), (-3.4e38, 1e-45, None), "real",
    ),
    Typed(
        "e", "double", ("1.7976931348623157e308", "5e-324", None),
        pa.float64(), (1.7976931348623157e308, 5e-324, None), "float8",
    ),
    Typed(
        "f", "decimal(10,2)", ("-99999999.99", "0.10", None),
        pa.decimal128(12, 4), (Decimal("-99999999.99"), Decimal("0.1"), None), "numeric(12,4)",
    ),
    Typed(
        "g", "decimal(65,30)", (_WIDE, "0.000000000000000000000000000001", None),
        pa.string(), (_WIDE, "0.000000000000000000000000000001", None), "numeric",
    ),
    Typed(
        "h", "bit(64)", ("18446744073709551615", "5", None),
        pa.binary(), (b"\xff" * 8, b"\x05", None), "bit varying(64)",
        ("'" + "1" * 64 + "'", "'101'", "NULL"),
    ),
    Typed("i", "year", ("2155", "0", None), pa.int16(), (2155, 0, None), "smallint"),
    Typed(
        "j", "date", ("9999-12-31", "1000-01-01", None),
        pa.date32(), (date(9999, 12, 31), date(1000, 1, 1), None), "date",
    ),
    Typed(
        "k", "datetime(6)", ("9999-12-31 23:59:59.999999", "1000-01-01 00:00:00.500000", None),
        _US, (_LAST, datetime(1000, 1, 1, 0, 0, 0, 500000), None), "timestamp",
    ),
    Typed(
        "l", "timestamp(3) NULL", ("2038-01-19 03:14:07.999", "1970-01-01 00:00:01.100", None),
        _UTC,
        (
            datetime(2038, 1, 19, 3, 14, 7, 999000, UTC),
            datetime(1970, 1, 1, 0, 0, 1, 100000, UTC),
            None,
        ),
        "timestamptz",
        ("'2038-01-19 04:14:07.999+01'", "'1970-01-01 00:00:01.1+00'", "NULL"),
    ),
    Typed(
        "m", "time", ("-838:59:59", "00:00:01", None),
        pa.string(), ("-838:59:59", "00:00:01", None), "interval",
    ),
    Typed(
        "n", "time(6)", ("23:59:59.999999", "00:00:00.500000", None),
        pa.time64("us"), (time(23, 59, 59, 999999), time(0, 0, 0, 500000), None), "time",
    ),
    Typed("o", "char(10)", ("é", "", None), pa.string(), ("é", "", None), "char(10)"),
    Typed(
        "p", "varchar(40)", ("日本😀", "it's", None),
        pa.string(), ("日本😀", "it's", None), "text",
    ),
    Typed("q", "longtext", (_LONG, "\t\\x41", None), pa.string(), (_LONG, "\t\\x41", None), "text"),
    Typed(
        "r", "varbinary(40)", ("AP9c", "", None), pa.binary(), (b"\x00\xff\\", b"", None), "bytea",
        (r"'\x00ff5c'", "''", "NULL"),
    ),
    Typed("s", "enum('a','b''c','é')", ("b'c", "é", None), pa.string(), ("b'c", "é", None), "text"),
    Typed("t", "set('x','y')", ("x,y", "", None), pa.string(), ("x,y", "", None), "text"),
    Typed(
        "u", "json", ('{"a": [2.5, 1000], "b": 1}', "null", None),
        pa.string(), ('{"b":1.0,"a":[2.5,1e3]}', "null", None), "jsonb",
    ),
)  # fmt: skip

DDL = "CREATE TABLE `all types` (id bigint NOT NULL PRIMARY KEY, {}) CHARACTER SET utf8mb4".format(
    ", ".join(f"`{column.name}` {column.mysql}" for column in COLUMNS)
)


class Row(NamedTuple):
    """A row: its key, the place of its values in those of each column, and of one other column."""

    id: int
    place: int = 0
    other: tuple[str, int] | None = None

    def choose(self, column: Typed) -> int:
        """Return the place of the value of a column."""
        if self.other is not None and self.other[0] == column.name:
            return self.other[1]
        return self.place


EXTREMES = (Row(-(1 << 63)), Row(0, 1), Row((1 << 63) - 1, 2))


def list_images(rows: Sequence[Row] = EXTREMES) -> list[dict[str, str | None]]:
    """List rows as texts."""
    return [
        {"id": str(row.id)} | {column.name: column.texts[row.choose(column)] for column in COLUMNS}
        for row in rows
    ]


def make_arrow(rows: Sequence[Row] = EXTREMES, *, has_times: bool = True) -> pa.Table:
    """Make rows as another program would have them; Delta has no times of a day."""
    arrays = {"id": pa.array([row.id for row in rows], pa.int64())}
    for column in COLUMNS:
        values = [column.values[row.choose(column)] for row in rows]
        arrays[column.name] = pa.array(values, column.arrow)
    table = pa.table(arrays)
    at = table.column_names.index("n")
    return table if has_times else table.set_column(at, "n", table["n"].cast(pa.string()))


def write_postgres(place: str, rows: Sequence[Row] = EXTREMES) -> Iterator[str]:
    """Write the statements that make the table in PostgreSQL."""
    listed = ", ".join(f'"{column.name}" {column.postgres}' for column in COLUMNS)
    yield f"CREATE TABLE {place} (id bigint PRIMARY KEY, {listed})"
    for row in rows:
        values = [str(row.id)]
        for column in COLUMNS:
            text = column.texts[row.choose(column)]
            quoted = "NULL" if text is None else "'" + text.replace("'", "''") + "'"
            literals = column.literals
            values.append(quoted if literals is None else literals[row.choose(column)])
        yield f"INSERT INTO {place} VALUES ({', '.join(values)})"


def write_mysql(place: str, rows: Sequence[Row] = EXTREMES) -> Iterator[Statement]:
    """Write the statements that fill the table in MySQL."""
    marks = ", ".join(["%s"] * (len(COLUMNS) + 1))
    for row in rows:
        values: list[Any] = [row.id]
        for column in COLUMNS:
            text: Any = column.texts[row.choose(column)]
            if text is not None and column.name in ("h", "i"):
                # A text of one digit would be another year.
                text = int(text)
            elif text is not None and column.mysql.startswith("varbinary"):
                text = base64.b64decode(text)
            values.append(text)
        yield f"INSERT INTO {place} VALUES ({marks})", values
