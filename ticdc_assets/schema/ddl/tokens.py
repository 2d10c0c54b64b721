"""The tokens of a DDL text: words, names, literals and symbols."""

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    WORD = "word"
    NAME = "quoted name"
    STRING = "string"
    NUMBER = "number"
    HEX = "hexadecimal literal"
    BIT = "bit literal"
    SYMBOL = "symbol"
    END = "end"


class Token(NamedTuple):
    kind: Kind
    # Without quotes and escapes; the digits of numbers, hexadecimal and bit literals.
    text: str
    # For comparison with keywords: words in upper case, and symbols; empty for all other kinds.
    key: str
    # Offsets in the DDL text; `end` is exclusive.
    start: int
    end: int

    @property
    def data(self) -> bytes:
        """The bytes of a hexadecimal or bit literal."""
        base, digits_per_byte = (16, 2) if self.kind is Kind.HEX else (2, 8)
        return int(self.text or "0", base).to_bytes(-(-len(self.text) // digits_per_byte), "big")


def tokenize(sql: str) -> list[Token]:
    """Split a DDL text into tokens; raise `UnreadableDdl` if that is impossible."""
    # Most processes read no DDL, and importing sqlglot takes a sixth of a second.
    from ticdc_assets.schema.ddl.scanner import scan

    return scan(sql)
