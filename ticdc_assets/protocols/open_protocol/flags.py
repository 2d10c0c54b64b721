"""Rows of Open Protocol that were decoded under stale binary flags.

A row says by a flag only whether a column holds text or bytes.  After a DDL the new-architecture
server keeps sending the flags of before it, or none for a column that was added.  Only the schema
that the row was written under tells, so such rows are decoded again once it is known.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable

from msgspec.structs import replace

from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events import RowChange, TableSchema, row_image
from ticdc_assets.protocols.open_protocol import go_quote


def redecode(change: RowChange, schema: TableSchema) -> RowChange:
    """Decode a row again if its flags contradict the schema; raise `MalformedMessage` on failure.

    A row that the schema does not contradict is returned unchanged.
    """
    observed = row_image.load(change.observed) if change.observed else {}
    repairs: dict[str, Callable[[str], str]] = {}
    for column in schema.columns:
        name, attributes = _base(observed.get(column.name) or "")
        if repair := _REPAIRS.get((name, column.type.name)):
            repairs[column.name] = repair
            observed[column.name] = column.type.name + attributes
    if not repairs:
        return change
    return replace(
        change,
        before=_repair(change.before, repairs),
        after=_repair(change.after, repairs),
        observed=row_image.dump(observed),
    )


def _base(type_text: str) -> tuple[str, str]:
    name, blank, attributes = type_text.partition(" ")
    return name, blank + attributes


def _repair(image: str | None, repairs: dict[str, Callable[[str], str]]) -> str | None:
    if image is None:
        return None
    row = row_image.load(image)
    for name, repair in repairs.items():
        if (text := row.get(name)) is not None:
            row[name] = repair(text)
    return row_image.dump(row)


def _decode_base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        # The other image of the row was decoded by other flags.
        raise MalformedMessage("flags that contradict each other") from None


def _quoted_text(text: str) -> str:
    # The decoder unquoted a text that was never quoted: quoting restores it.
    return go_quote.quote(_decode_base64(text))


def _quoted_bytes(text: str) -> str:
    return b64encode(go_quote.unquote(text)).decode("ascii")


def _lob_text(text: str) -> str:
    return _decode_base64(text).decode("utf-8", "surrogateescape")


def _lob_bytes(text: str) -> str:
    try:
        return b64encode(text.encode("utf-8", "surrogateescape")).decode("ascii")
    except UnicodeEncodeError:
        raise MalformedMessage("a text that does not stand for bytes") from None


# By the type the row was decoded as, and the type of the column.
_REPAIRS: dict[tuple[str, str], Callable[[str], str]] = {}
for _text, _octets in (("char", "binary"), ("varchar", "varbinary")):
    _REPAIRS[_octets, _text] = _quoted_text
    _REPAIRS[_text, _octets] = _quoted_bytes
for _size in ("tiny", "", "medium", "long"):
    _REPAIRS[f"{_size}blob", f"{_size}text"] = _lob_text
    _REPAIRS[f"{_size}text", f"{_size}blob"] = _lob_bytes
