"""Decode in Spark's workers: raw records or data files in, rows of the `events` table out.

No record or file fails a job: an error that a decoder does not catch becomes a quarantined event.
Workers emit batches of bounded size, so a task needs little more memory than its largest file.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import lru_cache
from typing import Any, Protocol, cast

import pyarrow as pa

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import LOST, LostRecords, MalformedMessage, MissingFile
from ticdc_assets.events import (
    Event,
    FilePosition,
    Ordering,
    Quarantined,
    RowChange,
    TableSchema,
    TopicPosition,
    Watermark,
)
from ticdc_assets.events.written import read_json
from ticdc_assets.lake.events.erased_events import ErasedEvents, leave_out_erased
from ticdc_assets.lake.events.large_rows import MOST_ROWS, LargeRows, lacks_row
from ticdc_assets.lake.events.private_rows import (
    make_private_values,
    protect_arrivals,
    protect_csv,
)
from ticdc_assets.lake.raw.encryption import make_decryption
from ticdc_assets.lake.raw.erased_records import ERASED
from ticdc_assets.protocols.csv.decoder import CsvDecoder
from ticdc_assets.protocols.message import DataFile, Message
from ticdc_assets.protocols.payload import PayloadStore
from ticdc_assets.protocols.registry import get_ordering, make_file_decoder, make_topic_decoder
from ticdc_assets.store.event_rows import (
    SCHEMA,
    Arrival,
    make_batch,
    make_table_name,
    to_arrow,
)
from ticdc_assets.stream.private_values import PrivateValues
from ticdc_assets.stream.reading import decode_record, decode_safely
from ticdc_assets.upstream.snapshot import OpenUpstream

Batches = Iterator[pa.RecordBatch]
Worker = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]
_MAX_ROWS_PER_BATCH = 10_000
_MAX_IMAGE_CHARS_PER_BATCH = 16 << 20

# The input of a file worker: one row per file; files of one `task` are decoded together.
FILE_TASKS = pa.schema(
    [
        ("task", pa.int32()),
        ("batch", pa.int64()),
        ("seq", pa.int64()),
        ("path", pa.string()),
        ("version", pa.int64()),
        ("table_id", pa.int64()),
        ("size", pa.int64()),
        ("schema", pa.string()),
        # The commit removes earlier events of this path, so the file must not be left waiting.
        ("replaces", pa.bool_()),
    ]
)


class FolderReader(Protocol):
    """Reads a folder's files, on the driver and in the workers."""

    def read(self, path: str) -> bytes:
        """Read a whole file; raise `FileNotFoundError` or another `OSError`."""
        ...

    def head(self, path: str, size: int) -> bytes:
        """Read a file's first bytes; raise as `read` does."""
        ...


class _EventBuffer:
    """Collects events into batches of bounded size.

    Of the watermarks it keeps the greatest, and the first one behind a gap: that one tells which
    tables may lack rows.  Rows that the stream holds only the key of are fetched by `large_rows`.
    """

    def __init__(
        self, values: PrivateValues | None = None, large_rows: LargeRows | None = None
    ) -> None:
        """`values`: what becomes of values before they are stored; None if all are kept."""
        self.values = values
        self._large_rows = large_rows
        self._lacking = 0
        self._arrivals: list[Arrival] = []
        self._images = 0
        self._watermarks: dict[tuple[str, int | None], Arrival] = {}
        # The partitions with a gap and no watermark behind it yet.
        self._gaps: set[str] = set()

    def add(self, arrival: Arrival) -> bool:
        """Add an event; return whether the buffer is full."""
        event = arrival.event
        if type(event) is RowChange:
            self._images += len(event.before or "") + len(event.after or "")
            if event.handle_key_only and self._large_rows is not None:
                self._lacking += lacks_row(event)
        elif isinstance(event, Watermark) and not self._ends_gap(event):
            keep_greatest_watermark(self._watermarks, arrival)
            return False
        elif isinstance(event, Quarantined) and event.error == LostRecords.__name__:
            self._gaps.add(cast(FilePosition, event.position).path)
        self._arrivals.append(arrival)
        return (
            len(self._arrivals) >= _MAX_ROWS_PER_BATCH
            or self._images >= _MAX_IMAGE_CHARS_PER_BATCH
            or self._lacking >= MOST_ROWS
        )

    def _ends_gap(self, watermark: Watermark) -> bool:
        position = watermark.position
        if not self._gaps or not isinstance(position, TopicPosition):
            return False
        partition = f"{position.topic}-{position.partition}"
        is_first = partition in self._gaps
        self._gaps.discard(partition)
        return is_first

    def flush(self) -> Batches:
        arrivals, self._arrivals, self._images = self._arrivals, [], 0
        if self._large_rows is not None and self._lacking:
            arrivals, self._lacking = self._large_rows.complete(arrivals), 0
        if self.values is not None:
            arrivals = protect_arrivals(arrivals, self.values)
        if arrivals:
            yield from to_arrow(arrivals)

    def finish(self) -> Batches:
        self._arrivals += self._watermarks.values()
        yield from self.flush()


