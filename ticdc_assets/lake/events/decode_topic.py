"""Decode the records of topics: every batch of `raw` whose events are not in `events` yet."""

from collections.abc import Callable, Sequence

import pyarrow.compute as pc
from pyspark.sql import Row
from pyspark.sql import functions as F

from ticdc_assets.lake.events.decode_workers import RECORD_COLUMNS, make_record_worker
from ticdc_assets.lake.events.event_commits import BYTES_PER_COMMIT, DecodeResult, EventCommits
from ticdc_assets.lake.events.quarantine import update_quarantine
from ticdc_assets.lake.store.commits import group_by_size
from ticdc_assets.lake.store.contracts import EVENTS
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.protocols.payload import PayloadStore

# Fewer records than this decode faster in one task than in several.
_SMALL_RECORDS = 20_000


def decode_topic(
    lake: LakeSession, open_payloads: Callable[[], PayloadStore] | None, *, since: int
) -> DecodeResult:
    """Decode the records in `raw` after the batch `since`, up to which everything is decoded.

    `open_payloads` opens the claim-check storage in the workers, so it must pickle.
    """
    commits = EventCommits(lake, since)
    reader = LakeReader(lake.location)
    is_marker = pc.field("kind").isin(["batch", "quarantined"])
    where = (pc.field("batch") > since) & is_marker
    markers = reader.read(reader.open("events"), ["kind", "batch"], where)
    is_batch = pc.equal(markers["kind"], "batch")
    decoded = pc.unique(markers["batch"].filter(is_batch)).to_pylist()
    has_quarantined = not pc.all(is_batch, min_count=0).as_py()
    raw = lake.read("raw").where(f"batch > {since}")
    decode = make_record_worker(lake.feed, open_payloads)
    done_through = max([since, *decoded])
    size = 0
    pending = _read_pending_batches(lake, since, decoded)
    for group in group_by_size(pending, lambda batch: batch["size"], BYTES_PER_COMMIT):
        records = raw.where(f"batch IN ({_join([batch['batch'] for batch in group])})")
        is_committed = commits.commit(
            records.selectExpr(*RECORD_COLUMNS).mapInArrow(decode, EVENTS),
            [],
            [(batch["batch"], batch["last_seq"]) for batch in group],
            small=sum(batch["records"] for batch in group) < _SMALL_RECORDS,
        )
        if not is_committed:
            # Another run committed first; the next run sees what it decoded.
            done_through = since
            break
        size += sum(batch["size"] for batch in group)
        done_through = max(done_through, group[-1]["batch"])
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


def _read_pending_batches(lake: LakeSession, since: int, decoded: Sequence[int]) -> list[Row]:
    """Read the number, the last seq, the record count and the size of batches not decoded yet."""
    pending = lake.read("raw").where(f"batch > {since}")
    if decoded:
        pending = pending.where(f"batch NOT IN ({_join(decoded)})")
    batches = pending.groupBy("batch").agg(
        F.max("seq").alias("last_seq"),
        F.count("*").alias("records"),
        F.coalesce(F.sum(F.octet_length("value")), F.lit(0)).alias("size"),
    )
    return batches.orderBy("batch").collect()


def _join(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
