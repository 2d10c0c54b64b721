"""The events that every protocol's decoder yields, and the table schemas that they state.

Rules: frozen values only.  This package parses no protocol, does no I/O, logs nothing, and imports
only `errors`.
"""

from ticdc_assets.events.event import (
    FETCHED,
    Bootstrap,
    Checksum,
    Event,
    Op,
    Ordering,
    Quarantined,
    RowChange,
    SchemaChange,
    Watermark,
)
from ticdc_assets.events.position import FilePosition, Position, TopicPosition
from ticdc_assets.events.table_schema import (
    Charset,
    Column,
    ColumnType,
    Index,
    Partition,
    Partitioning,
    TableSchema,
)

__all__ = [
    "FETCHED",
    "Bootstrap",
    "Charset",
    "Checksum",
    "Column",
    "ColumnType",
    "Event",
    "FilePosition",
    "Index",
    "Op",
    "Ordering",
    "Partition",
    "Partitioning",
    "Position",
    "Quarantined",
    "RowChange",
    "SchemaChange",
    "TableSchema",
    "TopicPosition",
    "Watermark",
]
