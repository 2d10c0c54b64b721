"""What runs in the workers: raw records, or data files, in; rows of the events table out.

One bad record or file never fails the job: what a decoder does not catch itself is a rejected row.
Output comes in batches of bounded size, so a task needs little more than the largest file.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Protocol

import pyarrow as pa

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import MalformedMessage, MissingFile
from ticdc_assets.events import (
    Event,
    FilePosition,
    Ordering,
    Position,
    Quarantined,
    RowChange,
    TableSchema,
    TopicPosition,
    Watermark,
)
from ticdc_assets.events.written import read_json
from ticdc_assets.lake.events.event_rows import SCHEMA, Arrival, from_dicts, table_name, to_arrow
from ticdc_assets.protocols.csv.decoder import CsvDecoder
from ticdc_assets.protocols.message import DataFile, Message
from ticdc_assets.protocols.payload import PayloadStore
from ticdc_assets.protocols.registry import get_ordering, make_file_decoder, make_topic_decoder

Batches = Iterator[pa.RecordBatch]
Work = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]
_MOST_ROWS = 10_000
_MOST_IMAGES = 16 << 20

# What `decode_files` is given: a line a file, `task` says together with which others.
FILES = pa.schema(
    [
        ("task", pa.int32()),
        ("batch", pa.int64()),
        ("seq", pa.int64()),
        ("path", pa.string()),
        ("version", pa.int64()),
        ("table_id", pa.int64()),
        ("size", pa.int64()),
        ("schema", pa.string()),
        # Earlier events of this path go with the same commit: then not reading it is no option.
        ("replaces", pa.bool_()),
    ]
)


class FolderReader(Protocol):
    """How workers, and the driver, read a folder's files."""

    def read(self, path: str) -> bytes:
        """A whole file; raise OSError, `FileNotFoundError` if there is none."""
        ...

    def head(self, path: str, size: int) -> bytes:
        """Its first bytes; raise likewise."""
        ...


class _Collector:
    """Gathers events into batches of bounded size; of watermarks it keeps the greatest only."""

    def __init__(self) -> None:
        self._arrivals: list[Arrival] = []
        self._images = 0
        self._watermarks: dict[tuple[str, int | None], Arrival] = {}

    def add(self, arrival: Arrival) -> bool:
        """Take an event; say whether it is time for a flush."""
        event = arrival.event
        if type(event) is RowChange:
            self._images += len(event.before or "") + len(event.after or "")
        elif isinstance(event, Watermark):
            keep_greatest(self._watermarks, arrival)
            return False
        self._arrivals.append(arrival)
        return len(self._arrivals) >= _MOST_ROWS or self._images >= _MOST_IMAGES

    def flush(self) -> Batches:
        arrivals, self._arrivals, self._images = self._arrivals, [], 0
        if arrivals:
            yield from to_arrow(arrivals)

    def finish(self) -> Batches:
        self._arrivals += self._watermarks.values()
        yield from self.flush()


def keep_greatest(watermarks: dict[tuple[str, int | None], Arrival], arrival: Arrival) -> None:
    """Keep the first watermark of the greatest ts of each source and partition."""
    mark = arrival.event
    if not isinstance(mark, Watermark):
        return
    at = mark.position
    of = (at.topic, at.partition) if isinstance(at, TopicPosition) else (at.path, None)
    before = watermarks.get(of)
    if before is None or before.event.ts < mark.ts:  # type: ignore[union-attr]
        watermarks[of] = arrival


def decode_records(feed: Changefeed, open_payloads: Callable[[], PayloadStore] | None) -> Work:
    """For `mapInArrow` over raw records."""

    def run(batches: Iterable[pa.RecordBatch]) -> Batches:
        decoder = make_topic_decoder(feed, open_payloads() if open_payloads is not None else None)
        out = _Collector()
        for batch in batches:
            columns = [column.to_pylist() for column in batch.columns]
            for number, seq, topic, partition, offset, ms, key, value, path, line, why in zip(
                *columns, strict=True
            ):
                events: Iterable[Event]
                if why is not None:
                    error = MalformedMessage(why)
                    events = (Quarantined.from_error(error, FilePosition(path, line)),)
                else:
                    message = Message(topic, partition, offset, key, value, ms)
                    at = TopicPosition(topic, partition, offset)
                    events = _safely(decoder.decode, message, at)
                for event in events:
                    if out.add(Arrival(number, seq, place_of(event), event)):
                        yield from out.flush()
        yield from out.finish()

    return run


