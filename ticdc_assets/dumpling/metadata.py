"""The file `metadata`, which Dumpling writes last: the TSO at which all rows were read."""

import re

from ticdc_assets.errors import MalformedMessage

METADATA = "metadata"

_FINISHED = re.compile(r"^Finished dump at: ", re.MULTILINE)
_STATUS = re.compile(r"^SHOW (?:MASTER|BINARY LOG) STATUS:.*\n((?:[ \t]+\S.*\n?)+)", re.MULTILINE)
_POS = re.compile(r"^[ \t]+Pos: *(.*?)[ \t\r]*$", re.MULTILINE)
# A TSO of 2004; a position in a binlog of MySQL is below.
_LEAST_TSO = 1 << 58
_MOST_TSO = (1 << 63) - 1


def read_metadata(content: bytes) -> int:
    """Return the TSO of an export; raise `MalformedMessage` if it did not finish or has none."""
    text = content.decode("utf-8", "replace")
    if not _FINISHED.search(text):
        raise MalformedMessage("the export did not finish: its metadata lacks `Finished dump at`")
    # A second section may state the position after all connections were open.
    status = _STATUS.search(text)
    found = _POS.search(status[1]) if status is not None else None
    if found is None:
        raise MalformedMessage(
            "it states no Pos: export with a user that may run SHOW MASTER STATUS, from TiDB"
        )
    pos = found[1]
    if not (pos.isascii() and pos.isdigit() and len(pos) < 20):
        raise MalformedMessage(f"its Pos {pos[:40]!r} is no TSO: export with --snapshot TSO")
    if not _LEAST_TSO <= int(pos) <= _MOST_TSO:
        raise MalformedMessage(f"its Pos {pos} is no TSO of TiDB: it was exported from MySQL")
    return int(pos)
