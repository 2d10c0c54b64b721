"""Read tables with Spark and without: the lines are the same, byte for byte."""

from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.lake.views.asof import AsOfView
from ticdc_assets.lake.views.snapshot_view import view_snapshot
from ticdc_assets.plan.state import Incarnation


def read_lines(lake: LakeSession, shown: AsOfView, table: Incarnation) -> list[bytes]:
    """Return the rows of a table as Spark reads them; at a snapshot, read them in process too."""
    lines = list(shown.lines(table))
    seen = view_snapshot(LakeReader(lake.location), shown.ts)
    if seen is not None:
        assert seen.tables() == shown.tables()
        assert seen.why_spark(table) is None
        assert list(seen.lines(table)) == lines
    return lines
