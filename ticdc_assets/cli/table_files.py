"""Write tables to files: `DIR/<database>/<table>.jsonl`, names percent-encoded."""

from collections.abc import Iterable
from errno import ENAMETOOLONG
from pathlib import Path
from urllib.parse import quote

from ticdc_assets.errors import ConfigError
from ticdc_assets.events import TableSchema


def write_tables(folder: Path, tables: Iterable[tuple[TableSchema, Iterable[bytes]]]) -> list[str]:
    """Write the lines of every table to its file; return a message for each one not written."""
    unwritten = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for schema, lines in tables:
            if not _write_table(folder, schema, lines):
                name = f"{schema.database}.{schema.table}"
                unwritten.append(f"unwritten: {name}: the name is too long for a file")
    except OSError as error:
        reason = error.strerror or "cannot be written"
        raise ConfigError(reason, file=error.filename, setting="--out") from None
    return unwritten


def _write_table(folder: Path, schema: TableSchema, lines: Iterable[bytes]) -> bool:
    try:
        database = folder / _encode_path_segment(schema.database)
        database.mkdir(exist_ok=True)
        with (database / f"{_encode_path_segment(schema.table)}.jsonl").open("wb") as file:
            file.writelines(lines)
    except OSError as error:
        if error.errno != ENAMETOOLONG:
            raise
        return False
    return True


def _encode_path_segment(name: str) -> str:
    """Percent-encode a name, all but the unreserved characters of RFC 3986."""
    text = quote(name, safe="", errors="surrogateescape")
    return text.replace(".", "%2E") if text in (".", "..") else text
