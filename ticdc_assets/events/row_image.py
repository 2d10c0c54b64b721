"""The row-image convention: the form of a row in an event.

A row image is JSON text, one object `{column: text or null}`: every value a string, NULL a null,
columns in any order.  Decoders normalize only values that would be ambiguous without the protocol:

| type                  | text in the image                                       | example            |
|-----------------------|---------------------------------------------------------|--------------------|
| integers, year        | decimal                                                 | "-42", "2024"      |
| bit                   | decimal; a negative one is two's complement of 64 bits  | "10"               |
| float, double         | any decimal notation that reads back as the value       | "3.14", "1e+06"    |
| decimal               | digits with the scale that TiCDC sent               | "100.50"           |
| char, varchar, text   | the text                                                | "Böb"              |
| binary, varbinary, blob | standard base64 with padding                          | "AP8="             |
| date                  | YYYY-MM-DD                                              | "2024-01-01"       |
| datetime              | YYYY-MM-DD HH:MM:SS[.f], no zone                        | "2024-01-01 10:00:00.123" |
| timestamp             | as datetime, in UTC (the zero timestamp unchanged)      | "2024-01-01 02:00:00" |
|                       | both moments, if the server's zone repeats that hour      | "2024-11-03 05:30:00|2024-11-03 06:30:00" |
| time                  | [-]HH[H]:MM:SS[.f]                                      | "-838:59:59"       |
| enum                  | 1-based index, 0 the invalid member; with `RowChange.member_names` the name | "2" / "gold" |
| set                   | bitmask; with `member_names` the comma-joined names     | "5" / "a,c"        |
| json                  | TiDB's text                                             | "{\"a\": 1}"       |
| vector                | TiDB's text                                             | "[1,2.5]"          |

Bytes of a text that are not valid UTF-8 become lone surrogates U+DC80…U+DCFF (Python's
`surrogateescape`), which preserve the exact bytes.

For speed, decoders of JSON protocols copy an image from the message unchanged: they check that it is
valid UTF-8 and JSON, and `load` checks that every value is a string or null.
"""

import json
from collections.abc import Mapping

import msgspec

from ticdc_assets.errors import MalformedMessage

# Between the two moments that a TIMESTAMP text of the server may mean.
EITHER = "|"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, str | None]).decode


def dump(row: Mapping[str, str | None]) -> str:
    """Write a row image."""
    try:
        return _encode(row).decode()
    except UnicodeEncodeError:
        return json.dumps(row, separators=(",", ":"))


def load(image: str) -> dict[str, str | None]:
    """Read a row image; raise `MalformedMessage` for any other text."""
    try:
        return _decode(image)
    except msgspec.ValidationError as error:
        raise MalformedMessage(f"row image: {error}") from None
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        # msgspec raises for lone surrogates, which the convention allows.
        return _load_with_surrogates(image, error)


def _load_with_surrogates(image: str, error: Exception) -> dict[str, str | None]:
    try:
        row = json.loads(image)
    except (ValueError, RecursionError):
        raise MalformedMessage(f"row image: {error}") from None
    if not isinstance(row, dict):
        raise MalformedMessage("row image: not an object")
    for name, value in row.items():
        if value is not None and not isinstance(value, str):
            raise MalformedMessage(f"row image: column {name!r} is neither text nor null")
    return row
