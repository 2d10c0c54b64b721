"""Names of tables as parts of asset keys, and back.

Dagster takes any text as a part of a key, but not every place that a key goes to does: `/` joins
the parts in URLs and in what people type, a quotation mark ends a key in a selection, and a part of
dots alone is a step in a path.  Letters and digits of any script, `_`, `-` and `.` stay as they
are; any other character is written as its code point between tildes: `a/b` is `a~2f~b`.
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
HISTORY, CURRENT = TABLE_LAYERS = ("schema_history", "current")

_ESCAPED = re.compile(r"~([0-9a-f]+)~")
_UNSAFE = re.compile(r"[^A-Za-z0-9]+")
# Each hyphen becomes two underscores, which nothing else can be then.
_PLAIN = re.compile(r"(?!.*(__|_-|-_|-$))[A-Za-z0-9][A-Za-z0-9_-]*[A-Za-z0-9]|[A-Za-z0-9]")


def key_part(name: str) -> str:
    """A name as a part of an asset key."""
    if not name:
        return "~~"
    plain = "_-." if name.strip(".") else "_-"
    return "".join(char if char.isalnum() or char in plain else f"~{ord(char):x}~" for char in name)


def name_of(part: str) -> str:
    """The name that a part of an asset key stands for."""
    return "" if part == "~~" else _ESCAPED.sub(lambda found: chr(int(found[1], 16)), part)


def layer_asset_key(feed: Changefeed, layer: str) -> dg.AssetKey:
    """The key of one of the layers that a changefeed has once."""
    return dg.AssetKey([feed.id, layer])


def table_asset_key(feed: Changefeed, layer: str, database: str, table: str) -> dg.AssetKey:
    """The key of a table in one of the layers that have a part for every table."""
    return dg.AssetKey([feed.id, layer, key_part(database), key_part(table)])


def table_of(key: dg.AssetKey) -> tuple[str, str] | None:
    """Database and table of a key; None if it is of a layer as a whole."""
    if len(key.path) != 4:
        return None
    return name_of(key.path[2]), name_of(key.path[3])


def identifier(text: str) -> str:
    """A text as the name of an op, a job, a group: readable, and of this text alone."""
    if _PLAIN.fullmatch(text) and not keyword.iskeyword(text):
        return text.replace("-", "__")
    slug = _UNSAFE.sub("_", text).strip("_")[:60]
    return f"{slug}_{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:8]}"


def output_name(key: dg.AssetKey, check: str = "") -> str:
    """The name of an asset's output, or of a check's: the same at every load, and no other's."""
    return identifier("/".join(key.path) + (f"#{check}" if check else ""))


def group(feed: Changefeed) -> str:
    """The group of a changefeed's assets."""
    return identifier(feed.id)
