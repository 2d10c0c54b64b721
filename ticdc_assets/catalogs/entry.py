"""Entries of catalogs: what they should be, and what a catalog must be able to do with them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ticdc_assets.errors import CatalogError
from ticdc_assets.store.uris import format_uri

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

# The property that says whose an entry is.
OWNER = "ticdc.changefeed"
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
# The types of Delta's logs that Spark's SQL calls otherwise.
SQL_TYPES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_HIVE_TYPES = {
    **SQL_TYPES,
    # Engines read the type from Delta's log; Hive's has no time zone anyway.
    "timestamp_ntz": "timestamp",
}

# A database and a table, as a catalog names them.
EntryName = tuple[str, str]
# Whether a catalog has the Delta tables at the addresses, or the Iceberg tables.
Format = Literal["delta", "iceberg"]


@dataclass(frozen=True)
class EntryColumn:
    name: str
    # As Delta's log writes types.
    delta_type: Any
    is_nullable: bool
    comment: str

    @property
    def type(self) -> str:
        """The type as Hive writes it."""
        return write_type(self.delta_type, _HIVE_TYPES)


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
    # Of an Iceberg table; its columns are there.
    metadata: "TableMetadata | None" = None

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
    # All that the catalog said of it, for `replace`; None if it has to be read again.
    answer: Any = None


class Catalog(Protocol):
    """A catalog; each call may raise a `CatalogError`, or `CatalogDown` if none will work."""

    @property
    def kind(self) -> str: ...

    @property
    def format(self) -> Format: ...

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

    def list_entries(self, database: str) -> Mapping[str, FoundEntry | None]:
        """List all entries of a database; none if there is no such database.

        Of some, the catalog may say the names only.
        """

    def find(self, name: EntryName) -> FoundEntry | None: ...

    def create(self, entry: Entry) -> None:
        """Create an entry, and its database if there is none."""

    def replace(self, entry: Entry, found: FoundEntry) -> None:
        """Replace an entry; properties that other people added stay."""

    def drop(self, name: EntryName) -> None: ...


def encode_address(address: str) -> str:
    """Write an address as a URI: of S3, as all but Hadoop call it."""
    return format_uri(address) if "://" in address else Path(address).as_uri()


def write_type(type: Any, names: Mapping[str, str]) -> str:
    """Write a type of a Delta log's schema in SQL; some types have other names there."""
    match type:
        case str():
            return names.get(type, type)
        case {"type": "array", "elementType": element}:
            return f"array<{write_type(element, names)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{write_type(key, names)},{write_type(value, names)}>"
        case _:
            raise CatalogError(f"a column has the type {type!r}, which current tables do not have")
