"""SQL files of Dumpling: INSERT statements of many rows, behind SET statements in comments.

    /*!40101 SET NAMES binary*/;
    INSERT INTO `t` VALUES
    (1,'a',x'00ff',NULL),
    (2,…);

Texts are quoted with `'`, their signs escaped with a backslash or, without such escapes, `'`
doubled; bytes are hexadecimal.  The reader knows more of SQL than Dumpling writes, but no other
statements.
"""

import re
from typing import NamedTuple

from ticdc_assets.dumpling.dialect import Dialect
from ticdc_assets.dumpling.rows import ScannedRow

_MOST_OF_A_COMMENT = 1 << 16
_MOST_OF_A_PREFIX = 2 << 20
# The longest value that is no text.
_MOST_OF_A_LITERAL = 4096

_BLANKS = re.compile(rb"[\s;]*+")
_LINE_COMMENT = re.compile(rb"(?:--[ \t][^\n]*+|--|\#[^\n]*+)(?:\n|\Z)")
_SET = re.compile(rb"SET\s[^;]*+;", re.IGNORECASE)
_IDENTIFIER = rb"(?:`(?:[^`]|``)++`|\"[^\"]++\"|[\w$]++)"
_INSERT = re.compile(
    rb"(?:INSERT|REPLACE)\s++(?:IGNORE\s++)?INTO\s++%b(?:\s*+\.\s*+%b)?\s*+"
    rb"(?:\(\s*+(%b(?:\s*+,\s*+%b)*+)\s*+\)\s*+)?VALUES\s*+(?=\(|\Z)" % ((_IDENTIFIER,) * 4),
    re.IGNORECASE,
)
_NAME = re.compile(_IDENTIFIER)
_TIME_ZONE = re.compile(rb"time_zone\s*=\s*'([^']+)'", re.IGNORECASE)
_NAMES = re.compile(rb"SET\s+NAMES\s+'?(\w+)", re.IGNORECASE)
_CHARSETS = (b"binary", b"utf8", b"utf8mb4", b"utf8mb3")

ESCAPES = {b"0": b"\0", b"n": b"\n", b"r": b"\r", b"Z": b"\x1a", b"t": b"\t", b"b": b"\b"}
# For LIKE patterns, MySQL keeps the backslash before these.
ESCAPES |= {b"%": b"\\%", b"_": b"\\_"}
_OTHER_DIALECT = "is it written with another --escape-backslash?"


class Statement(NamedTuple):
    """What is between two lists of rows: where it ends, and what it says."""

    end: int
    names: list[str] | None = None
    is_insert: bool = False
    time_zone: str | None = None
    problem: str | None = None


def read_statement(data: bytes, start: int, has_ended: bool) -> Statement | None:
    """Read what is at a place outside of a list of rows; None if it may go on behind the data."""
    blanks = _BLANKS.match(data, start)
    start = blanks.end() if blanks else start
    rest = len(data) - start
    if not rest:
        return Statement(start)
    if match := _LINE_COMMENT.match(data, start):
        if match[0].endswith(b"\n") or has_ended:
            return Statement(match.end())
        return None if rest < _MOST_OF_A_COMMENT else _break(data, start)
    if data.startswith(b"/*", start):
        end = data.find(b"*/", start, start + _MOST_OF_A_COMMENT)
        if end >= 0:
            return _read_setting(data[start:end], end + 2)
        return None if rest < _MOST_OF_A_COMMENT and not has_ended else _break(data, start)
    if match := _SET.match(data, start):
        return _read_setting(match[0], match.end())
    if match := _INSERT.match(data, start):
        names = None
        if match[1] is not None:
            names = [_unquote(name) for name in _NAME.findall(match[1])]
        return Statement(match.end(), names, is_insert=True)
    if rest < _MOST_OF_A_PREFIX and not has_ended and b";\n" not in data[start:]:
        return None
    return _break(data, start)


def _read_setting(text: bytes, end: int) -> Statement:
    zone, names = _TIME_ZONE.search(text), _NAMES.search(text)
    problem = None
    if names is not None and names[1].lower() not in _CHARSETS:
        problem = f"its texts are in {names[1].decode('ascii', 'replace')}, not in UTF-8"
    time_zone = zone[1].decode("ascii", "replace") if zone is not None else None
    return Statement(end, time_zone=time_zone, problem=problem)


