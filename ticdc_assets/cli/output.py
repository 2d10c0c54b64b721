"""What commands print.  A terminal obeys control characters, and names and values have any.

Lines for people are always escaped.  Data goes to a file or a program as it is, and to a terminal
escaped.  Lines about the run are text, or with `--log json` objects that a collector of logs reads.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Literal, TypeVar

import msgspec

from ticdc_assets.safe_text import escape_control

# In JSON, control characters below the space are escaped already; line breaks are between rows.
_UNPRINTABLE = re.compile(r"[^\n\x20-\x7e]")

_Record = TypeVar("_Record")
Level = Literal["info", "warning", "error"]

# What every object of a log in JSON states; None while the log is text.
_log: Mapping[str, object] | None = None


def say(line: str = "") -> None:
    """Print a line of a result."""
    print(escape_control(line), flush=True)


@contextmanager
def log_in_json(**stated: object) -> Iterator[None]:
    """Write lines about the run as JSON objects, each with what is stated."""
    global _log
    _log = stated
    try:
        yield
    finally:
        _log = None


def is_log_in_json() -> bool:
    """Return whether lines about the run are JSON objects."""
    return _log is not None


def warn(line: str, level: Level = "warning", **fields: object) -> None:
    """Print a line about the run on standard error; an object has a level and fields, too."""
    if _log is None:
        print(escape_control(line), file=sys.stderr, flush=True)
        return
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
    entry = {"time": now, "level": level, **_log, "message": line, **fields}
    # In one piece: several threads write.
    sys.stderr.write(json.dumps(entry) + "\n")
    sys.stderr.flush()


def note(line: str, **fields: object) -> None:
    """Print what only a log in JSON has: people see it from the command itself."""
    if _log is not None:
        warn(line, "info", **fields)


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
