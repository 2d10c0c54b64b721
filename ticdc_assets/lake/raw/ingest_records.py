"""Ingest: append the records of a topic to `raw` as they came, each once.

A batch is one commit, and the commit's metadata states how far the source was read: a run resumes
where the last commit ended.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from ticdc_assets.errors import LostRecords
from ticdc_assets.events import FilePosition, Quarantined
from ticdc_assets.lake.raw.encryption import Convert, make_encryption
from ticdc_assets.protocols.message import Message
from ticdc_assets.store.arrow import arrow_schema, make_array
from ticdc_assets.store.contracts import RAW_RECORDS
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.stage_commits import (
    StageMark,
    commit_rows,
    read_last_stage_commit,
)
from ticdc_assets.stream.offsets import ReadOffsets

STAGE = "ingest"
BYTES_PER_BATCH = 32 << 20
# What a record takes of memory besides its bytes.
_BESIDE = 64
# A worker reads some row groups of a file (`events.decode_topic`).
_ROWS_PER_GROUP = 8192
_LATEST_MS = 1 << 48
_SCHEMA = arrow_schema(RAW_RECORDS)
# The same number for consecutive offsets.
_RANGE = "offset - dense_rank() OVER (PARTITION BY topic, partition ORDER BY offset) AS range"


class _NoRecord:
    """The fields of a line of a dump that is no record, or of records that are gone."""

    topic = partition = offset = key = value = timestamp_ms = None
    headers = ()


# The columns that are fields of a record.
_FIELDS = {
    "timestamp": attrgetter("timestamp_ms"),
    **{
        name: attrgetter(name)
        for name in ("topic", "partition", "offset", "key", "value", "headers")
    },
}

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class IngestResult:
    """The batches that one ingest committed, the records or files in them, and their bytes."""

    batches: int
    items: int
    bytes: int
    # The newest batch of `raw`, 0 if there is none.
    last_batch: int
    # Reading stopped at a limit, and the source holds more.
    has_more: bool = False
    # How many files of the folder were listed.
    listed: int = 0


@dataclass(frozen=True)
class RawEnd:
    """The last batch and seq of `raw`, with the metadata of the last commit if it is trusted."""

    batch: int
    seq: int
    metadata: Mapping[str, Any]
    found: bool


def read_raw_end(lake: LakeSession) -> RawEnd:
    """Read where `raw` ends from its last commit, or else from its rows."""
    last = read_last_stage_commit(lake, "raw", STAGE)
    if last.found:
        return RawEnd(last.number, last.metadata.get("seq", 0), last.metadata, found=True)
    ends = lake.read("raw").agg(F.max("batch").alias("batch"), F.max("seq").alias("seq"))
    row = ends.collect()[0]
    return RawEnd(max(row["batch"] or 0, last.number), row["seq"] or 0, {}, found=False)


def read_known_partitions(lake: LakeSession) -> dict[tuple[str, int], bool]:
    """Read which partitions the topics had at the last commit, and whether they had more to read.

    They are there with or without records.
    """
    metadata = read_last_stage_commit(lake, "raw", STAGE).metadata
    unread = set(metadata.get("unread") or ())
    places = ((name, name.rpartition("-")) for name in metadata.get("offsets") or {})
    return {(topic, int(number)): name in unread for name, (topic, _, number) in places}


def ingest_records(
    lake: LakeSession,
    read: Callable[[ReadOffsets], Iterable[Message | Quarantined]],
    *,
    bytes_per_batch: int = BYTES_PER_BATCH,
    progress: Progress | None = None,
) -> IngestResult:
    """Ingest the records of a topic that were not ingested before.

    `read` may leave out the offsets that it is given, or not.
    """
    state = read_raw_end(lake)
    known = _find_known_offsets(lake, state)
    lines: set[tuple[str, int]] | None = None
    batch, seq, items, taken = state.batch, state.seq, 0, 0

    def is_new(record: Message | Quarantined) -> bool:
        nonlocal lines
        if isinstance(record, Message):
            return known.add(record.topic, record.partition, record.offset)
        if record.error == LostRecords.__name__:
            return True
        if lines is None:
            lines = _known_lines(lake) if state.batch else set()
        place = _line(record)
        is_known = place in lines
        lines.add(place)
        return not is_known

    committed = known.state(), dict(known.topic_ids)

    def commit(chunk: Sequence[Message | Quarantined]) -> bool:
        nonlocal batch, seq, committed
        rows = _table(chunk, batch + 1, seq + 1, make_encryption(lake.feed))
        offsets, topics = known.state(), dict(known.topic_ids)
        last = seq + len(chunk)
        metadata = {"seq": last, "offsets": offsets, "topics": topics, "unread": known.unread()}
        mark = StageMark(STAGE, batch + 1, metadata)
        if not commit_rows(lake, "raw", rows, mark, rows_per_group=_ROWS_PER_GROUP):
            return False
        batch, seq, committed = batch + 1, last, (offsets, topics)
        return True

    for chunk, size in _chunks(filter(is_new, read(known)), bytes_per_batch):
        # `known` covers this chunk and no more: the next one is read after this one is written.
        if not commit(chunk):
            # A concurrent run ingests the same source; the next run continues from its commits.
            break
        items, taken = items + len(chunk), taken + size
        if progress is not None:
            progress(taken, items)
    else:
        if (known.state(), known.topic_ids) != committed:
            # Offsets that hold no record were read as well, or the topics have new partitions.
            commit([])
    has_more = batch > state.batch and known.has_more
    return IngestResult(batch - state.batch, items, taken, batch, has_more)


def _find_known_offsets(lake: LakeSession, state: RawEnd) -> ReadOffsets:
    if state.found:
        return ReadOffsets(state.metadata.get("offsets"), state.metadata.get("topics"))
    ranges: dict[str, list[list[int]]] = defaultdict(list)
    if state.batch:
        raw = lake.read("raw").where("offset is not null").selectExpr("*", _RANGE)
        ends = raw.groupBy("topic", "partition", "range").agg(
            F.min("offset").alias("first"), F.max("offset").alias("last")
        )
        for row in ends.orderBy("first").collect():
            ranges[f"{row['topic']}-{row['partition']}"].append([row["first"], row["last"]])
    return ReadOffsets(ranges)


def _known_lines(lake: LakeSession) -> set[tuple[str, int]]:
    lines = lake.read("raw").where("line is not null").select("path", "line")
    return {(row["path"], row["line"]) for row in lines.collect()}


def _line(quarantined: Quarantined) -> tuple[str, int]:
    position = quarantined.position
    if isinstance(position, FilePosition):
        return position.path, position.record
    return position.topic, position.offset


def _chunks(
    records: Iterable[Message | Quarantined], most: int
) -> Iterator[tuple[list[Message | Quarantined], int]]:
    chunk: list[Message | Quarantined] = []
    left = most
    for record in records:
        chunk.append(record)
        left -= _BESIDE
        if type(record) is Message:
            left -= len(record.key or b"") + len(record.value or b"")
        if left <= 0:
            yield chunk, most - left - _BESIDE * len(chunk)
            chunk, left = [], most
    if chunk:
        yield chunk, most - left - _BESIDE * len(chunk)


def _table(
    chunk: Sequence[Message | Quarantined], batch: int, seq: int, encrypt: Convert
) -> pa.Table:
    """Make the rows of a batch, column by column."""
    are_records = {type(item) for item in chunk} <= {Message}
    records: Sequence[Any] = chunk
    if not are_records:
        records = [item if isinstance(item, Message) else _NoRecord for item in chunk]
    columns: dict[str, Sequence[Any]] = {
        name: [*map(get, records)] for name, get in _FIELDS.items()
    }
    columns["seq"] = range(seq, seq + len(chunk))
    columns["timestamp"] = [*map(_read_moment, columns["timestamp"])]
    for name in ("key", "value"):
        columns[name] = [*map(encrypt, columns[name])]
    if any(columns["headers"]):
        columns["headers"] = [
            [{"key": key, "value": encrypt(value)} for key, value in headers] or None
            for headers in columns["headers"]
        ]
    else:
        del columns["headers"]
    if not are_records:
        problems = [None if isinstance(r, Message) else (*_line(r), r.reason) for r in chunk]
        for place, name in enumerate(("path", "line", "problem")):
            columns[name] = [problem and problem[place] for problem in problems]
    arrays = [
        make_array(columns[field.name], field.type)
        if field.name in columns
        else pa.repeat(pa.scalar(batch if field.name == "batch" else None, field.type), len(chunk))
        for field in _SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)


def _read_moment(ms: int | None) -> int | None:
    """Return a record's timestamp in microseconds; None if no moment can be so late."""
    return None if ms is None or abs(ms) > _LATEST_MS else ms * 1000
