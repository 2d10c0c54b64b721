"""What the model could not honour, or could not be sure of: never left unsaid."""

from typing import Literal

from msgspec import Struct

from ticdc_assets.events import Position

# "quarantined"    input or a row that is not what it should be
# "waiting"     a row whose table's schema has not been seen
# "incomplete"  a row of which the stream holds only the key
# "approximate" rows that are as near to upstream's as the stream allows, and no nearer
# "paused"      a table that cannot be kept right from here on
# "checksum"    a row or schema file that is not the one its checksum was computed from
# "corrupted"   a row that TiCDC itself marked; it is applied all the same
Kind = Literal[
    "quarantined", "waiting", "incomplete", "approximate", "paused", "checksum", "corrupted"
]


# What the model, the plan and the lake say alike.
KEY_ONLY = "the message was too large: only the row's key is in the stream"
OLD_KEY_MISSING = (
    "an update of a row that is not there: it changed the row's key, and the old one is not in the"
    " stream; create the changefeed with old values or without output-raw-change-event"
)
OLD_ROW_MISSING = (
    "an update in a table without a key, and the old row is not in the stream: it cannot be told"
    " which row changed; create the changefeed with old values"
)
ROWS_IN_WRONG_PARTITIONS = (
    "rows were exchanged into it that belong in other partitions (WITHOUT VALIDATION), so which"
    " rows this concerns cannot be told"
)
TIME_OF_DDL = (
    "rows that were there got the time at which the statement ran as a default, in its session's"
    " time zone; that is not in the stream, and they have the commit time in UTC instead: column "
)
UNKNOWN_MEMBERS = (
    "no statement or schema has named the members of this {}, so its values stay numbers: column {}"
)


class Problem(Struct, frozen=True):
    """One thing that a person should know of."""

    kind: Kind
    reason: str
    database: str = ""
    table: str = ""
    commit_ts: int | None = None
    position: Position | None = None

    @property
    def data_may_differ(self) -> bool:
        """Whether a table may differ from TiDB's for it."""
        return self.kind != "corrupted"

    def describe(self) -> str:
        """The problem as a person reads it."""
        what = f"{self.database}.{self.table}" if self.table else ""
        when = f"commit ts {self.commit_ts}" if self.commit_ts is not None else ""
        where = str(self.position) if self.position is not None else ""
        place = ", ".join(part for part in (what, when, where) if part)
        said = f"{self.kind}: {place}: {self.reason}" if place else f"{self.kind}: {self.reason}"
        return said.replace("\r", "\\r").replace("\n", "\\n")
