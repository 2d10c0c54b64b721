"""Entries of catalogs: what they should be, and what a catalog must be able to do with them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ticdc_assets.errors import CatalogError
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.log.named_tables import describe_address
from ticdc_assets.rows.columns import (
    list_comments,
)
from ticdc_assets.store.delta_log import TableState

# The property that says whose an entry is.
OWNER = "ticdc.changefeed"
# The properties of an address that an entry has, too.
_PROPERTIES = (
    OWNER,
    "ticdc.table",
    "ticdc.status",
    "ticdc.primary_key",
    "ticdc.incarnation",
    "ticdc.resolved_ts",
)
# By which engines know a Delta table.
DELTA_PROPERTIES = {
    "EXTERNAL": "TRUE",
    "table_type": "DELTA",
    "spark.sql.sources.provider": "delta",
}
# What Spark writes for Delta tables: no engine reads them by these, and some require them.
INPUT_FORMAT = "org.apache.hadoop.mapred.SequenceFileInputFormat"
OUTPUT_FORMAT = "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat"
SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
# The types of Delta's logs that Hive calls otherwise.
_HIVE_TYPES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    # Engines read the type from Delta's log; Hive's has no time zone anyway.
    "timestamp_ntz": "timestamp",
}

# A database and a table, as a catalog names them.
EntryName = tuple[str, str]


@dataclass(frozen=True)
class EntryColumn:
    name: str
    # As Hive writes types.
    type: str
    comment: str


@dataclass(frozen=True)
class Entry:
    """A table as a catalog should have it."""

    database: str
    name: str
    # The address, as a URI.
    location: str
    comment: str
    columns: tuple[EntryColumn, ...]
    properties: Mapping[str, str]

    @property
    def database_comment(self) -> str:
        """What a database says of itself that is made for this entry."""
        return f"tables of TiDB, by changefeed {self.properties[OWNER]}"

    @property
    def database_properties(self) -> Mapping[str, str]:
        return {OWNER: self.properties[OWNER]}


@dataclass(frozen=True)
class FoundEntry:
    """What a catalog has under a name."""

    location: str
    properties: Mapping[str, str]


class Catalog(Protocol):
    """A catalog; each call may raise a `CatalogError`, or `CatalogDown` if none will work."""

    @property
    def kind(self) -> str: ...

    @property
    def place(self) -> str:
        """Where the catalog is: what was registered elsewhere is not here."""

    @property
    def rule(self) -> str:
        """By what names are mapped: an owner may change it."""

    def map_name(self, database: str, table: str) -> EntryName:
        """Map a table's name to that of its entry; raise a `CatalogError` if it cannot have one."""

    def locate(self, address: str) -> str:
        """Return the URI of an address as the catalog's readers name it."""

    def list_databases(self) -> dict[str, Mapping[str, str]]:
        """List all databases with their properties."""

    def list_entries(self, database: str) -> dict[str, FoundEntry]:
        """List all entries of a database; none if there is no such database."""

    def find(self, name: EntryName) -> FoundEntry | None: ...

    def create(self, entry: Entry) -> None:
        """Create an entry, and its database if there is none."""

    def replace(self, entry: Entry, found: FoundEntry) -> None:
        """Replace an entry; properties that other people added stay."""

    def drop(self, name: EntryName) -> None: ...


def make_entry(name: EntryName, location: str, schema: TableSchema, address: TableState) -> Entry:
    """Make the entry of a table from its schema and the state at its address."""
    comments = list_comments(schema)
    columns = tuple(
        EntryColumn(field["name"], write_hive_type(field["type"]), comments.get(field["name"], ""))
        for field in json.loads(address.schema)["fields"]
    )
    stated = address.properties
    properties = {key: stated[key] for key in _PROPERTIES if key in stated}
    comment = describe_address(schema, stated[OWNER])
    return Entry(*name, location, comment, columns, properties)


def write_hive_type(type: Any) -> str:
    """Write a type of a Delta log's schema as Hive does."""
    match type:
        case str():
            return _HIVE_TYPES.get(type, type)
        case {"type": "array", "elementType": element}:
            return f"array<{write_hive_type(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{write_hive_type(key)},{write_hive_type(value)}>"
        case _:
            raise CatalogError(f"a column has the type {type!r}, which current tables do not have")
