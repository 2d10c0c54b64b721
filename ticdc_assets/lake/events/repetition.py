"""When two row events are one event that the sender repeated.

A sender repeats row events after a restart, at least once from its checkpoint on.  A repetition has
the same `EVENT_IDENTITY`; its position, schema version and table id may differ.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

from ticdc_assets.lake.store.contracts import EVENT_IDENTITY


def is_same_event(left: str, right: str) -> Column:
    """Compare the events of two frames by their aliases."""
    columns = [F.col(f"{left}.{n}").eqNullSafe(F.col(f"{right}.{n}")) for n in EVENT_IDENTITY]
    same = columns[0]
    for column in columns[1:]:
        same &= column
    return same
