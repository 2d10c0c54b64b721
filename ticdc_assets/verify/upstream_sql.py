"""Hashes of rows in the SQL of MySQL, MariaDB and TiDB."""

from collections.abc import Iterable

from ticdc_assets.upstream.sql import ServerSql
from ticdc_assets.verify.canonical import (
    HASH_DIGITS,
    MD5_MARK,
    MOST_BYTES,
    NULL,
    ComparedColumn,
)


class HashSql(ServerSql):
    """Writes expressions for one kind of server."""

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
