"""Rows of Open Protocol that were read under flags not true any more.

Whether a column holds text or bytes a row says by a flag only, and the new-architecture server goes
on sending the flags of before a DDL, or none for a column added since.  No message tells; the
schema the row was written under does.  This is where the two are brought together.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable

from msgspec.structs import replace

from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events import RowChange, TableSchema, row_image
from ticdc_assets.protocols.open_protocol import go_quote


def redecode(change: RowChange, schema: TableSchema) -> RowChange:
    """Read again what the schema contradicts; raise `MalformedMessage` where that cannot be.

    A row that the schema does not contradict is returned as it is.
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
        before=_repaired(change.before, repairs),
        after=_repaired(change.after, repairs),
        observed=row_image.dump(observed),
    )


def _base(type_text: str) -> tuple[str, str]:
    name, blank, attributes = type_text.partition(" ")
    return name, blank + attributes


def _repaired(image: str | None, repairs: dict[str, Callable[[str], str]]) -> str | None:
    if image is None:
        return None
    row = row_image.load(image)
    for name, repair in repairs.items():
        if (text := row.get(name)) is not None:
            row[name] = repair(text)
    return row_image.dump(row)


def _quoted_text(text: str) -> str:
    # It was unquoted though it never had been quoted: quoting gives back what was there.
    return go_quote.quote(b64decode(text))


def _quoted_bytes(text: str) -> str:
    return b64encode(go_quote.unquote(text)).decode("ascii")


def _lob_text(text: str) -> str:
    return b64decode(text).decode("utf-8", "surrogateescape")


def _lob_bytes(text: str) -> str:
    try:
        return b64encode(text.encode("utf-8", "surrogateescape")).decode("ascii")
    except UnicodeEncodeError:
        raise MalformedMessage("a text that stands for no bytes") from None


# By what the row was read as, and what the column is.
_REPAIRS: dict[tuple[str, str], Callable[[str], str]] = {}
for _text, _octets in (("char", "binary"), ("varchar", "varbinary")):
    _REPAIRS[_octets, _text] = _quoted_text
    _REPAIRS[_text, _octets] = _quoted_bytes
for _size in ("tiny", "", "medium", "long"):
    _REPAIRS[f"{_size}blob", f"{_size}text"] = _lob_text
    _REPAIRS[f"{_size}text", f"{_size}blob"] = _lob_bytes
