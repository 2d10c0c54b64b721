"""Canonical texts and hashes in the SQL of MySQL, MariaDB and TiDB.

Every expression is of bytes or ASCII, so that no collation and no charset of a column matters.
"""

from collections.abc import Iterable

from ticdc_assets.events import Column
from ticdc_assets.lake.upstream.sql import quote, write_text
from ticdc_assets.lake.verify.canonical import (
    HASH_DIGITS,
    MD5_MARK,
    MOST_BYTES,
    NULL,
    ComparedColumn,
)
from ticdc_assets.schema.types.mysql_type import describe


class ServerSql:
    """Writes expressions for one kind of server."""

    def __init__(self, *, is_tidb: bool) -> None:
        self._is_tidb = is_tidb

    def write_canonical(self, column: ComparedColumn | Column) -> str:
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

    def write_hash(self, columns: Iterable[ComparedColumn]) -> str:
        """Write the hash of the values of columns, a BIGINT."""
        parts = ", ".join(self._write_part(column) for column in columns)
        digits = f"SUBSTRING(MD5(CONCAT_WS(',', {parts})), 1, {HASH_DIGITS})"
        return f"CAST(CONV({digits}, 16, 10) AS UNSIGNED)"

    def _write_part(self, column: ComparedColumn) -> str:
        text = self.write_canonical(column)
        if column.is_long:
            text = f"MD5({text})"
        elif column.has_bytes:
            text = f"CONCAT(LENGTH({text}), ':', {text})"
        return f"COALESCE({text}, '{NULL}')"

    def write_shown(self, column: ComparedColumn) -> str:
        """Write the canonical text of a column, or if it is too long to be read, its MD5."""
        text = self.write_canonical(column)
        if not column.is_long:
            return text
        short = f"CONCAT('{MD5_MARK.decode()}', MD5({text}))"
        return f"IF(LENGTH({text}) <= {MOST_BYTES}, {text}, {short})"


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
