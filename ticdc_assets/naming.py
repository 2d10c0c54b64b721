"""The names of assets, ops, jobs and groups: keys, and words that Dagster accepts."""

import hashlib
import keyword
import re

import dagster as dg

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.key_parts import CHANGES as CHANGES
from ticdc_assets.key_parts import CURRENT as CURRENT
from ticdc_assets.key_parts import HISTORY as HISTORY
from ticdc_assets.key_parts import SCHEMA_HISTORY as SCHEMA_HISTORY
from ticdc_assets.key_parts import make_table_path, read_table_path

SOURCE, RAW, EVENTS, QUARANTINE, CHECKPOINTS = LAYERS = (
    *("source", "raw", "events", "quarantine"),
    "checkpoints",
)
# The database, where it is declared.
UPSTREAM = "upstream"
_UNSAFE = re.compile(r"[^A-Za-z0-9]+")
# Texts in which replacing each hyphen by two underscores collides with no other text.
_PLAIN = re.compile(r"(?!.*(__|_-|-_|-$))[A-Za-z0-9][A-Za-z0-9_-]*[A-Za-z0-9]|[A-Za-z0-9]")


def layer_asset_key(feed: Changefeed, layer: str) -> dg.AssetKey:
    """Return the key of a layer that holds all tables of a changefeed."""
    return dg.AssetKey([feed.id, layer])


def table_asset_key(feed: Changefeed, layer: str, database: str, table: str) -> dg.AssetKey:
    """Return the key of a table in a layer that has one asset per table."""
    return dg.AssetKey(make_table_path(feed.id, layer, database, table))


def table_of(key: dg.AssetKey) -> tuple[str, str] | None:
    """Return the database and table of a key; None for the key of a whole layer."""
    return read_table_path(key.path)


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
