"""Decode the records of topics: every batch of `raw` whose events are not in `events` yet."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.events.decode_workers import RECORD_COLUMNS, Worker, make_record_worker
from ticdc_assets.lake.events.event_commits import (
    BYTES_PER_COMMIT,
    Decoded,
    DecodeResult,
    EventCommits,
)
from ticdc_assets.lake.events.event_files import EventFile, takes_files, write_event_files
from ticdc_assets.lake.events.quarantine import update_quarantine
from ticdc_assets.lake.store.commits import group_by_size
from ticdc_assets.lake.store.contracts import EVENTS
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.reader import MANY_ROWS, LakeReader
from ticdc_assets.protocols.payload import PayloadStore
from ticdc_assets.upstream.snapshot import OpenUpstream

# A line of the traceback of a worker.
_CONFIG_ERROR = re.compile(
    r"^ticdc_assets\.[\w.]+\.(?:ConfigError|UpstreamError|TableUnreadable): (.+)$", re.M
)


def decode_topic(
    lake: LakeSession,
    open_payloads: Callable[[], PayloadStore] | None,
    open_upstream: OpenUpstream | None = None,
    *,
    since: int,
) -> DecodeResult:
    """Decode the records in `raw` after the batch `since`, up to which everything is decoded.

    `open_payloads` and `open_upstream` open the claim-check storage and the database upstream in
    the workers, so they must pickle.
    """
    commits = EventCommits(lake, since)
    reader = LakeReader(lake.location)
    is_marker = pc.field("kind").isin(["batch", "quarantined"])
    where = (pc.field("batch") > since) & is_marker
    markers = reader.read(reader.open("events"), ["kind", "batch"], where)
    is_batch = pc.equal(markers["kind"], "batch")
    decoded = pc.unique(markers["batch"].filter(is_batch)).to_pylist()
    has_quarantined = not pc.all(is_batch, min_count=0).as_py()
    decode = make_record_worker(lake.feed, open_payloads, open_upstream)
    done_through = max([since, *decoded])
    size = 0
    for group in _read_pending(lake, since, decoded):
        with _config_errors():
            is_committed = commits.commit(
                Decoded(_decode(lake, group.records, decode)), group.batches
            )
        if not is_committed:
            # Another run committed first; the next run sees what it decoded.
            done_through = since
            break
        size += group.size
        done_through = max(done_through, group.batches[-1][0])
    counts = commits.count_events()
    if has_quarantined or counts.quarantined:
        update_quarantine(lake, since, {}, of_records=True)
    return DecodeResult(
        rows=counts.rows,
        ddls=counts.ddls,
        quarantined=counts.quarantined,
        waiting=(),
        bytes=size,
        done_through=done_through,
        newest=done_through,
    )


def _decode(
    lake: LakeSession, records: DataFrame | list[pa.RecordBatch], decode: Worker
) -> DataFrame | list[EventFile] | Iterable[pa.RecordBatch]:
    if not isinstance(records, DataFrame):
        return decode(records)
    if not takes_files(lake):
        return records.mapInArrow(decode, EVENTS)
    return write_event_files(lake, records, decode)


@contextmanager
def _config_errors() -> Iterator[None]:
    try:
        yield
    except (PySparkException, Py4JJavaError) as failure:
        found = _CONFIG_ERROR.search(str(failure))
        if found is None:
            raise
        # Storage or database of a worker: the settings are at fault, and not the job.
        raise ConfigError(found[1]) from None


@dataclass(frozen=True)
class _PendingRecords:
    """Whole batches to decode together: their records, their numbers with the last seq, bytes."""

    records: DataFrame | list[pa.RecordBatch]
    batches: list[tuple[int, int]]
    size: int


def _read_pending(
    lake: LakeSession, since: int, decoded: Sequence[int]
) -> Iterator[_PendingRecords]:
    """Read the records of the batches that are not decoded yet: few in this process."""
    reader = LakeReader(lake.location)
    raw = reader.open("raw")
    if reader.is_small(raw, {"batch": since}):
        is_pending = (pc.field("batch") > since) & ~pc.field("batch").isin(list(decoded))
        rows = reader.read(raw, [*RECORD_COLUMNS], is_pending).sort_by("seq")
        if rows.num_rows:
            yield _PendingRecords(
                rows.to_batches(),
                list(zip(*_last_seqs(rows), strict=True)),
                pc.sum(pc.binary_length(rows["value"])).as_py() or 0,
            )
        return
    records = lake.read("raw").where(f"batch > {since}")
    pending = _read_pending_batches(records, decoded)
    for group in group_by_size(pending, lambda batch: batch["size"], BYTES_PER_COMMIT):
        chosen = records.where(f"batch IN ({_join([batch['batch'] for batch in group])})")
        if sum(batch["records"] for batch in group) < MANY_ROWS:
            chosen = chosen.coalesce(1)
        yield _PendingRecords(
            chosen.select(*RECORD_COLUMNS),
            [(batch["batch"], batch["last_seq"]) for batch in group],
            sum(batch["size"] for batch in group),
        )


def _last_seqs(rows: pa.Table) -> tuple[list[int], list[int]]:
    """Return the batches of rows in order, and the last seq of each."""
    last = rows.group_by("batch").aggregate([("seq", "max")]).sort_by("batch")
    return last["batch"].to_pylist(), last["seq_max"].to_pylist()


def _read_pending_batches(records: DataFrame, decoded: Sequence[int]) -> list[Row]:
    """Read the number, the last seq, the record count and the size of batches not decoded yet."""
    if decoded:
        records = records.where(f"batch NOT IN ({_join(decoded)})")
    batches = records.groupBy("batch").agg(
        F.max("seq").alias("last_seq"),
        F.count("*").alias("records"),
        F.coalesce(F.sum(F.octet_length("value")), F.lit(0)).alias("size"),
    )
    return batches.orderBy("batch").collect()


def _join(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
