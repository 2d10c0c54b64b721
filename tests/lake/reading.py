"""Read tables as the commands do: at a snapshot in process, else with Spark.

At a snapshot Spark reads some of the tables too: the lines are the same, byte for byte.
"""

from zlib import crc32

from ticdc_assets.lake.columns.conversion import format_rows
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.lake.views.asof import AsOfView
from ticdc_assets.lake.views.snapshot_view import view_snapshot
from ticdc_assets.plan.state import Incarnation

# Spark reads one of this many tables.
_ONE_OF = 6


def read_lines(lake: LakeSession, shown: AsOfView, table: Incarnation) -> list[bytes]:
    """Return the rows of a table as lines."""
    seen = view_snapshot(LakeReader(lake.location), shown.ts)
    if seen is None:
        return list(shown.lines(table))
    assert seen.tables() == shown.tables()
    assert seen.why_spark(table) is None
    lines = list(seen.lines(table))
    if crc32(f"{table.id} {shown.ts}".encode()) % _ONE_OF == 0:
        rows = shown.rows(table)
        formatted = [] if rows is None else format_rows(rows, table.schema).collect()
        assert [row[0].encode() + b"\n" for row in formatted] == lines
    return lines
