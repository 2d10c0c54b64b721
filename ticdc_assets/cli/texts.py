"""What commands say of themselves, and how values are written for people."""

import re
import unicodedata
from datetime import UTC, datetime

from ticdc_assets.events.tso import to_datetime

EXIT_CODES = """\
exit codes:
  0  everything was read and honoured
  1  done, but something could not be honoured: each such thing is a line on standard error
  2  nothing was done: a wrong command line, changefeed declaration or --at, or a lake at work;
     or Spark failed half-way, and running it again goes on
"""

AFTER_SPARK = (
    "what was committed stays: run it again to go on; TICDC_SPARK_LOG=error shows all that Spark"
    " says of it"
)

ALL = """\
Turn what TiCDC wrote into a lake of Delta tables that equal upstream's (advance), look into it
(tables, show, events, schema, ledger) and mend it (resume, rebuild, maintain); or read a small
changefeed without a lake (decode, replay).
"""

DEMO_PROTOCOLS = ("csv", "canal-json", "simple", "open-protocol")

OF = {
    "decode": """\
Print every event of a changefeed as a JSON line, in the order it was read.

Row changes carry their row images, schema changes their SQL, watermarks their ts; input that cannot
be decoded is a line of its own, "event": "quarantined", with its position and the reason.
""",
    "replay": """\
Run the reference model over a changefeed's whole output and print a table as TiDB had it.

Rows are JSON lines {column: text or null}: texts as MySQL prints them, binary as lower-case
hexadecimal, TIMESTAMP in UTC.  Virtual generated columns never travel and are left out.
""",
    "advance": """\
Take in what the changefeed has written since, decode it, and bring every table to the newest
resolved ts.  A run that was killed is taken up where it was; what is done is not done again.
""",
    "maintain": """\
Join small files of the lake's tables.  By default every picture that was ever applied stays
readable.  With --retain-days older ones do not: `show --at` reaches back so far and no further, and
rows that come later than that can no longer be put right but by `rebuild`.
""",
    "tables": """\
List the lake's tables: how many rows, up to when they are applied, how far that lies behind, and
for a table that is stopped why, and the command to go on with.
""",
    "show": """\
Print the rows of a table, or write all tables, as TiDB had them at a TSO: any up to the newest that
is applied.  Formats: aligned columns; JSON lines and files exactly as `replay` has them; CSV, in
which NULL is nothing and an empty text is "".
""",
    "events": """\
Print what has come of a table under this name, in order of commit ts: row changes and DDL.
""",
    "schema": """\
Print every version of a table's schema: from when on, by which statement, and what it changed.
""",
    "ledger": """\
Recount what has come and what became of it: every row event that is in the lake was applied,
superseded by a later one, sent again, waits, or is in quarantine; every file and record was decoded
or waits.  Exit code 1 where that does not add up.
""",
    "resume": """\
Let a paused table go on from where it stopped: after keys were declared, or with a newer version of
this software.  With --skip-ddl the statement it stopped at is left out; that is kept in the lake,
and said.  With --rebuild it is made anew from its first event on.
""",
    "rebuild": """\
Make a table anew from all its events; other tables are left alone, but for those it has exchanged
rows with.
""",
    "simulate": """\
Simulate a shop in real time and write its changefeed into a folder, a checkpoint every few seconds,
until it is stopped.
""",
    "dev": """\
Simulate a shop in real time, and start Dagster beside it: its sensor brings a new lake to every
checkpoint, which can be watched in the UI.  Ctrl-C stops both.
""",
    "demo": """\
Simulate a shop and its changefeed in a new folder, bring a lake up to it step by step, and compare
every table with the source.
""",
}

# What looks like a URI may hold credentials in front of its host and behind its question mark; a
# path made of it has lost a slash.
_USER = re.compile(r"(?<=:/)\S*@")
_PARAMETERS = re.compile(r"(:/[^?]*\?).*")
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def safe(message: str) -> str:
    """A message on one line, without the credentials that a misplaced URI may hold."""
    return _PARAMETERS.sub(r"\1…", _USER.sub("", " ".join(message.split())))


def moment(ts: int) -> str:
    """The time of a TSO."""
    try:
        return f"{to_datetime(ts):%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:
        return "after the year 9999"


def lag(ts: int, now: datetime | None = None) -> str:
    """How far a TSO lies behind."""
    try:
        seconds = max(((now or datetime.now(UTC)) - to_datetime(ts)).total_seconds(), 0)
    except OverflowError:
        return "0 s"
    for unit, name in _UNITS:
        if seconds >= 2 * unit:
            return f"{seconds / unit:,.0f} {name}"
    return f"{seconds:.0f} s"


def size(count: int) -> str:
    """A number of bytes."""
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB")):
        if count >= unit:
            return f"{count / unit:,.1f} {name}"
    return f"{count} bytes"


def count(number: int, one: str, more: str | None = None) -> str:
    """A number of things."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def aligned(rows: list[list[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """Rows in columns; those in `right` are numbers."""
    widths = [max(map(_width, column), default=0) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = []
        for place, (text, width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - _width(text))
            cells.append(space + text if place in right else text + space)
        lines.append("  ".join(cells).rstrip())
    return lines


def one_line(text: str) -> str:
    """A text with what would break a line written out."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def _width(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))
