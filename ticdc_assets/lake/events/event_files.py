"""Spark's workers write the events that they decode into data files of `events` by themselves.

The driver gets descriptions of the files, and commits them: no event passes through Spark's engine.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame

from ticdc_assets.lake.events.decode_workers import Worker
from ticdc_assets.lake.events.event_rows import SCHEMA
from ticdc_assets.lake.store.contracts import STATISTICS
from ticdc_assets.lake.store.data_files import WrittenFile, write_data_file
from ticdc_assets.lake.store.lake import Lake, LakeSession
from ticdc_assets.lake.store.reader import LakeReader, count_by
from ticdc_assets.lake.store.work_size import sized_for
from ticdc_assets.lake.store.writer import is_writable

# What a worker holds of the events of a file.
_MOST_ROWS = 1 << 18
_MOST_BYTES = 128 << 20
# The work on a table reads the events of its name.
_ORDER = "name"


class EventFile(msgspec.Struct, frozen=True):
    """A data file of `events`, and how many events of each kind it has."""

    file: WrittenFile
    kinds: dict[str, int]


def takes_files(lake: LakeSession) -> bool:
    """Whether data files can be added to `events`: Spark may have given it other features."""
    return is_writable(LakeReader(lake.location).open("events"))


def write_event_files(lake: LakeSession, input: DataFrame, decode: Worker) -> list[EventFile]:
    """Have workers decode some input, and write what comes of it."""
    frame = input.mapInArrow(_Writer(lake.location, decode), "file binary")
    with sized_for(lake, small=False):
        rows = frame.collect()
    return [msgspec.msgpack.decode(bytes(row["file"]), type=EventFile) for row in rows]


@dataclass(frozen=True)
class _Writer:
    """Writes the events of one task of Spark's."""

    location: Lake
    decode: Worker

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in self.decode(batches):
            held.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= _MOST_ROWS or size >= _MOST_BYTES:
                yield self._write(held)
                held, rows, size = [], 0, 0
        if rows:
            yield self._write(held)

    def _write(self, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        events = pa.Table.from_batches(batches, SCHEMA)
        if len(events[_ORDER].unique()) > 1:
            events = events.sort_by(_ORDER)
        file = write_data_file(self.location, "events", events, STATISTICS["events"])
        written = EventFile(file, count_by("kind", events.select(["kind"])))
        encoded = pa.array([msgspec.msgpack.encode(written)], pa.binary())
        return pa.RecordBatch.from_arrays([encoded], ["file"])
