"""Problems: everything that was not applied exactly, reported to the operator."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from ticdc_assets.events import Position
from ticdc_assets.safe_text import escape_control
from ticdc_assets.schema.effect import ColumnAdded, ColumnChange, ColumnConverted

# "quarantined" input or a row that could not be decoded or applied
# "waiting"     a row whose table schema has not arrived
# "incomplete"  a row whose key alone is in the stream
# "approximate" rows that may differ from TiDB's because the stream lacks a detail
# "paused"      a table that applies no more events until an operator resumes it
# "checksum"    a schema file that does not match its checksum
# "history"     a history that could not be updated; its table was
# "definition"  a table whose definition could not be read upstream, or contradicts the stream
# "changes"     changes that could not be updated; their table was
# "layout"      a table that is not laid out as its owner declared
# "privacy"     columns that are left out because no list of `[changefeed.privacy]` names them
# "catalog"     a catalog, or an entry of one, that is not as the lake is
# "fold"        row events that could not be folded, or a load that lies below the fold
# "iceberg"     a table that is not published as an Iceberg table, or is not up to date there
# "corrupted"   a row that TiCDC itself marked as corrupted; it is applied all the same
Kind = Literal[
    "quarantined",
    "waiting",
    "incomplete",
    "approximate",
    "paused",
    "history",
    "changes",
    "checksum",
    "definition",
    "layout",
    "privacy",
    "catalog",
    "fold",
    "iceberg",
    "corrupted",
]


# Reasons that the reference model, the plan and the lake share.
KEY_ONLY = "the message was too large, so the stream holds only the key of this row"
_FETCH = "declare the database in [changefeed.upstream], so that the whole row is fetched from it"
# Why a table is partial, and what can be done.
CREATE_NOT_SENT = (
    "the changefeed did not send the table's CREATE: it is older than the changefeed, or was not"
    " replicated at first (a filter, no key), so rows that have not changed since are missing; to"
    " have them sent, copy the table upstream (CREATE TABLE, INSERT INTO … SELECT) and swap the"
    " names (RENAME TABLE)"
)
ROWS_OF_PARTIAL_TABLE = "EXCHANGE PARTITION gave it rows of {}.{}, which is partial"
OLD_KEY_MISSING = (
    "an UPDATE changed the key of a row, and the stream does not hold the old key; create the"
    " changefeed with old values or without output-raw-change-event"
)
OLD_ROW_MISSING = (
    "an UPDATE in a table without a key, and the stream does not hold the old row, so the changed"
    " row is unknown; create the changefeed with old values"
)
UPSERT_WITHOUT_KEY = (
    "the stream does not tell an UPDATE from an INSERT, and the table has no key by which to find"
    " the row that an UPDATE changed; create the changefeed with open.output-old-value = true"
)
UPSERT_OF_ANY_KEY = (
    "the stream does not tell an UPDATE of a key from an INSERT; create the changefeed with"
    " open.output-old-value = true or without output-raw-change-event"
)
KEY_WITHOUT_VALUE = (
    "a row has no value in {}, a column of the table's new key: the stream lacks rows or DDLs of"
    " this table; load it again"
)
KEY_OF_SEVERAL_ROWS = (
    "several rows have the same values in the table's new key, {}: the stream lacks rows or DDLs of"
    " this table; load it again"
)
TWO_VALUES = (
    "a row has values in {0} and in {1}, and a DDL renames {0} to {1}: the stream lacks DDLs of"
    " this table; load it again"
)
ROWS_IN_WRONG_PARTITIONS = (
    "EXCHANGE PARTITION WITHOUT VALIDATION may have put rows into a partition they do not belong"
    " to, so the rows of this partition are unknown"
)
TIME_OF_DDL = (
    "the DDL filled existing rows with the time at which it ran, in the time zone of its session;"
    " the stream does not hold that time, so these rows get the commit time, in ddl-time-zone of"
    " the changefeed or else in UTC: column "
)
ZONE_OF_DDL = (
    "the DDL computed existing rows in the time zone of its session, which the stream does not"
    " hold, so these rows are computed in UTC; set ddl-time-zone of the changefeed, then rebuild"
    " the table: column "
)
NOT_COVERED = (
    "it was loaded as of {}, and the first event of the changefeed is of {}, so changes between"
    " them may be missing; if the changefeed's start-ts is not after the load, declare start-ts,"
    " then rebuild the table"
)
ROWS_NOT_LOADED = "{} rows of the load as of {} are in the quarantine"
LOADED_IN_DDL = (
    "{}; the table was loaded as of {}: if TiDB was in the middle of this statement then, load it"
    " as of a later TSO"
)
NOT_DEFINED = (
    "its definition upstream contradicts what the changefeed sent, so its schema stays as the"
    " stream shows it: {}"
)
HELD_BACK = "row events are kept for longer than keep-events-days says: {}"
REPLACED_BY_LOAD = "replaced by the load as of {}"
UNKNOWN_MEMBERS = (
    "no DDL or schema has named the members of this {}, so its values stay numbers: column {}"
)


def explain_key_only(upstream: str | None) -> str:
    """Say why a row has only its key, and what can be done (`RowChange.upstream`)."""
    return f"{KEY_ONLY}; {upstream or _FETCH}"


# Kinds of problems that concern no row of a table as TiDB has it.
_ABOUT_OTHERS = ("corrupted", "definition", "layout", "privacy", "catalog", "fold", "iceberg")


class Problem(Struct, frozen=True):
    """Something an operator should know about."""

    kind: Kind
    reason: str
    database: str = ""
    table: str = ""
    commit_ts: int | None = None
    position: Position | None = None

    @property
    def data_may_differ(self) -> bool:
        """Whether a table may differ from TiDB's because of this problem."""
        return self.kind not in _ABOUT_OTHERS

    def describe(self) -> str:
        """Describe the problem on one line: kind, table, commit ts, position and reason."""
        table = f"{self.database}.{self.table}" if self.table else ""
        position = str(self.position) if self.position is not None else ""
        place = describe_place(table, self.commit_ts, position)
        text = f"{self.kind}: {place}: {self.reason}" if place else f"{self.kind}: {self.reason}"
        return escape_control(text)


def describe_place(table: str, commit_ts: int | None, position: str) -> str:
    """Describe where a problem is; table and position may be empty."""
    ts = f"commit ts {commit_ts}" if commit_ts is not None else ""
    return ", ".join(part for part in (table, ts, position) if part)


def list_approximations(changes: Iterable[ColumnChange]) -> list[str]:
    """Say in which columns existing rows may differ from TiDB's after a DDL."""
    by_time, by_zone = [], []
    for change in changes:
        match change:
            case ColumnAdded(column) if column.default_is_expression:
                by_time.append(column.name)
            case ColumnAdded(column) if change.assumes_utc:
                by_zone.append(column.name)
            case ColumnConverted(name) if change.assumes_utc:
                by_zone.append(name)
    found = ((TIME_OF_DDL, by_time), (ZONE_OF_DDL, by_zone))
    return [reason + ", ".join(names) for reason, names in found if names]
