"""Find the event of a value that the layout of its table cannot hold."""

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events.position import FilePosition, Position, TopicPosition
from ticdc_assets.events.row_image import load
from ticdc_assets.plan.steps import ApplyRows, TableWork
from ticdc_assets.rows.table import RowSource
from ticdc_assets.rows.table_rows import TooLarge


def locate_value(error: Exception, work: TableWork, source: RowSource) -> Exception:
    """Return an error of a value with the position of its event; any other one as it is."""
    if not isinstance(error, TooLarge):
        return error
    for step in work.steps:
        if isinstance(step, ApplyRows):
            for events in source.read_events(step):
                found = events.filter(pc.equal(events["commit_ts"], error.commit_ts))
                position = _find_position(found, str(error.value))
                if position is not None:
                    return error.at(str(position))
    return error


def _find_position(events: pa.Table, text: str) -> Position | None:
    names = ("after", "source", "partition", "number", "index")
    for after, source, partition, number, index in zip(
        *(events[name].to_pylist() for name in names), strict=True
    ):
        if after is not None and text in _read_texts(after):
            if partition is None:
                return FilePosition(source, number)
            return TopicPosition(source, partition, number, index)
    return None


def _read_texts(image: str) -> set[str | None]:
    try:
        return {*load(image).values()}
    except MalformedMessage:
        return set()
