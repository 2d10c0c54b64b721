"""Conversion to a text, binary, ENUM or SET type.

A value converts by the text that TiDB prints; texts longer than the type are truncated.
"""

from collections.abc import Iterable

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import ColumnType
from ticdc_assets.schema.types.mysql_type import describe
from ticdc_assets.schema.types.value import Value
from ticdc_assets.schema.types.value_writer import write_value

# Charsets whose bytes are not UTF-8 when TiDB converts them; TiDB stores latin1 as UTF-8.
_CODECS = {"gbk": "gbk", "gb18030": "gb18030"}
# A DDL may reorder members, so a number alone does not tell which member a row has.
_UNKNOWN_MEMBERS = (
    "no DDL or schema has named the members that the {} had before, so its numbers cannot be"
    " converted; if the DDL only appends members, skip it"
)


def as_text(value: Value, type: ColumnType) -> str:
    """Return the text that TiDB converts a value by."""
    match describe(type).kind:
        case "binary":
            assert isinstance(value, bytes)
            return value.decode(errors="surrogateescape")
        case "enum" | "set" if type.elements is None:
            raise InvalidValue(_UNKNOWN_MEMBERS.format(type.name))
        case _:
            return str(write_value(value, type))


def to_text(value: Value, old: ColumnType, new: ColumnType) -> Value:
    """Convert to a text type."""
    if isinstance(value, bytes):
        try:
            text = value.decode(_CODECS.get(new.charset or "", "utf-8"))
        except UnicodeDecodeError:
            raise InvalidValue(f"the bytes are not valid {new.charset or 'utf8mb4'}") from None
    else:
        text = as_text(value, old)
    width = describe(new).width
    if width is not None:
        # The TEXT types limit bytes, the others characters.
        text = _truncate_bytes(text, width)
    elif new.length is not None:
        text = text[: new.length]
    return text.rstrip(" ") if new.name == "char" else text


def to_binary(value: Value, old: ColumnType, new: ColumnType) -> Value:
    """Convert to a binary type; BINARY(n) is padded with zero bytes."""
    if isinstance(value, bytes):
        data = value
    else:
        codec = _CODECS.get(old.charset or "", "utf-8")
        try:
            data = as_text(value, old).encode(codec, errors="surrogateescape")
        except UnicodeEncodeError:
            raise InvalidValue(f"the text cannot be encoded in {old.charset}") from None
    row = describe(new)
    data = data[: row.width if row.width is not None else new.length]
    return data.ljust(new.length or 1, b"\0") if new.name == "binary" else data


def to_enum(value: Value, old: ColumnType, new: ColumnType) -> Value:
    """Convert to ENUM by member name, else by number; any other value becomes the invalid ''."""
    elements = new.elements
    kind = describe(old).kind
    if elements is None:
        if kind == "enum":
            return value
        raise InvalidValue("the members of the enum are unknown")
    if kind == "integer":
        return _read_member(elements, str(value))
    text = as_text(value, old)
    member = _find_member(elements, text, new.collation)
    return member if member is not None else _read_member(elements, text)


def to_set(value: Value, old: ColumnType, new: ColumnType) -> Value:
    """Convert to SET by member names, else by bitmask."""
    elements = new.elements
    kind = describe(old).kind
    if elements is None:
        if kind == "set":
            return value
        raise InvalidValue("the members of the set are unknown")
    if kind == "integer":
        return _read_members(elements, str(value))
    text = as_text(value, old)
    names = (
        [_find_member(elements, name, new.collation) for name in text.split(",")] if text else []
    )
    if None in names:
        return _read_members(elements, text)
    return _join(name for name in elements if name in names)


def get_member_number(text: str, type: ColumnType) -> int:
    """Return the index of an ENUM member (0 for the invalid one) or the bitmask of SET members."""
    elements = type.elements
    if elements is None:
        return int(text)
    if type.name == "enum":
        return elements.index(text) + 1 if text in elements else 0
    names = text.split(",") if text else []
    return sum(1 << elements.index(name) for name in names)


def _truncate_bytes(text: str, width: int) -> str:
    if len(text) * 4 <= width:
        return text
    data = text.encode(errors="surrogateescape")
    if len(data) <= width:
        return text
    while width and data[width] & 0xC0 == 0x80:
        width -= 1
    return data[:width].decode(errors="surrogateescape")


def _find_member(elements: Iterable[str], name: str, collation: str | None) -> str | None:
    """Find a member; trailing spaces never matter, case only in case-sensitive collations."""
    name = name.rstrip(" ")
    folded = None
    for element in elements:
        if element == name:
            return element
        if folded is None and element.casefold() == name.casefold():
            folded = element
    # If the collation is unknown, ignore case: the DDL succeeded, so the name matches a member.
    is_case_sensitive = collation is not None and not collation.endswith("_ci")
    return None if is_case_sensitive else folded


def _parse_number(text: str) -> int | None:
    """Parse an unsigned Go integer literal: decimal, or prefixed with 0x, 0b, 0o or 0."""
    if not text.isascii() or not text[:1].isdigit() or len(text) > 70:
        return None
    octal = text[0] == "0" and text[1:].isdigit()
    try:
        return int(text, 8 if octal else 0)
    except ValueError:
        return None


def _read_member(elements: tuple[str, ...], text: str) -> str:
    number = _parse_number(text)
    return elements[number - 1] if number and number <= len(elements) else ""


def _read_members(elements: tuple[str, ...], text: str) -> str:
    mask = _parse_number(text)
    if not mask or mask >> len(elements):
        return ""
    return _join(name for bit, name in enumerate(elements) if mask >> bit & 1)


def _join(names: Iterable[str]) -> str:
    return ",".join(names)
