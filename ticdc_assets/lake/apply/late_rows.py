"""Rows that arrived late: at or before a ts that was applied already, and for the first time."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.lake.apply.control_events import ControlEvents
from ticdc_assets.lake.apply.pending_rows import are_same_events
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.replay import LateRows
from ticdc_assets.store.contracts import EVENT_IDENTITY

# A sender that repeats everything is compared in pieces, by commit ts.
_ROWS_AT_ONCE = 500_000


def find_late_rows(control: ControlEvents, snapshot: Snapshot, batch: int) -> list[LateRows]:
    """Find tables with rows that arrived after the snapshot's ts, at or before it, and were new.

    A row that had arrived before is a repetition and changes nothing.  A new one was held back by
    something that has been mended since.
    """
    events = control.events
    kind, ts, arrived = map(pc.field, ("kind", "commit_ts", "batch"))
    is_new = (kind == "row") & (arrived > snapshot.batch) & (arrived <= batch)
    is_late = is_new & (pc.field("ordering") == "commit_ts") & (ts <= snapshot.ts)
    # What those below a fold may repeat is gone.
    is_late &= ts > control.fold.through_ts
    times = events.read("events", "commit_ts", where=is_late)["commit_ts"]
    first: dict[tuple[str, str], int] = {}
    for low, high in _cut(times):
        within = (ts >= low) & (ts <= high)
        late = events.read("events", *EVENT_IDENTITY, "database", "table", where=is_late & within)
        named = pc.field("name").isin(pc.unique(late["name"]))
        before = (kind == "row") & (arrived <= snapshot.batch) & within & named
        known = events.read("events", *EVENT_IDENTITY, where=before)
        found = late.filter(pc.invert(are_same_events(late, known)))
        least = found.group_by(["database", "table"]).aggregate([("commit_ts", "min")])
        for row in least.to_pylist():
            first.setdefault((row["database"], row["table"]), row["commit_ts_min"])
    return [LateRows(*name, ts) for name, ts in first.items()]


def _cut(times: pa.ChunkedArray) -> Iterator[tuple[int, int]]:
    """Cut commit ts into ranges of a bounded number of rows, in ascending order."""
    ordered = times.take(pc.sort_indices(times))
    low = 0
    for end in range(_ROWS_AT_ONCE, len(ordered) + _ROWS_AT_ONCE, _ROWS_AT_ONCE):
        high = ordered[min(end, len(ordered)) - 1].as_py()
        if high >= low:
            yield low, high
        low = high + 1
