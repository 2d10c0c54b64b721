"""The index files of a storage-sink folder: the last file name used in a data directory.

A hint only: the classic server writes it before the data file it names, the new one after it.
"""

import re

from ticdc_assets.errors import MalformedMessage

_CONTENT = re.compile(rb"(CDC(?:_[0-9]{1,40}_)?[0-9]{6,20}\.(?:csv|json))\r?\n?")


def read_index(data: bytes) -> str:
    """Read the file name that an index file holds; raise `MalformedMessage` if it is none."""
    match = _CONTENT.fullmatch(data)
    if match is None:
        raise MalformedMessage(f"index file holds {data[:80]!r}, not the name of a data file")
    return match[1].decode("ascii")
