"""Names of tables as parts of asset keys, and back.

Dagster accepts any text as a part of an asset key, but not every place that shows a key does: `/`
joins the parts in URLs and in what people type, a quotation mark ends a key in a selection, and a
part of only dots is a relative path.  Letters and digits of any script, `_`, `-` and `.` are not
escaped; any other character becomes its code point between tildes: `a/b` is `a~2f~b`.
"""

import hashlib
import keyword
import re

import dagster as dg

from ticdc_assets.changefeed import Changefeed

SOURCE, RAW, EVENTS, QUARANTINE, CHECKPOINTS = LAYERS = (
    *("source", "raw", "events", "quarantine"),
    "checkpoints",
)
# The database, where it is declared.
UPSTREAM = "upstream"
SCHEMA_HISTORY, CURRENT = ("schema_history", "current")
# Of tables for which the changefeed declares them; in the lake, their folders have these names.
HISTORY, CHANGES = ("history", "changes")
# The graph shows the last part of a key alone, so that part tells a table's assets apart; that of
# its rows is the table's name.
_ENDS = {SCHEMA_HISTORY: ".schema", CURRENT: "", HISTORY: ".history", CHANGES: ".changes"}

_ESCAPED = re.compile(r"~([0-9a-f]+)~")
_UNSAFE = re.compile(r"[^A-Za-z0-9]+")
# Texts in which replacing each hyphen by two underscores collides with no other text.
_PLAIN = re.compile(r"(?!.*(__|_-|-_|-$))[A-Za-z0-9][A-Za-z0-9_-]*[A-Za-z0-9]|[A-Za-z0-9]")


def encode_key_part(name: str) -> str:
    """Encode a name as a part of an asset key."""
    if not name:
        return "~~"
    plain = "_-." if name.strip(".") else "_-"
    return "".join(char if char.isalnum() or char in plain else f"~{ord(char):x}~" for char in name)


def decode_key_part(part: str) -> str:
    """Return the name that a part of an asset key encodes."""
    return "" if part == "~~" else _ESCAPED.sub(lambda match: chr(int(match[1], 16)), part)


def layer_asset_key(feed: Changefeed, layer: str) -> dg.AssetKey:
    """Return the key of a layer that holds all tables of a changefeed."""
    return dg.AssetKey([feed.id, layer])


def table_asset_key(feed: Changefeed, layer: str, database: str, table: str) -> dg.AssetKey:
    """Return the key of a table in a layer that has one asset per table."""
    name = encode_key_part(table) + _ENDS[layer]
    return dg.AssetKey([feed.id, layer, encode_key_part(database), name])


def table_of(key: dg.AssetKey) -> tuple[str, str] | None:
    """Return the database and table of a key; None for the key of a whole layer."""
    if len(key.path) != 4:
        return None
    _, layer, database, name = key.path
    return decode_key_part(database), decode_key_part(name.removesuffix(_ENDS[layer]))


def identifier(text: str) -> str:
    """Return a readable, unique name for an op, job or group from any text."""
    if _PLAIN.fullmatch(text) and not keyword.iskeyword(text):
        return text.replace("-", "__")
    slug = _UNSAFE.sub("_", text).strip("_")[:60]
    return f"{slug}_{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:16]}"


def output_name(key: dg.AssetKey, check: str = "") -> str:
    """Return the output name of an asset or check: stable across loads, and unique."""
    return identifier("/".join(key.path) + (f"#{check}" if check else ""))


def layer_group(feed: Changefeed) -> str:
    """Return the group of the layers that hold all tables of a changefeed."""
    return identifier(feed.id)


def table_group(feed: Changefeed, database: str) -> str:
    """Return the group of the tables of one database: tables of others may have the same names."""
    return f"{identifier(feed.id)}_db_{identifier(database)}"
