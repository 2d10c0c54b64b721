"""Names of tables as parts of asset keys, and back, without Dagster.

Dagster accepts any text as a part of an asset key, but not every place that shows a key does: `/`
joins the parts in URLs and in what people type, a quotation mark ends a key in a selection, and a
part of only dots is a relative path.  Letters and digits of any script, `_`, `-` and `.` are not
escaped; any other character becomes its code point between tildes: `a/b` is `a~2f~b`.
"""

import re
from collections.abc import Sequence

SCHEMA_HISTORY, CURRENT = ("schema_history", "current")
# Of tables for which the changefeed declares them; in the lake, their folders have these names.
HISTORY, CHANGES = ("history", "changes")
# The graph shows the last part of a key alone, so that part tells a table's assets apart; that of
# its rows is the table's name.
_ENDS = {SCHEMA_HISTORY: ".schema", CURRENT: "", HISTORY: ".history", CHANGES: ".changes"}

_ESCAPED = re.compile(r"~([0-9a-f]+)~")


def encode_key_part(name: str) -> str:
    """Encode a name as a part of an asset key."""
    if not name:
        return "~~"
    plain = "_-." if name.strip(".") else "_-"
    return "".join(char if char.isalnum() or char in plain else f"~{ord(char):x}~" for char in name)


def decode_key_part(part: str) -> str:
    """Return the name that a part of an asset key encodes."""
    return "" if part == "~~" else _ESCAPED.sub(lambda match: chr(int(match[1], 16)), part)


def make_table_path(id: str, layer: str, database: str, table: str) -> list[str]:
    """Return the parts of the key of a table in a layer that has one asset per table."""
    return [id, layer, encode_key_part(database), encode_key_part(table) + _ENDS[layer]]


def read_table_path(path: Sequence[str]) -> tuple[str, str] | None:
    """Return the database and table of a key; None for another key."""
    if len(path) != 4 or path[1] not in _ENDS:
        return None
    _, layer, database, name = path
    return decode_key_part(database), decode_key_part(name.removesuffix(_ENDS[layer]))
