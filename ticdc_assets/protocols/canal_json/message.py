"""The JSON shape of a Canal-JSON message: field names, types and bounds.

Rows and their types are kept as raw text: most rows go into an image unparsed.  The decoder decides
what a message means, and whether its fields fit together.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct, field

from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events import tso

_BLOB = 2004

_MAX_TS = 2**63 - 1
_Ts = Annotated[int, Meta(ge=0, le=_MAX_TS)]
_Milliseconds = Annotated[int, Meta(ge=0, le=tso.physical_ms(_MAX_TS))]


class TidbExtension(Struct, gc=False, frozen=True, rename="camel"):
    """The fields that `enable-tidb-extension` adds."""

    commit_ts: _Ts | None = None
    watermark_ts: _Ts | None = None
    only_handle_key: bool = False
    claim_check_location: str = ""


class CanalMessage(Struct, gc=False, frozen=True, rename="camel"):
    """A row message (one row from TiCDC, some from the original Canal), a DDL or a watermark."""

    type: str
    database: str | None = None
    table: str | None = None
    pk_names: list[str] | None = None
    is_ddl: bool = False
    # When the transaction committed and when TiCDC encoded the message, Unix milliseconds.
    es: _Milliseconds | None = None
    ts: _Milliseconds | None = None
    sql: str | None = None
    sql_type: Raw = Raw()
    mysql_type: Raw = Raw()
    data: list[Raw] | None = None
    old: list[Raw] | None = None
    tidb: TidbExtension = field(name="_tidb", default=TidbExtension())


_decode = msgspec.json.Decoder(CanalMessage).decode
_decode_columns = msgspec.json.Decoder(dict[str, str | None]).decode
_decode_codes = msgspec.json.Decoder(dict[str, int | None] | None).decode


def read(value: bytes) -> CanalMessage:
    """Read the envelope; raise `MalformedMessage` for any other bytes."""
    try:
        return _decode(value)
    except (ValueError, RecursionError) as error:
        raise MalformedMessage(f"envelope: {error}") from None


def read_columns(raw: Raw | str) -> dict[str, str | None]:
    """Read a row, or its `mysqlType`: one text or null per column."""
    try:
        return _decode_columns(raw)
    except (ValueError, RecursionError) as error:
        raise MalformedMessage(f"columns: {error}") from None


def read_blobs(sql_types: bytes) -> set[str]:
    """Return the columns whose `sqlType` is java.sql.Types.BLOB."""
    if not sql_types:
        return set()
    try:
        codes = _decode_codes(sql_types) or {}
    except (ValueError, RecursionError) as error:
        raise MalformedMessage(f"sqlType: {error}") from None
    return {name for name, code in codes.items() if code == _BLOB}


def object_text(raw: Raw, what: str) -> str:
    """Return a JSON object as text, unparsed."""
    try:
        text = str(raw, "utf-8")
    except UnicodeDecodeError as error:
        # msgspec checks that a raw value is JSON, but not that it is UTF-8.
        raise MalformedMessage(f"{what}: {error.reason} at byte {error.start}") from None
    if not text.startswith("{"):
        raise MalformedMessage(f"{what} is missing or not an object")
    return text
