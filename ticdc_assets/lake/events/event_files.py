"""Spark's workers write the events that they decode into data files of `events` by themselves.

The driver gets descriptions of the files, and commits them: no event passes through Spark's engine,
unless `events` has Delta features that delta-rs does not write.  Then Spark commits what the files
have.  `maintain` removes files that no commit names.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from ticdc_assets.lake.events.decode_workers import Worker
from ticdc_assets.store.contracts import STATISTICS
from ticdc_assets.store.data_files import ROWS_PER_GROUP, WrittenFile, write_data_file
from ticdc_assets.store.event_rows import SCHEMA
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import count_by
from ticdc_assets.store.work_size import sized_for

# What a worker holds of the events of a file.
_MOST_ROWS = 1 << 18
_MOST_BYTES = 128 << 20
# The work on a table reads the events of its name.
_ORDER = "name"
# Of a file with many tables, the work on some of them reads little else.
_ROWS_PER_GROUP = 1 << 13


class EventFile(msgspec.Struct, frozen=True):
    """A data file of `events`, and how many events of each kind it has."""

    file: WrittenFile
    kinds: dict[str, int]


_decode = msgspec.msgpack.Decoder(EventFile).decode


def write_events(location: Lake, batches: Iterable[pa.RecordBatch]) -> Iterator[EventFile]:
    """Write events into data files of bounded size."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _MOST_ROWS or size >= _MOST_BYTES:
            yield _write(location, held)
            held, rows, size = [], 0, 0
    if rows:
        yield _write(location, held)


def _write(location: Lake, batches: Sequence[pa.RecordBatch]) -> EventFile:
    events = pa.Table.from_batches(batches, SCHEMA)
    # Markers and other events of no table have no name.
    has_many = pc.count_distinct(events[_ORDER]).as_py() > 1
    if has_many:
        events = events.sort_by(_ORDER)
    size = _ROWS_PER_GROUP if has_many else ROWS_PER_GROUP
    measured = STATISTICS["events"]
    file = write_data_file(location, "events", events, measured, rows_per_group=size)
    return EventFile(file, count_by("kind", events.select(["kind"])))


def write_event_files(lake: LakeSession, input: DataFrame, decode: Worker) -> list[EventFile]:
    """Have workers decode some input, and write what comes of it."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for file in write_events(location, decode(batches)):
            encoded = pa.array([msgspec.msgpack.encode(file)], pa.binary())
            yield pa.RecordBatch.from_arrays([encoded], ["file"])

    location = lake.location
    with sized_for(lake, small=False):
        rows = input.mapInArrow(write, "file binary").collect()
    return [_decode(bytes(row["file"])) for row in rows]
