"""Read the events of a segment block by block.

A window leaves one change of a key, however many there were.  So a segment of one hot key takes no
more memory than a block of its events.
"""

from collections.abc import Iterable
from functools import partial

import pyarrow as pa

from ticdc_assets.plan.steps import ApplyRows
from ticdc_assets.protocols.registry import Redecode
from ticdc_assets.rows.changes import Segment, join_segments, read_segment
from ticdc_assets.rows.keyed import Key, keep_deciding
from ticdc_assets.rows.parts import Part


def read_blocks(blocks: Iterable[pa.Table], step: ApplyRows, redecode: Redecode | None) -> Segment:
    """Read all changes of a segment."""
    return join_segments([read_segment(block, step, redecode) for block in blocks])


# Parameters: as of `read_blocks`; the key, and the part that is done.
def read_deciding(
    blocks: Iterable[pa.Table],
    step: ApplyRows,
    redecode: Redecode | None,
    key: Key,
    part: Part | None,
) -> Segment:
    """Read the changes of a segment that decide what is left of keys, and count all of them."""
    decide = partial(keep_deciding, is_archived=step.is_archived)
    held: list[Segment] = []
    left = 0
    for block in blocks:
        held.append(read_segment(block, step, redecode))
        # Where most changes decide, looking at all of them again has to be rare.
        if len(held) > 1 and sum(len(each.changes) for each in held) >= 2 * left:
            joined = join_segments(held)
            held = [joined._replace(changes=decide(joined.changes, key, part))]
            left = len(held[0].changes)
    return join_segments(held)
