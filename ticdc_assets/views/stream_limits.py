"""What the stream of a changefeed cannot hold, by its settings and by the rows that came."""

from typing import get_args

import pyarrow.compute as pc

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.events import Ordering
from ticdc_assets.protocols.registry import get_ordering
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeNotFound, LakeReader
from ticdc_assets.stream.limits import describe_limits


def describe_lake_limits(feed: Changefeed, location: Lake) -> list[str]:
    """Describe the limits of a changefeed, and what the rows in its lake show of them."""
    declared = get_ordering(feed)
    return describe_limits(feed, set() if declared == "commit_ts" else _find_orderings(location))


def _find_orderings(location: Lake) -> set[Ordering]:
    """Find how the order of the rows in `events` is known; nothing of a lake that is not there."""
    reader, is_row = LakeReader(location), pc.field("kind") == "row"
    try:
        events = reader.open("events")
    except LakeNotFound:
        return set()

    def occurs(ordering: Ordering) -> bool:
        # The statistics of most files exclude all orderings but one.
        condition = is_row & (pc.field("ordering") == ordering)
        return any(block.num_rows for block in reader.read_blocks(events, ["kind"], condition))

    return {ordering for ordering in get_args(Ordering) if occurs(ordering)}
