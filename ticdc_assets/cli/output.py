"""What commands print.  A terminal obeys control characters, and names and values have any.

Lines for people are always escaped.  Data goes to a file or a program as it is, and to a terminal
escaped.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from ticdc_assets.safe_text import escape_control

# In JSON, control characters below the space are escaped already; line breaks are between rows.
_UNPRINTABLE = re.compile(r"[^\n\x20-\x7e]")

_Record = TypeVar("_Record")


def say(line: str = "") -> None:
    """Print a line of a result."""
    print(escape_control(line), flush=True)


def warn(line: str) -> None:
    """Print a line about the run on standard error."""
    print(escape_control(line), file=sys.stderr, flush=True)


def show_live(text: str) -> None:
    """Write over the live line of a terminal; no part of the text comes from upstream."""
    print(f"\r{text}", end="", file=sys.stderr, flush=True)


def print_records(
    options: argparse.Namespace,
    records: Sequence[_Record],
    format_text: Callable[[Sequence[_Record]], Iterable[str]],
) -> None:
    """Print records as the option `--format` says: as text, or as one JSON object per line."""
    if options.format == "json":
        write_data(map(encode_record, records))
    else:
        for line in format_text(records):
            say(line)


def encode_record(record: object) -> bytes:
    """Encode a record on one line, in ASCII: names may be no UTF-8, or unprintable."""
    return json.dumps(msgspec.to_builtins(record)).encode() + b"\n"


def write_data(lines: Iterable[bytes]) -> None:
    """Write lines of data, each with its line break."""
    if sys.stdout.isatty():
        lines = (_escape_data(line.decode(errors="backslashreplace")).encode() for line in lines)
    sys.stdout.buffer.writelines(lines)
    sys.stdout.buffer.flush()


def _escape_data(line: str) -> str:
    """Escape unprintable characters as JSON does."""
    return _UNPRINTABLE.sub(
        lambda match: match[0] if match[0].isprintable() else _escape_for_json(match[0]), line
    )


def _escape_for_json(character: str) -> str:
    units = character.encode("utf-16-be", errors="surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
