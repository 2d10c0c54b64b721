"""What a DDL takes from the session, the database and the table it ran on."""

from datetime import tzinfo

from msgspec import Struct
from msgspec.structs import replace

from ticdc_assets.events import Column, TableSchema


class DdlContext(Struct, frozen=True):
    """What a changefeed's owner declares of all DDLs; None is unknown, and never guessed at.

    `collation` is that of utf8mb4 columns for which neither the stream nor their database states
    one.
    """

    time_zone: tzinfo | None = None
    collation: str | None = None


# What to do about a DDL whose effect on rows is uncertain.
DECLARE_TIME_ZONE = "set ddl-time-zone of the changefeed, then resume the table"
DECLARE_COLLATION = "set default-collation of the changefeed, then resume the table"


def inherit_collation(column: Column, table: TableSchema) -> Column:
    """Return a column with its table's collation, if its own DDL states none."""
    type, collation = column.type, table.collation
    if collation is None or type.collation is not None:
        return column
    if type.charset is None or not collation.startswith(f"{type.charset}_"):
        return column
    return replace(column, type=replace(type, collation=collation))
