"""The vocabulary every protocol speaks.

Rules of this room: values only, frozen; no bytes are read here, nothing is looked up, nothing is
logged.  It imports no other room of the project.
"""

from ticdc_assets.events.event import (
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
    Column,
    ColumnType,
    Index,
    Partition,
    Partitioning,
    TableSchema,
)

__all__ = [
    "Bootstrap",
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
