"""The names of assets, ops, jobs and groups: keys, and words that Dagster accepts."""

import hashlib
import keyword
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import dagster as dg

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError
from ticdc_assets.key_parts import CHANGES as CHANGES
from ticdc_assets.key_parts import CURRENT as CURRENT
from ticdc_assets.key_parts import HISTORY as HISTORY
from ticdc_assets.key_parts import SCHEMA_HISTORY as SCHEMA_HISTORY
from ticdc_assets.key_parts import (
    decode_key_part,
    make_table_path,
    read_table_path,
)

SOURCE, RAW, EVENTS, QUARANTINE, CHECKPOINTS = LAYERS = (
    *("source", "raw", "events", "quarantine"),
    "checkpoints",
)
# The database, where it is declared.
UPSTREAM = "upstream"
# The layers made of versions, which a changefeed declares for some tables.
VERSIONS = (HISTORY, CHANGES)
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


@dataclass(frozen=True)
class Named:
    """What an asset stands for; of a layer, database and table are empty."""

    changefeed: str
    layer: str
    database: str = ""
    table: str = ""


# How the owner of a project changes an asset: its key, group, tags, owners and so on.
Translate = Callable[[dg.AssetSpec, Named], dg.AssetSpec]
# What has one asset in a layer that holds tables.
Granularity = Literal["table", "database", "layer"]


@dataclass(frozen=True)
class Shown:
    """What a project shows of a lake, and how."""

    per: Granularity = "table"
    upstream: bool = True
    histories: bool = True
    table_checks: bool = True
    translate: Translate | None = None


@dataclass(frozen=True)
class FeedNames:
    """The names of one changefeed in a project.

    `scope` begins what must be unique in a project of several lakes: the names of ops, jobs,
    sensors and resources, and the tag by which runs of a changefeed wait for each other.
    """

    feed: Changefeed
    scope: str = ""
    shown: Shown = Shown()
    # The keys that a project shows, and the assets that have them.
    _keys: dict[dg.AssetKey, dg.AssetKey] = field(default_factory=dict, compare=False, repr=False)
    _owners: dict[dg.AssetKey, dg.AssetKey] = field(default_factory=dict, compare=False, repr=False)

    @property
    def tag(self) -> str:
        """The value of the tag of runs."""
        return f"{self.scope}/{self.feed.id}" if self.scope else self.feed.id

    @property
    def identifier(self) -> str:
        """What names of ops and jobs are made of."""
        own = identifier(self.feed.id)
        # A scope has no two underscores in a row.
        return f"{self.scope}__{own}" if self.scope else own

    def layer(self, layer: str) -> dg.AssetKey:
        """Return the key of a layer that holds all tables."""
        return self.show(layer_asset_key(self.feed, layer))

    def table(self, layer: str, database: str, table: str) -> dg.AssetKey:
        """Return the key of the asset that shows a table in a layer: its own, or one of several."""
        return self.show(table_asset_key(self.feed, layer, database, table))

    def collect(self, key: dg.AssetKey) -> dg.AssetKey:
        """Return the key of the asset that stands for a table, before it is translated."""
        if self.shown.per == "table" or table_of(key) is None:
            return key
        return dg.AssetKey(key.path[: 3 if self.shown.per == "database" else 2])

    def show(self, key: dg.AssetKey) -> dg.AssetKey:
        """Return the key under which a project shows what has this key in other projects."""
        key = self.collect(key)
        if self.shown.translate is None:
            return key
        if key not in self._keys:
            # Of a table that is newer than the definitions.
            self._keys[key] = self.shown.translate(dg.AssetSpec(key), self._read(key)).key
        return self._keys[key]

    def show_check(self, key: dg.AssetCheckKey) -> dg.AssetCheckKey:
        """Return the key under which a project shows a check."""
        return dg.AssetCheckKey(self.show(key.asset_key), key.name)

    def translate(self, spec: dg.AssetSpec) -> dg.AssetSpec:
        """Return the spec of an asset of this changefeed as a project shows it.

        Raise an error if it gives it the key of another.
        """
        if self.shown.translate is None:
            return spec
        deps = [self.show(dep.asset_key) for dep in spec.deps]
        translated = self.shown.translate(spec.replace_attributes(deps=deps), self._read(spec.key))
        self._keys[spec.key] = translated.key
        other = self._owners.setdefault(translated.key, spec.key)
        if other != spec.key:
            raise same_key(translated.key)
        return translated

    def _read(self, key: dg.AssetKey) -> Named:
        id, layer, *parts = key.path
        if names := read_table_path(key.path):
            return Named(id, layer, *names)
        return Named(id, layer, *(decode_key_part(part) for part in parts))


def same_key(key: dg.AssetKey) -> ConfigError:
    """Make the error of two assets to which a translation gives one key."""
    reason = (
        f"gives several assets the key {key.to_user_string()}: name changefeed, layer, database and"
        " table in it, or set key_prefix in its place"
    )
    return ConfigError(reason, setting="translation.key")


def resource_key(scope: str, name: str) -> str:
    """Return the key of a resource of a lake: others of the project may have the plain name."""
    return f"{scope}__{name}" if scope else name
