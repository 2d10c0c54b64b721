"""What a run reports: everything that changed since the last report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.lake.advance import AdvanceResult
from ticdc_assets.log.applied_row import AppliedRow
from ticdc_assets.log.catalog import LakeCatalog, TableChange, table_changes
from ticdc_assets.resources.catalog import read_catalog
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.preview import Preview, PreviewedTable, preview_tables

# A run previews at most this many tables.
_MAX_PREVIEWS = 20


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """The lake before and after, with the snapshots written in between."""

    feed: Changefeed
    lake: Lake
    # What was reported last: of a lake that was never reported, nothing.
    before: LakeCatalog
    after: LakeCatalog
    snapshots: Sequence[AppliedRow]
    seconds: float

    def find_table_changes(self) -> dict[str, TableChange]:
        """Return the tables that changed, by incarnation."""
        return table_changes(self.before, self.after, self.snapshots)


@dataclass(frozen=True, kw_only=True)
class AdvanceReport(RunReport):
    """The report of a run that advanced, with what its stages did."""

    result: AdvanceResult
    # Which session of Spark it used.
    session: str
    # What the changefeed keeps waiting for.
    waits: Sequence[str] = ()

    @property
    def is_idle(self) -> bool:
        """Whether nothing came but watermarks, since a lake that was reported before."""
        is_first = not self.before.snapshot_id
        return self.result.is_idle and not is_first and not self.find_table_changes()


@dataclass(frozen=True)
class LastReport:
    """Which lake the last report is about, and the Delta versions of the lake's own tables."""

    lake_id: str
    versions: Mapping[str, int]


def read_reported_catalog(lake: Lake, last: LastReport | None, now: LakeCatalog) -> LakeCatalog:
    """Return the lake as it was last reported; empty if that is not known any more.

    Runs that were killed and commands report nothing, so the next run reports their changes too.
    """
    # A lake that was deleted and built again since has the same versions with other contents.
    if last is None or last.lake_id != now.lake_id:
        return LakeCatalog()
    reported = read_catalog(lake, last.versions)
    # Versions that were removed are replaced by the newest: there, nothing would be left to report.
    return reported if reported.read_at == last.versions else LakeCatalog()


def preview_changed_tables(
    lake: LakeSession, changes: Mapping[str, TableChange], rows: int
) -> dict[str, Preview]:
    """Read a few rows, and the row count, of the tables with the most changes."""
    existing = [c for c in changes.values() if c.version is not None and not c.dropped]
    existing.sort(key=lambda change: -change.counts.read)
    tables = {
        change.table.incarnation: PreviewedTable(change.table.schema, change.version)
        for change in existing[:_MAX_PREVIEWS]
        if change.version is not None and change.table.schema is not None
    }
    return preview_tables(LakeReader(lake.location), tables, rows)
