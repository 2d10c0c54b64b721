"""Values that every topic protocol writes otherwise than MySQL prints them."""

from base64 import b64encode
from collections.abc import Callable

from ticdc_assets.demo.column_type import BINARY
from ticdc_assets.events import Column

# A primary key that is the rows' handle is no index in TiDB; TiCDC makes one up, of this name.
HANDLE = "primary"

Convert = Callable[[str], str]


def member_number(column: Column) -> Convert | None:
    """ENUM and SET by number: the 1-based index, the bitmask."""
    elements = column.type.elements
    if elements is None:
        return None
    if column.type.name == "enum":
        numbers = {element: str(place) for place, element in enumerate(elements, 1)}
        return numbers.__getitem__
    bits = {element: 1 << place for place, element in enumerate(elements)}
    return lambda text: str(sum(bits[element] for element in text.split(",")) if text else 0)


def base64_of(text: str) -> str:
    """Hexadecimal digits as standard base64."""
    return b64encode(bytes.fromhex(text)).decode("ascii")


def is_binary(column: Column) -> bool:
    """Whether the column holds bytes, not text."""
    return column.type.name in BINARY
