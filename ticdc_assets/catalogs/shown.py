"""What a lake shows under names, as entries: Delta tables at addresses, or Iceberg tables."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ticdc_assets.catalogs.entry import OWNER, Entry, EntryColumn, EntryName, Format
from ticdc_assets.changefeed.table_pattern import match_table
from ticdc_assets.errors import CatalogError, ConfigError
from ticdc_assets.lake.iceberg.published import (
    FOLDER,
    Published,
    make_uri,
    name_catalog_folder,
    read_published,
)
from ticdc_assets.log.named_tables import NamedTable, describe_address, name_tables
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.rows.columns import list_comments
from ticdc_assets.safe_text import describe_error
from ticdc_assets.store.delta_log import read_newest_state
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader

if TYPE_CHECKING:
    from ticdc_assets.lake.iceberg.files import LakeFiles

# The properties of an address that an entry has, too.
_PROPERTIES = (
    OWNER,
    "ticdc.table",
    "ticdc.status",
    "ticdc.primary_key",
    "ticdc.incarnation",
    "ticdc.resolved_ts",
)


@dataclass(frozen=True)
class ShownTables:
    """The tables at the addresses."""

    lake: Lake
    snapshot_id: int
    # By address.
    tables: Mapping[str, NamedTable]
    folder: str = "current"
    # Another one if tables were made anew that are the same by the snapshot.
    born: str = ""

    def make_entry(self, name: EntryName, location: str, address: str) -> Entry:
        """Make the entry of a table; raise a `CatalogError` if it cannot have one now."""
        published = read_newest_state(LakeReader(self.lake), f"{self.folder}/{address}")
        if published is None:
            raise CatalogError(f"{self.folder}/{address} has no Delta table yet")
        schema = self.tables[address][0].schema
        comments = list_comments(schema)
        columns = tuple(
            EntryColumn(
                each["name"], each["type"], each["nullable"], comments.get(each["name"], "")
            )
            for each in json.loads(published[1].schema)["fields"]
        )
        stated = published[1].properties
        properties = {key: stated[key] for key in _PROPERTIES if key in stated}
        comment = describe_address(schema, stated[OWNER])
        return Entry(*name, location, comment, columns, properties)


@dataclass(frozen=True)
class ShownIceberg(ShownTables):
    """The tables that are Iceberg tables, too."""

    folder: str = FOLDER
    # Those that are not at the snapshot.
    unfinished: frozenset[str] = field(default=frozenset())

    @cached_property
    def _files(self) -> "LakeFiles":
        # Importing pyiceberg takes most of a second.
        from ticdc_assets.lake.iceberg.files import LakeFiles

        return LakeFiles(self.lake)

    def make_entry(self, name: EntryName, location: str, address: str) -> Entry:
        from ticdc_assets.lake.iceberg.table import IcebergTable

        if address in self.unfinished:
            raise CatalogError(f"{FOLDER}/{address} is not at the last snapshot")
        try:
            metadata = IcebergTable(self.lake, address, self._files).metadata
        except (OSError, ValueError) as error:
            reason = f"{FOLDER}/{address} cannot be read: {describe_error(error)}"
            raise CatalogError(reason) from None
        # Not in the table's folder: what a catalog needs must not go with the table.
        folder = make_uri(self.lake.path(name_catalog_folder(address)))
        properties = {**metadata.properties, "write.metadata.path": folder}
        comment = properties["comment"]
        return Entry(*name, location, comment, (), properties, metadata)


def read_shown(
    lake: Lake, snapshot: Snapshot, format: Format, iceberg: tuple[str, ...]
) -> ShownTables:
    """Read what a lake shows; raise a `ConfigError` if it does not show this snapshot.

    `iceberg` is what is declared.  What was published may be lost, which is not that nothing was.
    """
    tables = name_tables(snapshot)
    if format == "delta":
        return ShownTables(lake, snapshot.snapshot_id, tables)
    published = read_published(lake)
    is_same = published.patterns == iceberg
    if not is_same or (iceberg and published.snapshot_id != snapshot.snapshot_id):
        raise ConfigError(
            "the Iceberg tables are not at the last snapshot; the next run goes on",
            setting="catalog",
        )
    selected = {
        address: named
        for address, named in tables.items()
        if _is_published(published, address, named)
    }
    unfinished = frozenset(published.unfinished)
    id, born = snapshot.snapshot_id, published.born
    return ShownIceberg(lake, id, selected, born=born, unfinished=unfinished)


def _is_published(published: Published, address: str, named: NamedTable) -> bool:
    schema = named[0].schema
    is_selected = match_table(published.patterns, schema.database, schema.table)
    return is_selected and address not in published.absent