def _unquote(name: bytes) -> str:
    if name[:1] == b"`":
        name = name[1:-1].replace(b"``", b"`")
    elif name[:1] == b'"':
        name = name[1:-1]
    return name.decode("utf-8", "replace")


def _break(data: bytes, start: int) -> Statement:
    """Skip what is no INSERT statement."""
    end = data.find(b";\n", start)
    end = len(data) if end < 0 else end + 2
    return Statement(end, problem="not an INSERT statement")


class RowScanner:
    """Reads rows in parentheses, one by one: the specification of the notation."""

    def __init__(self, dialect: Dialect) -> None:
        self._escapes = dialect.escape_backslash
        # With escapes, no text has a line break of its own.
        inner = rb"[^%b\\\n]*+(?:(?:\\.|%b%b)[^%b\\\n]*+)*+"
        if not dialect.escape_backslash:
            inner = rb"[^%b]*+(?:%b%b[^%b]*+)*+"
        single, double = (inner % ((quote,) * 4) for quote in (b"'", b'"'))
        self._value = re.compile(
            rb"\s*+(?:(?:_[a-z0-9]++\s*+)?(?:'(%b)'|\"(%b)\")"
            rb"|(?:_[a-z0-9]++\s*+)?(?:[xX]'([0-9a-fA-F]*+)'|0x([0-9a-fA-F]++))"
            rb"|[bB]'([01]*+)'|((?i:NULL))|([+-]?[0-9.][0-9.eE+-]*+))\s*+([,)])" % (single, double),
            re.DOTALL,
        )
        self._open_text = re.compile(
            rb"\s*+(?:_[a-z0-9]++\s*+)?(?:0x[0-9a-fA-F]*+\s*+"
            rb"|[xXbB]?(?:'%b(?:\\|'\s*+)?|\"%b(?:\\|\"\s*+)?)?)\Z" % (single, double),
            re.DOTALL,
        )

    def read(self, data: bytes, start: int, has_ended: bool) -> ScannedRow | None:
        """Read the row whose `(` is at a place; None if it may go on behind the data."""
        values: list[bytes | None] = []
        quoted: list[bool] = []
        position = start + 1
        while match := self._value.match(data, position):
            values.append(self._decode(match))
            quoted.append(match[1] is not None)
            position = match.end()
            if match[8] == b")":
                return ScannedRow(values, quoted, position)
        if not has_ended and (
            self._open_text.match(data, position) or len(data) - position < _MOST_OF_A_LITERAL
        ):
            return None
        # The next row starts on a line of its own.
        next_row = data.find(b"\n(", position)
        limit = next_row if next_row >= 0 else len(data)
        found = data.find(b";\n", position, limit)
        end = found if found >= 0 else limit
        reason = f"value {len(values) + 1} is no literal: {_OTHER_DIALECT}"
        return ScannedRow([], [], end, reason if end < len(data) else "the file ends in this row")

    def _decode(self, match: re.Match[bytes]) -> bytes | None:
        single, double, hex, zero_x, bits, null, number, _ = match.groups()
        if null is not None:
            return None
        if number is not None:
            return number
        if bits is not None:
            return int(bits or b"0", 2).to_bytes((len(bits) + 7) // 8, "big")
        if hex is not None or zero_x is not None:
            digits = (hex if hex is not None else zero_x).decode()
            return bytes.fromhex("0" * (len(digits) % 2) + digits)
        text, quote = (single, b"'") if single is not None else (double, b'"')
        text = text.replace(quote * 2, quote) if not self._escapes else text
        if not self._escapes or (b"\\" not in text and quote not in text):
            return bytes(text)
        # From left to right: a doubled quote may follow an escaped backslash.
        return re.sub(
            rb"\\(.)|%b%b" % (quote, quote),
            lambda found: quote if found[1] is None else ESCAPES.get(found[1], found[1]),
            text,
            flags=re.DOTALL,
        )
