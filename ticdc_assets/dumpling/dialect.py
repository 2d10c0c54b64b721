"""How Dumpling was to write rows: what its data files do not state themselves."""

import re
import struct
from io import BytesIO
from typing import Literal
from zoneinfo import ZoneInfo

from msgspec import Struct

from ticdc_assets.errors import ConfigError, MalformedMessage

CSV_DIALECTS: dict[str, Literal["utf8", "hex", "base64"]] = {
    "": "utf8",
    "snowflake": "hex",
    "redshift": "hex",
    "bigquery": "base64",
}

_OFFSET = re.compile(r"([+-])([0-9]{1,2}):([0-5][0-9])")
# In minutes, what TiDB takes.
_LEAST_OFFSET, _MOST_OFFSET = -(12 * 60 + 59), 14 * 60


class Dialect(Struct, frozen=True):
    """The options given to Dumpling, with its defaults.

    `time_zone` is that of its session, in which it read TIMESTAMPs; None if nobody states it.
    """

    escape_backslash: bool = True
    separator: str = ","
    quote: str = '"'
    null: str = "\\N"
    # None: CR LF or LF, as the first row of each file ends.
    terminator: str | None = None
    has_header: bool = True
    binary: Literal["utf8", "hex", "base64"] = "utf8"
    time_zone: str | None = None

    @property
    def confuses_null(self) -> bool:
        """Whether a text may look like NULL."""
        return not self.quote and not (self.escape_backslash and self.null.startswith("\\"))


# Parameters: the options of Dumpling's that matter.
def make_dialect(
    *,
    escape_backslash: bool,
    separator: str,
    quote: str,
    null: str,
    terminator: str | None,
    has_header: bool,
    output_dialect: str,
    time_zone: str | None,
) -> Dialect:
    """Check options against each other; raise a `ConfigError` that names the wrong one."""
    line_break = ("\r", "\n")
    if not separator or any(sign in separator for sign in line_break):
        raise ConfigError("must be a text without line breaks", setting="--csv-separator")
    if any(sign in quote for sign in line_break):
        raise ConfigError("must have no line breaks", setting="--csv-delimiter")
    if quote and (separator[0] == quote[0]):
        raise ConfigError("must differ from --csv-separator", setting="--csv-delimiter")
    if terminator is not None and terminator not in ("\r\n", "\n"):
        raise ConfigError(r"must be \r\n or \n", setting="--csv-line-terminator")
    if any(sign in null for sign in (separator, *line_break)) or (quote and quote in null):
        raise ConfigError("must not contain other signs of the dialect", setting="--csv-null-value")
    if output_dialect not in CSV_DIALECTS:
        known = ", ".join(filter(None, CSV_DIALECTS))
        raise ConfigError(f"must be one of {known}", setting="--csv-output-dialect")
    return Dialect(
        escape_backslash,
        separator,
        quote,
        null,
        terminator,
        has_header,
        CSV_DIALECTS[output_dialect],
        time_zone,
    )


def find_zone(name: str) -> str:
    """Return the name of a time zone or its offset; raise `MalformedMessage` for an unknown one."""
    return open_zone(name).key


def open_zone(name: str) -> ZoneInfo:
    """Return a time zone by its name, or by its offset from UTC."""
    if offset := _OFFSET.fullmatch(name):
        sign, hours, minutes = offset.groups()
        total = int(f"{sign}1") * (int(hours) * 60 + int(minutes))
        if _LEAST_OFFSET <= total <= _MOST_OFFSET:
            return _make_fixed_zone(name, total) if total else ZoneInfo("UTC")
    try:
        return ZoneInfo(name)
    # Names that are paths, folders or too long raise other errors than unknown names.
    except (LookupError, ValueError, OSError):
        raise MalformedMessage(f"unknown time zone {name[:40]!r}") from None


def _make_fixed_zone(name: str, minutes: int) -> ZoneInfo:
    """Make a zone from a TZif file of RFC 8536: without transitions, of one type without a name.

    `timezone` of the standard library has no key.
    """
    counts = struct.pack(">4s16x6l", b"TZif", 0, 0, 0, 0, 1, 1)
    return ZoneInfo.from_file(BytesIO(counts + struct.pack(">lBBx", minutes * 60, 0, 0)), name)
