"""What a DDL takes from the session in which it ran."""

from datetime import tzinfo

from msgspec import Struct


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