def keep_greatest_watermark(
    watermarks: dict[tuple[str, int | None], Arrival], arrival: Arrival
) -> None:
    """Keep the first watermark of the greatest ts of each source and partition."""
    watermark = arrival.event
    if not isinstance(watermark, Watermark):
        return
    position = watermark.position
    if isinstance(position, TopicPosition):
        source: tuple[str, int | None] = position.topic, position.partition
    else:
        source = position.path, None
    greatest = watermarks.get(source)
    if greatest is None or greatest.event.ts < watermark.ts:  # type: ignore[union-attr]
        watermarks[source] = arrival


def _make_quarantined(problem: str, position: FilePosition) -> Quarantined:
    """Make the event of a line of a dump that is no record, or of records that are gone."""
    error = LostRecords if problem.startswith(LOST) else MalformedMessage
    return Quarantined(position=position, error=error.__name__, reason=problem)


def make_record_worker(
    feed: Changefeed,
    open_payloads: Callable[[], PayloadStore] | None,
    open_upstream: OpenUpstream | None = None,
    erased: ErasedEvents | None = None,
) -> Worker:
    """Make the function to `mapInArrow` over `RECORD_COLUMNS` of raw records."""

    def run(batches: Iterable[pa.RecordBatch]) -> Batches:
        if open_upstream is None:
            yield from decode(batches, _EventBuffer(make_private_values(feed)))
            return
        with ExitStack() as connections:
            large_rows = LargeRows(feed, open_upstream, connections)
            yield from decode(batches, _EventBuffer(make_private_values(feed), large_rows))

    def decode(batches: Iterable[pa.RecordBatch], buffer: _EventBuffer) -> Batches:
        decrypt = make_decryption(feed)
        decoder = make_topic_decoder(feed, open_payloads() if open_payloads is not None else None)
        for batch in batches:
            moments = batch.column("timestamp").cast(pa.int64())
            place = batch.schema.get_field_index("timestamp")
            columns = [c.to_pylist() for c in batch.set_column(place, "us", moments).columns]
            for batch_id, seq, topic, partition, offset, us, key, value, path, line, problem in zip(
                *columns, strict=True
            ):
                events: Iterable[Event]
                if problem == ERASED:
                    # Its events stay in `events`.
                    continue
                if problem is not None:
                    events = (_make_quarantined(problem, FilePosition(path, line)),)
                else:
                    ms = None if us is None else us // 1000
                    key, value = decrypt(key), decrypt(value)
                    message = Message(topic, partition, offset, key, value, ms)
                    events = decode_record(decoder.decode, message)
                for event in events:
                    if buffer.add(Arrival(batch_id, seq, _get_index(event), event)):
                        yield from buffer.flush()
        yield from buffer.finish()

    return leave_out_erased(run, erased)


# The input of a record worker, in this order.
RECORD_COLUMNS = (
    *("batch", "seq", "topic", "partition", "offset", "timestamp"),
    *("key", "value", "path", "line", "problem"),
)