# The columns of raw that `decode_records` is given, in its order.
OF_RECORDS = (
    *("batch", "seq", "topic", "partition", "offset", "unix_millis(timestamp) as ms"),
    *("key", "value", "path", "line", "problem"),
)


def decode_files(feed: Changefeed, open_folder: Callable[[], FolderReader]) -> Work:
    """For `mapInArrow` over `FILES`."""

    def run(batches: Iterable[pa.RecordBatch]) -> Batches:
        folder = open_folder()
        out = _Collector()
        for batch in batches:
            for row in batch.to_pylist():
                content: bytes | None = None
                lost: str | None = None
                try:
                    content = folder.read(row["path"])
                except FileNotFoundError as error:
                    lost = str(error)
                except OSError:
                    if row["replaces"]:
                        raise
                    # It waits: nothing says that it was decoded.
                    continue
                if content is None:
                    said = Quarantined.from_error(
                        MissingFile(lost or ""), FilePosition(row["path"])
                    )
                    out.add(Arrival(row["batch"], row["seq"], 0, said))
                else:
                    yield from _decode_file(feed, row, content, out)
                yield from_dicts([_marker(row)])
        yield from out.finish()

    return run


def _marker(row: dict[str, Any]) -> dict[str, Any]:
    marker = {"batch": row["batch"], "seq": row["seq"], "kind": "file"}
    return {**marker, "source": row["path"], "number": row["size"]}


def _decode_file(feed: Changefeed, row: dict[str, Any], content: bytes, out: _Collector) -> Batches:
    schema = None if row["schema"] is None else read_schema(row["schema"])
    file = DataFile(
        path=row["path"],
        data=content,
        version=row["version"],
        table_id=row["table_id"],
        schema=schema,
    )
    decoder = make_file_decoder(feed)
    at = FilePosition(row["path"])
    decode: Callable[[Any], Iterable[Any]] = decoder.decode_file
    ordering = get_ordering(feed)
    columns: str | None = None
    if isinstance(decoder, CsvDecoder):
        if schema is not None:
            # A file is read by its schema, so images have no other columns.
            columns = json.dumps([column.name for column in schema.columns])
        decode = decoder.decode_batches
        if feed.csv.field_header:
            # Then it is the file itself that says whether it has commit ts.
            events = _safely(decoder.decode_file, file, at)
            ordering = next((e.ordering for e in events if isinstance(e, RowChange)), ordering)
    for item in _safely(decode, file, at):
        if isinstance(item, pa.RecordBatch):
            yield _csv_rows(row, item, ordering, columns)
        elif out.add(Arrival(row["batch"], row["seq"], place_of(item), item)):
            yield from out.flush()


def _safely(decode: Callable[[Any], Iterable[Any]], given: Any, at: Position) -> Iterator[Any]:
    """Decode; what decoders promise not to raise is a rejected event all the same."""
    try:
        yield from decode(given)
    except MemoryError:
        raise
    except Exception as error:
        reason = f"the decoder failed: {type(error).__name__}: {error}"
        yield Quarantined.from_error(MalformedMessage(reason), at)


def place_of(event: Event) -> int:
    """An event's place in its record, or in its file."""
    at = event.position
    return at.index if isinstance(at, TopicPosition) else at.record


def _csv_rows(
    row: dict[str, Any], events: pa.RecordBatch, ordering: Ordering, names: str | None
) -> pa.RecordBatch:
    """The rows of a batch of CSV events, column by column."""
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
    columns |= {"index": events["record"], "number": events["record"], "name": _names(events)}
    arrays = []
    for field in SCHEMA:
        if field.name in columns:
            arrays.append(columns[field.name])
        elif constants.get(field.name) is not None:
            arrays.append(pa.repeat(pa.scalar(constants[field.name], field.type), count))
        else:
            arrays.append(pa.nulls(count, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _names(events: pa.RecordBatch) -> pa.Array:
    """The tables' names: as a rule there is one in a file."""
    database, table = events["database"], events["table"]
    if len(database.unique()) == 1 and len(table.unique()) == 1:
        name = table_name(database[0].as_py(), table[0].as_py())
        return pa.repeat(pa.scalar(name, pa.string()), events.num_rows)
    pairs = zip(database.to_pylist(), table.to_pylist(), strict=True)
    return pa.array([table_name(*pair) for pair in pairs], pa.string())


@lru_cache(maxsize=256)
def read_schema(text: str) -> TableSchema:
    """A table's schema from its JSON (`to_json`)."""
    return read_json(text, TableSchema)
