"""Bring an older lake to the format of this program, in place and from what is in the lake.

A step takes a lake from the format before it to its own.  It may be killed anywhere and is then
done again from its beginning, so doing it twice gives the same as doing it once.  Only the run that
has the lock does this; whoever reads an older lake reads it as it is.
"""

from collections.abc import Callable, Sequence

from ticdc_assets.store.format import STATING_TABLE, read_format, state_format
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.tables import create_tables
from ticdc_assets.store.writer import LakeWriter

Step = Callable[[LakeSession], None]


# The step to format 1, to format 2, and so on.
STEPS: Sequence[Step] = (
    # It has all tables; the first lakes had no `loads`.
    create_tables,
)


def upgrade(lake: LakeSession) -> bool:
    """Bring a lake to the newest format; return False if there is no lake yet."""
    reader, writer = LakeReader(lake.location), LakeWriter(lake.location)
    applied = reader.find(STATING_TABLE)
    if applied is None:
        return False
    done = read_format(lake.location, applied)
    for number, step in enumerate(STEPS[done:], done + 1):
        step(lake)
        # The step may have written to it.
        applied = reader.open(STATING_TABLE)
        writer.set_properties(applied, state_format(number))
    return True
