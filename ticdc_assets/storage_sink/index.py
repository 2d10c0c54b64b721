"""The index files of a storage-sink folder: the last file name used in a data directory.

Only a hint: classic TiCDC writes it before the data file, the new architecture after it.
"""

import re

from ticdc_assets.errors import MalformedMessage

_CONTENT = re.compile(rb"(CDC(?:_[0-9]{1,40}_)?[0-9]{6,20}\.(?:csv|json))\r?\n?")


def read_index(data: bytes) -> str:
    """Read the data file name in an index file; raise `MalformedMessage` for any other content."""
    match = _CONTENT.fullmatch(data)
    if match is None:
        raise MalformedMessage(f"index file holds {data[:80]!r}, not the name of a data file")
    return match[1].decode("ascii")
