"""Decode the records of topics: every batch of `raw` whose events are not in `events` yet.

Few records are decoded in this process.  Of many, Spark's workers get names of data files of `raw`:
they read these and write data files of `events` by themselves, and the driver commits those.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from ticdc_assets.lake.events.decode_workers import RECORD_COLUMNS, Worker, make_record_worker
from ticdc_assets.lake.events.erased_events import read_erased_events
from ticdc_assets.lake.events.event_commits import Decoded, DecodeResult, EventCommits
from ticdc_assets.lake.events.event_files import EventFile, write_events
from ticdc_assets.lake.events.quarantine import update_quarantine
from ticdc_assets.lake.raw.erased_records import erase_repeated_records
from ticdc_assets.protocols.payload import PayloadStore
from ticdc_assets.store.arrow import arrow_schema
from ticdc_assets.store.commits import group_by_size
from ticdc_assets.store.contracts import RAW_RECORDS
from ticdc_assets.store.file_blocks import open_parquet
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import FileList, LakeReader
from ticdc_assets.store.work_size import count_little
from ticdc_assets.store.workers import run_in_workers
from ticdc_assets.upstream.snapshot import OpenUpstream

# Bytes of data files of `raw`, which are compressed.
_BYTES_PER_COMMIT = 1 << 30
# About what one task decodes, unless a row group has more.
_RECORDS_PER_TASK = 50_000
_RECORDS_PER_READ = 10_000
_SCHEMA = pa.schema([arrow_schema(RAW_RECORDS).field(name) for name in RECORD_COLUMNS])


class TopicDecode:
    """Decodes the records in `raw` after the batch `since`, up to which everything is decoded.

    `open_payloads` and `open_upstream` open the claim-check storage and the database upstream in
    the workers, so they must pickle.
    """

    def __init__(
        self,
        lake: LakeSession,
        open_payloads: Callable[[], PayloadStore] | None,
        open_upstream: OpenUpstream | None = None,
        *,
        since: int,
    ) -> None:
        self._lake = lake
        self._since = since
        self._commits = EventCommits(lake)
        self._reader = reader = LakeReader(lake.location)
        is_marker = pc.field("kind").isin(["batch", "quarantined"])
        where = (pc.field("batch") > since) & is_marker
        markers = reader.read(reader.open("events"), ["kind", "batch"], where)
        is_batch = pc.equal(markers["kind"], "batch")
        self._decoded: list[int] = pc.unique(markers["batch"].filter(is_batch)).to_pylist()
        self._has_quarantined = not pc.all(is_batch, min_count=0).as_py()
        erased = read_erased_events(reader)
        self._decode = make_record_worker(lake.feed, open_payloads, open_upstream, erased)
        self._size = 0
        self._is_void = False

    def decode_many(self) -> None:
        """Decode what `raw` has by now, unless it is so little that `finish` does it."""
        raw = self._reader.open("raw")
        if not (self._is_void or self._is_small(raw)):
            self._commit(self._decode_in_workers(raw))

    def finish(self) -> DecodeResult:
        """Decode the rest, and return what was decoded in all."""
        raw = self._reader.open("raw")
        decode = self._decode_here if self._is_small(raw) else self._decode_in_workers
        self._commit(decode(raw))
        counts = self._commits.counts
        if self._has_quarantined or counts.quarantined:
            update_quarantine(self._lake, self._since, {}, of_records=True)
        if counts.erased:
            # They came again, with all of their values.
            erase_repeated_records(self._lake.location, self._since)
        done_through = self._since if self._is_void else self._newest
        return DecodeResult(
            rows=counts.rows,
            ddls=counts.ddls,
            quarantined=counts.quarantined,
            waiting=(),
            bytes=self._size,
            done_through=done_through,
            newest=done_through,
        )

    @property
    def _newest(self) -> int:
        """The newest batch that is decoded."""
        return max([self._since, *self._decoded])

    @property
    def _pending(self) -> "_Pending":
        return _Pending(self._since, frozenset(self._decoded))

    def _is_small(self, raw: DeltaTable) -> bool:
        times = count_little(self._lake, 1)
        return self._reader.is_small(raw, {"batch": self._newest}, times=times)

    def _decode_here(self, raw: DeltaTable) -> Iterator["_DecodedBatches"]:
        rows = self._reader.read(raw, RECORD_COLUMNS, self._pending.where).sort_by("seq")
        if rows.num_rows:
            size = pc.sum(pc.binary_length(rows["value"])).as_py() or 0
            yield _DecodedBatches(self._decode(rows.to_batches()), _find_last_seqs(rows), size)

    def _decode_in_workers(self, raw: DeltaTable) -> Iterator["_DecodedBatches"]:
        pending = self._pending
        do = _RecordDecoder(self._lake.location, pending, self._decode)
        files = self._reader.list_files(raw).above({"batch": self._since})
        for group in _group_files(files, pending):
            shares = chain.from_iterable(map(_split_file, group))
            tasks = [
                (tuple(together),)
                for together in group_by_size(shares, lambda s: s.records, _RECORDS_PER_TASK)
            ]
            done = [*run_in_workers(self._lake, do, tasks, _Done)]
            batches: dict[int, int] = {}
            for each in done:
                _keep_greatest(batches, each.batches)
            if batches:
                events = [file for each in done for file in each.files]
                yield _DecodedBatches(events, batches, sum(each.size for each in done))

    def _commit(self, parts: Iterable["_DecodedBatches"]) -> None:
        for part in parts:
            batches = sorted(part.batches.items())
            if self._is_void or not self._commits.commit(Decoded(part.events), batches):
                # Another run committed first; the next run sees what it decoded.
                self._is_void = True
                return
            self._size += part.size
            self._decoded += part.batches


@dataclass(frozen=True)
class _Pending:
    """Which batches are not decoded yet: those after `since`, without some."""

    since: int
    decoded: frozenset[int]

    @property
    def where(self) -> pc.Expression:
        batch = pc.field("batch")
        return (batch > self.since) & ~batch.isin(sorted(self.decoded))


@dataclass(frozen=True)
class _DecodedBatches:
    """The events of whole batches, the last seq of each batch, and the bytes of their records."""

    events: list[EventFile] | Iterable[pa.RecordBatch]
    batches: Mapping[int, int]
    size: int


def _find_last_seqs(rows: pa.Table) -> dict[int, int]:
    """Return the last seq of each batch."""
    last = rows.group_by("batch").aggregate([("seq", "max")])
    return dict(zip(last["batch"].to_pylist(), last["seq_max"].to_pylist(), strict=True))


def _keep_greatest(batches: dict[int, int], more: Mapping[int, int]) -> None:
    for batch, seq in more.items():
        batches[batch] = max(seq, batches.get(batch, 0))


# In Spark's workers


class _Share(NamedTuple):
    """A share of the row groups of a data file of `raw`: which, and of how many."""

    path: str
    number: int
    of: int
    # About how many records.
    records: int


class _Done(msgspec.Struct, frozen=True):
    """What a task has decoded: see `_DecodedBatches`."""

    files: list[EventFile]
    batches: dict[int, int]
    size: int


@dataclass(frozen=True)
class _RecordDecoder:
    """Decodes shares of data files of `raw`, and writes their events."""

    location: Lake
    pending: _Pending
    decode: Worker

    def __call__(self, shares: Sequence[_Share]) -> _Done:
        batches: dict[int, int] = {}
        size = 0

        def read() -> Iterator[pa.RecordBatch]:
            nonlocal size
            for share in shares:
                for rows in self._read(share):
                    _keep_greatest(batches, _find_last_seqs(rows))
                    size += pc.sum(pc.binary_length(rows["value"])).as_py() or 0
                    yield from rows.to_batches()

        files = [*write_events(self.location, self.decode(read()))]
        return _Done(files, batches, size)

    def _read(self, share: _Share) -> Iterator[pa.Table]:
        """Read the records of a share that are not decoded yet."""
        reader = LakeReader(self.location)
        folder = reader.open_folder("raw")
        with (
            reader.explained(self.location.path("raw")),
            folder.open_input_file(share.path) as opened,
        ):
            parquet = open_parquet(opened)
            groups = parquet.num_row_groups
            first, end = (groups * n // share.of for n in (share.number, share.number + 1))
            for batch in parquet.iter_batches(
                _RECORDS_PER_READ, range(first, end), [*RECORD_COLUMNS], use_threads=False
            ):
                rows = pa.Table.from_batches([batch]).select(RECORD_COLUMNS).cast(_SCHEMA)
                yield rows.filter(self.pending.where)


# Data files of `raw`


class _RawFile(NamedTuple):
    """A data file of `raw`, and the batches that it may have."""

    first: int
    last: int
    path: str
    size: int
    records: int


def _group_files(files: FileList, pending: _Pending) -> Iterator[list[_RawFile]]:
    """Group files by what is committed together: no batch is in two groups."""
    linked: list[list[_RawFile]] = []
    last = -1
    for file in sorted(_list_files(files)):
        if file.first == file.last and file.first in pending.decoded:
            continue
        if file.first <= last:
            linked[-1].append(file)
        else:
            linked.append([file])
        last = max(last, file.last)
    groups = group_by_size(linked, lambda group: sum(f.size for f in group), _BYTES_PER_COMMIT)
    for group in groups:
        yield [*chain.from_iterable(group)]


def _list_files(files: FileList) -> Iterator[_RawFile]:
    nothing = [None] * len(files.paths)
    columns = (
        files.actions[name].to_pylist() if name in files.actions.column_names else nothing
        for name in ("min.batch", "max.batch", "size_bytes", "num_records")
    )
    for path, first, last, size, records in zip(files.paths, *columns, strict=True):
        # A file without statistics may have any batch.
        yield _RawFile(
            0 if first is None else first,
            sys.maxsize if last is None else last,
            path,
            size or 0,
            records or _RECORDS_PER_TASK,
        )


def _split_file(file: _RawFile) -> Iterator[_Share]:
    count = -(-file.records // _RECORDS_PER_TASK)
    for number in range(count):
        yield _Share(file.path, number, count, file.records // count)
