"""Names and texts in the SQL of MySQL, MariaDB and TiDB."""

from ticdc_assets.events import ColumnType

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
