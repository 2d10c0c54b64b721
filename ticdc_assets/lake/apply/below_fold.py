"""What arrives below a fold: nobody knows whether it is a repetition, and its place is gone.

It is quarantined, with the reason, and changes nothing: its table is loaded again if it is new.
TiCDC repeats what is newer than its checkpoint only, so a fold of weeks ago sees nothing of it.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import BelowFold
from ticdc_assets.events import SchemaChange
from ticdc_assets.lake.apply.control_events import ControlEvents
from ticdc_assets.lake.apply.quarantined_rows import write_quarantined_rows
from ticdc_assets.lake.apply.table_outcome import TableOutcome
from ticdc_assets.log.applied_row import RowCounts, TableCounts
from ticdc_assets.log.folds import Fold
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.state import DdlName, ddl_name
from ticdc_assets.rows.left_out import ORIGIN
from ticdc_assets.store.event_rows import read_statements
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import OpenTables
from ticdc_assets.stream.problem import Problem

# The columns of `events` that `quarantine_rows` takes.
QUARANTINED_COLUMNS = (*ORIGIN, "before", "after", "statement")
_ROW = (
    "it arrived below {}: whether it repeats an event that is gone cannot be known, so it is not"
    " applied; if the table lacks it, load the table again"
)
_DDL = "it arrived below {}, and changed nothing: load the tables that it concerns again"
_LOAD = "its rows are of {}, which is not above {}: load the table as of a later ts"
_DEFINITION = (
    "its definition is of {}, which is below {}, so its schema stays as the stream shows it"
)


def leave_out_below(control: ControlEvents) -> tuple[ControlEvents, list[Problem]]:
    """Leave out what no replay can begin early enough for; DDLs are for `quarantine_below`."""
    fold, problems = control.fold, []
    for load in control.late_loads:
        if load.ts <= fold.ts:
            reason = _LOAD.format(load.ts, fold.describe())
            name = load.schema.database, load.schema.table
            problems.append(Problem("fold", reason, *name, load.ts))
    for each in control.late_definitions:
        if each.ts < fold.ts:
            reason = _DEFINITION.format(each.ts, fold.describe())
            name = each.schema.database, each.schema.table
            problems.append(Problem("definition", reason, *name, each.ts))
    kept = replace(
        control,
        late_ddls=tuple(ddl for ddl in control.late_ddls if ddl.commit_ts >= fold.ts),
        late_loads=tuple(load for load in control.late_loads if load.ts > fold.ts),
        late_definitions=tuple(each for each in control.late_definitions if each.ts >= fold.ts),
    )
    return kept, problems


def quarantine_below(
    lake: LakeSession, control: ControlEvents, since: Snapshot, batch: int
) -> tuple[list[TableCounts], int]:
    """Quarantine what arrived below a fold since a snapshot: rows, and which of the late DDLs are.

    Return the counts of the rows, which are of no incarnation, and the number of DDLs.  Done
    again, it quarantines nothing twice.
    """
    fold = control.fold
    if not fold.snapshot_id:
        return [], 0
    rows: Counter[str] = Counter()
    for found in _read_rows(control, since, batch):
        rows.update(found["name"].to_pylist())
        _quarantine(lake, found, _ROW.format(fold.describe()))
    ddls = 0
    late = [ddl for ddl in control.late_ddls if ddl.commit_ts < fold.ts]
    wanted = {(ddl.commit_ts, ddl_name(ddl)) for ddl in late}
    if wanted:
        found = _read_ddls(control.events, wanted, since, batch)
        ddls = found.num_rows
        _quarantine(lake, found, _DDL.format(fold.describe()))
    counts = [
        TableCounts("", name, RowCounts(read=count, quarantined=count))
        for name, count in sorted(rows.items())
    ]
    return counts, ddls


def quarantine_rows(lake: LakeSession, fold: Fold, rows: pa.Table) -> None:
    """Quarantine rows below a fold, with the columns of `events`."""
    _quarantine(lake, rows, _ROW.format(fold.describe()))


def _read_rows(control: ControlEvents, since: Snapshot, batch: int) -> Iterator[pa.Table]:
    is_new = (pc.field("batch") > since.batch) & (pc.field("batch") <= batch)
    columns = ("name", *QUARANTINED_COLUMNS)
    where = is_new & control.fold.is_below(pc.field)
    for found in control.events.read_blocks("events", *columns, where=where):
        if found.num_rows:
            yield found


def _read_ddls(
    events: OpenTables, wanted: Collection[tuple[int, DdlName]], since: Snapshot, batch: int
) -> pa.Table:
    is_new = (pc.field("batch") > since.batch) & (pc.field("batch") <= batch)
    times = sorted({ts for ts, _ in wanted})
    where = is_new & (pc.field("kind") == "ddl") & pc.field("commit_ts").isin(times)
    columns = ("kind", *QUARANTINED_COLUMNS)
    found = events.read("events", *columns, where=where)
    changes = read_statements(found.to_pylist())
    are_wanted = [
        isinstance(each, SchemaChange) and (each.commit_ts, ddl_name(each)) in wanted
        for each in changes
    ]
    return found.filter(pa.array(are_wanted, pa.bool_()))


def _quarantine(lake: LakeSession, events: pa.Table, reason: str) -> None:
    texts = {"error": BelowFold.__name__, "reason": reason}
    columns = {name: events[name] for name in ORIGIN}
    columns |= {
        name: pa.repeat(pa.scalar(text, pa.string()), events.num_rows)
        for name, text in texts.items()
    }
    raw = pc.coalesce(events["after"], events["before"], events["statement"], "")
    rows = pa.table({**columns, "raw": raw.cast(pa.binary())})
    write_quarantined_rows(lake, [TableOutcome(quarantined=[rows])], None)
