"""The vocabulary of every protocol.

Rules of this room: frozen values only.  It reads no protocol, opens and logs nothing, and imports
only `errors`.
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
