"""A window of a lake, planned: from a line of `applied` to a ts, without anything being written."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from msgspec.structs import replace
from pyspark.sql import DataFrame

from ticdc_assets.events import SchemaChange
from ticdc_assets.lake.apply.control_events import ControlEvents, StatedSchemas
from ticdc_assets.lake.apply.current_table import CurrentTable
from ticdc_assets.lake.apply.frames import Frames
from ticdc_assets.lake.apply.pending_rows import Window, group_rows, sample_row, select_pending_rows
from ticdc_assets.lake.log.applied import Snapshot
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.plan.plan import Plan, WindowEvents, make_plan
from ticdc_assets.plan.row_group import UndecodedFiles
from ticdc_assets.plan.row_schema import StreamRules
from ticdc_assets.plan.state import DdlName
from ticdc_assets.protocols.registry import get_ordering, get_traits

_FEW_ROWS = 100_000


@dataclass(frozen=True)
class PreparedWindow:
    """What the tables have to go through, and their rows on the way."""

    start: Snapshot
    span: Window
    plan: Plan
    frames: Frames
    # How many row events are due.
    rows: int


def prepare_window(
    lake: LakeSession,
    start: Snapshot,
    control: ControlEvents,
    *,
    ts: int,
    batch: int,
    ddls: Sequence[SchemaChange] | None = None,
    skipped: Sequence[tuple[int, DdlName]] | None = None,
    missing: Collection[UndecodedFiles] = (),
) -> PreparedWindow:
    """Plan the way from a line to a ts; `control` is what was said since that line."""
    span = Window(start.ts, start.batch, ts, batch)
    in_milliseconds = get_ordering(lake.feed) == "milliseconds"
    rows = select_pending_rows(lake, span, in_milliseconds=in_milliseconds)
    redecode = get_traits(lake.feed).redecode
    may_lack = lake.feed.output_raw_change_event or lake.feed.force_replicate
    window = WindowEvents(
        ts=ts,
        ddls=tuple(ddl for ddl in (control.ddls if ddls is None else ddls) if ddl.commit_ts <= ts),
        bootstraps=control.bootstraps,
        row_groups=tuple(group_rows(rows, old_values_may_lack=may_lack)),
        undecoded_files=tuple(missing),
        more_may_come=control.more_may_come and ts == control.resolved_ts,
    )
    count = sum(like.rows for like in window.row_groups)
    if 0 < count <= _FEW_ROWS:
        # To find them anew in `events` for each table takes longer than to keep them.
        rows = rows.localCheckpoint()
    state = start.state if skipped is None else replace(start.state, skipped_ddls=list(skipped))
    stated = StatedSchemas(lake, control)
    rules = StreamRules(lake.feed.keys, redecode)
    made = make_plan(state, window, rules, stated, lambda like: sample_row(rows, like))

    def before(incarnation: str) -> DataFrame | None:
        version = start.versions.get(incarnation)
        if version is None:
            return None
        return CurrentTable(lake, incarnation).rows(version)

    frames = Frames(lake, span, rows, made.work, before, redecode)
    return PreparedWindow(start, span, made, frames, count)