def make_file_worker(
    feed: Changefeed,
    open_folder: Callable[[], FolderReader],
    erased: ErasedEvents | None = None,
) -> Worker:
    """Make the function to `mapInArrow` over `FILE_TASKS`."""

    def run(batches: Iterable[pa.RecordBatch]) -> Batches:
        folder = open_folder()
        buffer = _EventBuffer(make_private_values(feed))
        for batch in batches:
            for row in batch.to_pylist():
                content: bytes | None = None
                problem = ""
                try:
                    content = folder.read(row["path"])
                except FileNotFoundError as error:
                    problem = str(error)
                except OSError:
                    if row["replaces"]:
                        raise
                    # The file waits: without a marker the next run tries it again.
                    continue
                if content is None:
                    event = Quarantined.from_error(MissingFile(problem), FilePosition(row["path"]))
                    buffer.add(Arrival(row["batch"], row["seq"], 0, event))
                else:
                    yield from _decode_file(feed, row, content, buffer)
                yield make_batch([_make_marker(row)])
        yield from buffer.finish()

    return leave_out_erased(run, erased)


def _make_marker(row: dict[str, Any]) -> dict[str, Any]:
    marker = {"batch": row["batch"], "seq": row["seq"], "kind": "file"}
    return {**marker, "source": row["path"], "number": row["size"]}


def _decode_file(
    feed: Changefeed, row: dict[str, Any], content: bytes, buffer: _EventBuffer
) -> Batches:
    schema = None if row["schema"] is None else read_schema(row["schema"])
    file = DataFile(
        path=row["path"],
        data=content,
        version=row["version"],
        table_id=row["table_id"],
        schema=schema,
    )
    decoder = make_file_decoder(feed)
    position = FilePosition(row["path"])
    decode: Callable[[Any], Iterable[Any]] = decoder.decode_file
    ordering = get_ordering(feed)
    columns: str | None = None
    if isinstance(decoder, CsvDecoder):
        if schema is not None:
            # A file is read by its schema, so its images have exactly these columns.
            columns = json.dumps([column.name for column in schema.columns])
        decode = decoder.decode_batches
        if feed.csv.field_header:
            # The header decides whether the file has a commit ts.
            events = decode_safely(decoder.decode_file, file, position)
            ordering = next((e.ordering for e in events if isinstance(e, RowChange)), ordering)
    for item in decode_safely(decode, file, position):
        if isinstance(item, pa.RecordBatch):
            names = columns
            if buffer.values is not None:
                item, names = protect_csv(item, columns, buffer.values)
            yield _make_csv_rows(row, item, ordering, names)
        elif buffer.add(Arrival(row["batch"], row["seq"], _get_index(item), item)):
            yield from buffer.flush()


def _get_index(event: Event) -> int:
    """Return an event's index in its record, or the number of its record in a file."""
    position = event.position
    return position.index if isinstance(position, TopicPosition) else position.record


def _make_csv_rows(
    row: dict[str, Any], events: pa.RecordBatch, ordering: Ordering, names: str | None
) -> pa.RecordBatch:
    """Make the rows of a batch of CSV events, column by column."""
    count = events.num_rows
    constants = {
        "batch": row["batch"],
        "seq": row["seq"],
        "kind": "row",
        "ordering": ordering,
        "schema_version": row["version"],
        "columns": names,
        "table_id": row["table_id"],
        "handle_key_only": False,
        "member_names": True,
        "source": row["path"],
    }
    columns = {name: events[name] for name in events.schema.names}
    columns |= {
        "index": events["record"],
        "number": events["record"],
        "name": _make_table_names(events),
    }
    arrays = []
    for field in SCHEMA:
        if field.name in columns:
            arrays.append(columns[field.name])
        elif constants.get(field.name) is not None:
            arrays.append(pa.repeat(pa.scalar(constants[field.name], field.type), count))
        else:
            arrays.append(pa.nulls(count, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _make_table_names(events: pa.RecordBatch) -> pa.Array:
    """Make the column `name`; nearly every file has a single table."""
    database, table = events["database"], events["table"]
    if len(database.unique()) == 1 and len(table.unique()) == 1:
        name = make_table_name(database[0].as_py(), table[0].as_py())
        return pa.repeat(pa.scalar(name, pa.string()), events.num_rows)
    pairs = zip(database.to_pylist(), table.to_pylist(), strict=True)
    return pa.array([make_table_name(*pair) for pair in pairs], pa.string())


@lru_cache(maxsize=256)
def read_schema(text: str) -> TableSchema:
    """Read a table's schema from its JSON."""
    return read_json(text, TableSchema)
