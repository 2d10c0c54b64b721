"""Records of topics that are gone before they were read: which tables lack rows because of them.

TiCDC creates a table in the stream before it sends its rows, and sends a watermark up to the CREATE
first.  So records that preceded a partition's watermark held no rows of tables that were created
after it.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from ticdc_assets.plan.state import Gap, State, mark_partial


def mark_gaps(state: State, gaps: Sequence[Gap]) -> State:
    """Remember gaps for good, and mark the tables that may lack rows as partial."""
    tables = dict(state.incarnations)
    for gap in gaps:
        for id, table in tables.items():
            if gap.until is None or table.created_ts <= gap.until:
                tables[id] = mark_partial(table, gap.reason)
    return replace(state, incarnations=tables, gaps=list(gaps)) if gaps else state


def end_gap(gap: Gap, place: tuple[str, int], seq: int, watermark: int) -> Gap:
    """End a gap at a watermark, if that is the first one behind it in its partition."""
    if gap.until is not None or (gap.topic, gap.partition) != place or seq <= gap.seq:
        return gap
    # The CREATE of the ts after a watermark may have been sent before it.
    return replace(gap, until=watermark + 1)
