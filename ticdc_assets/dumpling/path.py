"""The names of an export's files, as Dumpling forms them by default.

    metadata
    {db}-schema-create.sql
    {db}.{table}-schema.sql
    {db}.{table}-schema-view.sql, …-schema-sequence.sql, …-schema-triggers.sql, …-schema-post.sql
    {policy}-placement-policy-create.sql
    {db}.{table}.{number}.sql|csv|parquet

The number is that of the chunk, of the file, or both (`0000000010001`).  Characters that file
systems do not like, and a `-` before `schema`, are percent-encoded.  `.gz`, `.snappy` or `.zst`
follows a compressed file's name.
"""

import re
from typing import Literal, cast
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from ticdc_assets.errors import MalformedMessage

Format = Literal["sql", "csv", "parquet"]
Compression = Literal["none", "gzip", "snappy", "zstd"]
Role = Literal["data", "schema", "database", "view", "sequence", "other"]

_COMPRESSIONS: dict[str, Compression] = {
    "": "none",
    "gz": "gzip",
    "gzip": "gzip",
    "snappy": "snappy",
    "zst": "zstd",
    "zstd": "zstd",
}
_SQL = r"\.sql(?:\.(?P<compression>\w+))?"
_NAME = r"(?P<database>[^/.]+)\.(?P<table>[^/]+?)"
_PATTERNS: tuple[tuple[Role, re.Pattern[str]], ...] = (
    ("database", re.compile(rf"(?P<database>[^/.]+)-schema-create{_SQL}", re.DOTALL)),
    ("schema", re.compile(rf"{_NAME}-schema{_SQL}", re.DOTALL)),
    ("view", re.compile(rf"{_NAME}-schema-view{_SQL}", re.DOTALL)),
    ("sequence", re.compile(rf"{_NAME}-schema-sequence{_SQL}", re.DOTALL)),
    ("other", re.compile(rf"{_NAME}-schema-(?:triggers?|post){_SQL}", re.DOTALL)),
    ("other", re.compile(rf"[^/]+-placement-policy-create{_SQL}", re.DOTALL)),
    # A codec in the name of a Parquet file is that of its pages.
    (
        "data",
        re.compile(
            rf"{_NAME}(?:\.[0-9]+)?(?:\.(?:snappy|gzip|gz|zstd|zst))?\.(?P<format>parquet)",
            re.DOTALL,
        ),
    ),
    (
        "data",
        re.compile(
            rf"{_NAME}(?:\.[0-9]+)?\.(?P<format>sql|csv)(?:\.(?P<compression>\w+))?", re.DOTALL
        ),
    ),
)
_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")


class ExportFile(Struct, frozen=True):
    """What the name of a file says."""

    path: str
    role: Role
    database: str = ""
    table: str = ""
    format: Format = "sql"
    compression: Compression = "none"


def parse_path(path: str) -> ExportFile | None:
    """Read the name of a file; None if Dumpling writes none like it.

    Raise `MalformedMessage` for one that it would write differently.
    """
    for role, pattern in _PATTERNS:
        if match := pattern.fullmatch(path):
            parts = match.groupdict()
            ending = parts.get("compression") or ""
            if ending not in _COMPRESSIONS:
                raise MalformedMessage(
                    f"unknown compression .{ending}: expected .gz, .snappy, .zst"
                )
            return ExportFile(
                path,
                role,
                _unescape(parts.get("database") or ""),
                _unescape(parts.get("table") or ""),
                cast(Format, parts.get("format") or "sql"),
                _COMPRESSIONS[ending],
            )
    return None


def _unescape(name: str) -> str:
    if _BAD_ESCAPE.search(name):
        raise MalformedMessage("a % in its name starts no escape")
    try:
        return unquote_to_bytes(name).decode()
    except UnicodeDecodeError:
        raise MalformedMessage("the escapes in its name are not UTF-8") from None
