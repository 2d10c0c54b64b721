"""What a changefeed on topics keeps waiting for, in words that say what to do about it."""

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.events.tso import physical_ms
from ticdc_assets.plan.state import State
from ticdc_assets.safe_text import escape_control
from ticdc_assets.stream.resolved_ts import ResolvedTsTracker

# In Simple, TiCDC repeats every schema each two minutes by default.
_PATIENCE_MS = 10 * 60_000
_ADVICE = (
    "in the changefeed's file set send-bootstrap-interval-in-sec and send-bootstrap-in-msg-count of"
    " [sink] above 0, or send-all-bootstrap-at-start = true, and resume the changefeed"
)


def describe_waits(feed: Changefeed, state: State) -> list[str]:
    """Name the partitions without a watermark, and the tables that miss their schema for long."""
    if feed.transport == "storage":
        return []
    tracker = ResolvedTsTracker(feed)
    tracker.restore(state.watermarks)
    waits = [
        f"waiting for the first watermark of {partition}"
        for partition in tracker.find_silent_partitions()
    ]
    # Before its first window, a lake waits for nothing.
    begun = min(state.watermarks.first_seen.values(), default=state.ts)
    for name, since in _find_waiting_tables(state):
        waited = physical_ms(state.ts) - physical_ms(max(since, begun))
        if waited >= _PATIENCE_MS:
            minutes = waited // 60_000
            waits.append(
                f"{escape_control(name)} has had no schema for {minutes} minutes: {_ADVICE}"
            )
    return waits


def _find_waiting_tables(state: State) -> list[tuple[str, int]]:
    """Return the tables that wait for a schema, each with the ts up to which it is complete."""
    tables = [
        (f"{table.schema.database}.{table.schema.table}", table.complete_ts or 0)
        for table in state.incarnations.values()
        if table.status == "waiting"
    ]
    return tables + [(f"{u.database}.{u.table}", u.stopped_ts) for u in state.unknown_tables]
