"""Read tables as the commands do, and some with Spark, or by name: the lines are the same."""

from zlib import crc32

from tests.reading.printed import print_rows
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.reading import PinnedTable
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.views.asof import AsOfView
from ticdc_assets.views.large_tables import format_lines

# Spark reads one of this many tables; four others are read by name.
_ONE_OF = 24
_ROWS_PER_PART = 20


def read_lines(lake: LakeSession, shown: AsOfView, table: Incarnation) -> list[bytes]:
    """Return the rows of a table as lines."""
    assert shown.why_spark(table) is None
    lines = list(shown.lines(table))
    number = crc32(f"{table.id} {shown.ts}".encode()) % _ONE_OF
    if number == 0:
        assert read_with_spark(shown, table) == lines
    if 1 <= number <= 4 and not table.is_stopped:
        assert print_rows(PinnedTable(shown, table)) == lines
    return lines


def read_with_spark(shown: AsOfView, table: Incarnation, *, by_key: bool = False) -> list[bytes]:
    """Return the rows of a table as lines, as if the table were large."""
    # Of a stopped table, `frame` does not get so far.
    frame = None if table.is_stopped else shown._read_in_workers(table, _ROWS_PER_PART)
    return [] if frame is None else list(format_lines(frame, table.schema, by_key=by_key))
