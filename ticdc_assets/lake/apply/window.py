"""Prepare a window: select its pending rows and plan the work of each table; write nothing."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from ticdc_assets.lake.apply.control_events import ControlEvents, StatedSchemas
from ticdc_assets.lake.apply.engine import Engine
from ticdc_assets.lake.apply.event_weights import EventWeights, weigh_events
from ticdc_assets.lake.apply.pending_rows import (
    PendingRows,
    Window,
    find_pending_rows,
    sample_row,
)
from ticdc_assets.lake.apply.row_groups import GroupOptions, list_groups, summarize
from ticdc_assets.log.named_tables import find_true_ts
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.ddl_cuts import find_cuts
from ticdc_assets.plan.plan import Plan, WindowEvents, make_plan
from ticdc_assets.protocols.registry import get_ordering, get_traits
from ticdc_assets.store.delta_log import count_newest_rows
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import StoredRows
from ticdc_assets.store.work_size import count_little
from ticdc_assets.stream.rules import make_rules

# What this process holds of a window's rows.
_FEW_ROWS = 100_000
_FEW_BYTES = 64 << 20


@dataclass(frozen=True)
class PreparedWindow:
    """A planned window: the snapshot it starts from, its pending rows and its plan.

    The snapshot has the tables that loads begin, too.
    """

    lake: LakeSession
    start: Snapshot
    rows: PendingRows
    # How many there are.
    row_count: int
    weights: EventWeights
    plan: Plan
    engine: Engine

    @cached_property
    def may_lack_changes(self) -> bool:
        """Whether a change was left out, so that an insert may be of a key that is still there."""
        lake = self.lake
        if lake.feed.may_lack_deletes or self.start.state.skipped_ddls:
            return True
        return count_newest_rows(LakeReader(lake.location), "quarantine") > 0

    def find_ts(self, id: str) -> int:
        """Return the ts at which a table has exactly the rows of upstream after the window."""
        state = self.plan.state
        return find_true_ts(state.incarnations[id], state.ts)

    def find_start_ts(self, id: str) -> int:
        """Return the same of its start."""
        table = self.start.state.incarnations.get(id)
        if table is None:
            # A load of this window began it.
            return self.plan.state.incarnations[id].created_ts
        return find_true_ts(table, self.start.ts)


# Parameters: the lake and what it knows, and how far the window goes.
def prepare_window(
    lake: LakeSession,
    start: Snapshot,
    control: ControlEvents,
    ts: int,
    batch: int,
    *,
    is_written: bool = False,
) -> PreparedWindow:
    """Plan the window from a snapshot to a ts; `control` has what arrived since the snapshot.

    `is_written`: tables are written, so that they get the layouts that are declared now.
    """
    feed = lake.feed
    window = Window(start.ts, start.batch, ts, batch, control.fold)
    in_milliseconds = get_ordering(feed) == "milliseconds"
    rows = find_pending_rows(lake.location, control.events, window, in_milliseconds=in_milliseconds)
    weights = weigh_events(lake.location, rows.files)
    if weights.total <= count_little(lake, _FEW_ROWS) and rows.files.size <= _FEW_BYTES:
        rows = rows.hold()
    stream_rules = make_rules(feed)
    ddls = tuple(ddl for ddl in control.ddls if ddl.commit_ts <= ts)
    loads = tuple(load for load in control.loads if load.ts <= ts)
    definitions = tuple(each for each in control.definitions if each.ts <= ts)
    options = GroupOptions(
        old_values_may_lack=stream_rules.old_values_may_lack,
        inserts_are_certain=get_traits(feed).has_certain_inserts(feed),
        has_checksums=stream_rules.has_checksums,
    )
    cuts = find_cuts(ddls, start.ts, (*loads, *definitions))
    summaries = rows.map(lambda some: summarize(some, cuts, options), options.columns)
    groups = list_groups(chain.from_iterable(summaries))
    events = WindowEvents(
        ts=ts,
        ddls=ddls,
        bootstraps=control.bootstraps,
        row_groups=tuple(groups),
        undecoded_files=control.undecoded_files,
        loads=loads,
        definitions=definitions,
        covered_from=control.covered_from,
        more_may_come=control.more_may_come and ts == control.resolved_ts,
        layouts=feed.layouts if is_written else None,
    )
    schemas = StatedSchemas(control)
    plan = make_plan(
        start.state, events, stream_rules, schemas.find, lambda group: sample_row(rows, group)
    )
    loaded = {load.incarnation: load.version for load in loads}
    start = replace(start, versions={**start.versions, **loaded})
    count = sum(group.rows for group in groups)
    engine = Engine(
        lake.location,
        rows,
        stream_rules.redecode,
        updates_split=not feed.output_raw_change_event,
    )
    return PreparedWindow(lake, start, rows, count, weights, plan, engine)


def has_files(lake: LakeSession, snapshot: Snapshot, incarnation: str) -> bool:
    """Whether a table is still as it was at an old snapshot, if it was there."""
    version = snapshot.versions.get(incarnation)
    reader = LakeReader(lake.location)
    return version is None or StoredRows(reader, f"current/{incarnation}", version).has_files
