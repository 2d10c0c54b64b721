"""Values that all topic protocols write in another form than MySQL prints."""

from base64 import b64encode
from collections.abc import Callable

from ticdc_assets.demo.column_type import BINARY
from ticdc_assets.events import Column

Convert = Callable[[str], str]


def make_member_numberer(column: Column) -> Convert | None:
    """Return how ENUM and SET become numbers: the 1-based index, the bitmask."""
    elements = column.type.elements
    if elements is None:
        return None
    if column.type.name == "enum":
        numbers = {element: str(place) for place, element in enumerate(elements, 1)}
        return numbers.__getitem__
    bits = {element: 1 << place for place, element in enumerate(elements)}
    return lambda text: str(sum(bits[element] for element in text.split(",")) if text else 0)


def encode_base64(text: str) -> str:
    """Convert hexadecimal digits to standard base64."""
    return b64encode(bytes.fromhex(text)).decode("ascii")


def is_binary(column: Column) -> bool:
    """Return whether a column holds bytes, not text."""
    return column.type.name in BINARY
