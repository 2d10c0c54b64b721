"""Which Delta features a current table has: only those that its columns and its size need.

A reader that lacks one of a table's features does not open the table, so a table is created plain,
and a feature is switched on by the first change that cannot do without it:

- `timestampNtz` by a DATETIME column;
- column mapping by a name with a space or one of `,;{}()=`, and in a large table by RENAME or DROP
  COLUMN;
- type widening by a wider type in a large table;
- deletion vectors and clustering once the table is large.

A small table is written whole instead, in one commit.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from deltalake.exceptions import DeltaError

from ticdc_assets.events import TableSchema
from ticdc_assets.plan.layout import PLAIN, Layout
from ticdc_assets.rows.columns import DeltaColumn, choose_delta_names, list_delta_columns
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.open_table import open_table
from ticdc_assets.store.reader import measure_files
from ticdc_assets.store.sql import delta_table, quote_identifier
from ticdc_assets.store.tables import CHECKPOINTS

# A table of more bytes is large: merging 50 rows into one of this size takes as long as writing it
# again, and a sixth of the storage.
LARGE_TABLE = 1 << 20

# A larger one is written again if a window changes this share of its rows, unless it is this many
# times as large: each version that is written whole remains until maintenance removes it.
_ROWS_PER_CHANGE = 200
_LARGEST_REWRITTEN = 256

PLAIN_PROPERTIES = {
    # Snapshots name Delta versions, so only `maintain` decides which versions may go.
    "delta.logRetentionDuration": "interval 3650 days",
    **CHECKPOINTS,
}
DELETION_VECTORS = {"delta.enableDeletionVectors": "true"}
COLUMN_MAPPING = {"delta.columnMapping.mode": "name"}
TYPE_WIDENING = {"delta.enableTypeWidening": "true"}
# Only tables of older lakes have it.
CHANGE_DATA_FEED = {"delta.enableChangeDataFeed": "true"}
_NTZ_FEATURE = "timestampNtz"
_NTZ_PROPERTY = {f"delta.feature.{_NTZ_FEATURE}": "supported"}
# Characters that Delta takes in a column's name with column mapping only.
_MAPPED_CHARACTERS = frozenset(" ,;{}()\n\t=")
# Delta clusters by columns with statistics: not by these types of keys, and only the first columns.
_UNCLUSTERED = ("binary", "array", "boolean", "timestamp_ntz")
_WITH_STATISTICS = 32
_MOST_CLUSTERED = 4


@dataclass(frozen=True)
class TableDetail:
    """What Delta's log says of a table now; `size` is in bytes."""

    size: int
    properties: Mapping[str, str]
    features: Collection[str]

    @property
    def is_large(self) -> bool:
        return self.size > LARGE_TABLE

    @property
    def has_deletion_vectors(self) -> bool:
        return self.has(DELETION_VECTORS)

    def has(self, properties: Mapping[str, str]) -> bool:
        """Whether the table has these properties, or the feature that one stands for."""
        if properties == _NTZ_PROPERTY:
            return _NTZ_FEATURE in self.features
        return all(self.properties.get(name) == value for name, value in properties.items())


def is_rewritten(size: int, rows: int, changes: int, *, by_spark: bool) -> bool:
    """Whether a table of some bytes and rows is written again as a whole for some changes.

    `by_spark`: that takes Spark, so that a MERGE costs less.
    """
    if size <= LARGE_TABLE:
        return True
    is_not_too_large = size <= _LARGEST_REWRITTEN * LARGE_TABLE
    return not by_spark and is_not_too_large and rows <= _ROWS_PER_CHANGE * changes


def read_table_detail(lake: LakeSession, table: str) -> TableDetail:
    """Read the newest state of a table."""
    path = lake.path(table)
    # Spark then meets the same problem, and raises the error that callers expect.
    with suppress(DeltaError, OSError):
        opened = open_table(path)
        protocol = opened.protocol()
        features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
        return TableDetail(measure_files(opened).size, opened.metadata().configuration, features)
    columns = ("sizeInBytes", "properties", "tableFeatures")
    detail = lake.spark.sql(f"DESCRIBE DETAIL {delta_table(path)}").select(*columns).collect()[0]
    return TableDetail(detail[0], detail[1], detail[2])


def list_needed_properties(columns: Iterable[DeltaColumn]) -> list[Mapping[str, str]]:
    """List the properties that Delta requires for columns."""
    columns = list(columns)
    needed: list[Mapping[str, str]] = []
    if any(column.type == "timestamp_ntz" for column in columns):
        needed.append(_NTZ_PROPERTY)
    if any(not _MAPPED_CHARACTERS.isdisjoint(column.name) for column in columns):
        needed.append(COLUMN_MAPPING)
    return needed


def choose_new_properties(columns: Iterable[DeltaColumn]) -> dict[str, str]:
    """Choose the properties of a new table with these columns."""
    properties = dict(PLAIN_PROPERTIES)
    for needed in list_needed_properties(columns):
        properties |= needed
    return properties


def list_clustering_columns(schema: TableSchema, layout: Layout = PLAIN) -> list[str]:
    """List the columns to cluster by: that of the layout, or those of the key that Delta takes."""
    columns = list_delta_columns(schema, layout)[:_WITH_STATISTICS]
    chosen = [c.name for c in columns if c.column == layout.cluster_by]
    if chosen:
        return chosen
    names = choose_delta_names(schema)
    key = {names[c.name] for k in schema.key if (c := schema.column(k)) and c.name in names}
    by = [c.name for c in columns if c.name in key and not c.type.startswith(_UNCLUSTERED)]
    return by[:_MOST_CLUSTERED]


def format_clustering(schema: TableSchema, layout: Layout = PLAIN) -> str:
    """Format the clause that clusters a table."""
    by = ", ".join(map(quote_identifier, list_clustering_columns(schema, layout)))
    return f"CLUSTER BY ({by})" if by else "CLUSTER BY NONE"
