"""Apply the privacy of a changefeed to decoded rows, event by event or column by column."""

import json
from collections.abc import Iterable

import pyarrow as pa
from msgspec.structs import replace

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.events import Quarantined, RowChange
from ticdc_assets.store.event_rows import Arrival
from ticdc_assets.stream.private_values import PrivateValues, hide_values


def make_private_values(feed: Changefeed) -> PrivateValues | None:
    """Return what becomes of the values of a changefeed; None if all are stored as they are."""
    return None if feed.privacy is None else PrivateValues(feed.privacy)


def protect_arrivals(arrivals: Iterable[Arrival], values: PrivateValues) -> list[Arrival]:
    """Return events with the values that are stored."""
    protected = []
    for arrival in arrivals:
        match arrival.event:
            case RowChange() as change:
                arrival = replace(arrival, event=values.protect_change(change))
            case Quarantined() as fault:
                hidden = replace(fault, reason=hide_values(fault.reason))
                arrival = replace(arrival, event=hidden)
        protected.append(arrival)
    return protected


def protect_csv(
    events: pa.RecordBatch, columns: str | None, values: PrivateValues
) -> tuple[pa.RecordBatch, str | None]:
    """Return a batch of CSV events, and the columns of its images, with what is stored."""
    databases, tables = events["database"], events["table"]
    for side in ("before", "after"):
        place = events.schema.get_field_index(side)
        images = values.protect_images(databases, tables, events[side])
        events = events.set_column(place, events.schema.field(place), images)
    if columns is not None:
        names = set(zip(databases.to_pylist(), tables.to_pylist(), strict=True))
        # Nearly every file has the rows of one table; those of several do not state their columns.
        columns = _list_stored(values, *names.pop(), columns) if len(names) == 1 else None
    return events, columns


def _list_stored(values: PrivateValues, database: str, table: str, columns: str) -> str:
    return json.dumps(values.list_stated(database, table, json.loads(columns)))
