"""Names and values in the SQL of MySQL, MariaDB and TiDB."""

from typing import Protocol

from ticdc_assets.events import ColumnType
from ticdc_assets.events.row_image import EITHER
from ticdc_assets.schema.types.mysql_type import describe

# What no changefeed sends.
SYSTEM_DATABASES = (
    *("mysql", "sys", "information_schema", "performance_schema", "metrics_schema"),
    *("inspection_schema", "lightning_task_info", "tidb_cdc"),
)
# TiDB keeps the bytes of these charsets as it got them, and those of others encoded.
_ENCODED_BY_TIDB = ("gbk", "gb18030")


def quote(name: str) -> str:
    """Quote an identifier."""
    return "`" + name.replace("`", "``") + "`"


def decode(value: bytes | None) -> str:
    """Decode a name as the server wrote it."""
    return (value or b"").decode(errors="surrogateescape")


def quote_text(text: str) -> str:
    """Quote a text for a server whose `sql_mode` is empty."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def write_text(name: str, type: ColumnType, *, is_tidb: bool) -> str:
    """Write the bytes of a text in UTF-8, whatever the charset of its column."""
    if is_tidb and type.charset not in _ENCODED_BY_TIDB:
        return f"CAST({quote(name)} AS BINARY)"
    return f"CAST(CONVERT({quote(name)} USING utf8mb4) AS BINARY)"


def fit_fraction(text: str, type: ColumnType) -> str:
    """Return a text of a DATETIME, TIMESTAMP or TIME with as many decimals as its type has."""
    if EITHER in text:
        return text
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0").ljust(type.decimals or 0, "0")
    return f"{whole}.{fraction}" if fraction else whole


class TypedName(Protocol):
    """A column."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> ColumnType: ...


class ServerSql:
    """Writes values as one kind of server prints them.

    Every expression is of bytes or ASCII, so that no collation and no charset of a column matters.
    """

    def __init__(self, *, is_tidb: bool) -> None:
        self._is_tidb = is_tidb

    def write_canonical(self, column: TypedName) -> str:
        """Write the canonical text of a column; NULL where it is NULL."""
        name = quote(column.name)
        number = f"{name} + 0" if column.type.zerofill else name
        match describe(column.type).kind:
            case "integer" | "decimal":
                return f"CAST({number} AS CHAR)"
            case "bit":
                return f"CAST(CAST({name} AS UNSIGNED) AS CHAR)"
            case "year":
                # As a text, the year 0 has four digits.
                return f"CAST({name} + 0 AS CHAR)"
            case "float":
                return _write_float(f"({name} + 0e0)")
            case "text":
                return write_text(column.name, column.type, is_tidb=self._is_tidb)
            case "enum" | "set":
                return f"CAST(CONVERT({name} USING utf8mb4) AS BINARY)"
            case "json":
                return f"CAST(CAST({name} AS CHAR) AS BINARY)"
            case "binary":
                return name
            case _:
                return f"CAST({name} AS CHAR)"


def _write_float(number: str) -> str:
    """Write sign, mantissa and exponent of a DOUBLE.

    A power of two is exact on every server; the logarithm may be off by one close to one.
    """
    size = f"ABS({number})"
    exponent = f"GREATEST(LEAST(FLOOR(LOG2({size})), 1023), -1074)"
    fraction = f"({size} / POW(2, {exponent}))"
    mantissa = f"{fraction} * IF({fraction} >= 2, 0.5e0, IF({fraction} < 1, 2e0, 1e0))"
    corrected = f"{exponent} + ({fraction} >= 2) - ({fraction} < 1)"
    text = (
        f"CONCAT(IF({number} < 0, '-', ''), CAST({mantissa} * {float(1 << 52):.0f}e0 AS SIGNED),"
        f" 'p', CAST({corrected} AS SIGNED))"
    )
    return f"IF({number} = 0, '0', {text})"
