"""Commit events together with their markers, and count what was committed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from ticdc_assets.lake.events.event_files import EventFile
from ticdc_assets.lake.raw.erased_records import ERASED
from ticdc_assets.plan.row_group import UndecodedFiles
from ticdc_assets.store.contracts import STATISTICS
from ticdc_assets.store.data_files import write_data_file
from ticdc_assets.store.event_rows import SCHEMA, Arrival, make_batch, to_arrow
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader, count_by
from ticdc_assets.store.small_tables import open_files, read_schema
from ticdc_assets.store.sql import quote_literal
from ticdc_assets.store.stage_commits import (
    StageMark,
    commit_files,
    commit_frame,
    commit_rows,
    read_last_stage_commit,
)
from ticdc_assets.store.work_size import sized_for
from ticdc_assets.store.writer import is_writable

BYTES_PER_COMMIT = 8 << 30
_STAGE = "decode"
_STATEMENTS = ("ddl", "bootstrap")


@dataclass(frozen=True)
class DecodeResult:
    """The result of one decode."""

    rows: int
    ddls: int
    quarantined: int
    # Data files not decoded yet: their schema is unknown, or their storage does not answer.
    waiting: tuple[UndecodedFiles, ...]
    bytes: int
    # Every batch up to this one is decoded completely.
    done_through: int
    # The newest batch that is decoded except for waiting files.
    newest: int


@dataclass(frozen=True)
class DecodeCounts:
    """The committed events of one decode."""

    rows: int = 0
    ddls: int = 0
    quarantined: int = 0
    files: int = 0
    # What is left of events of erased rows.
    erased: int = 0

    def __add__(self, other: "DecodeCounts") -> "DecodeCounts":
        return DecodeCounts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class Decoded:
    """Events to commit: few were decoded in this process, many by Spark's workers.

    These have written data files; what was decoded again is a frame.
    """

    data: DataFrame | list[EventFile] | Iterable[pa.RecordBatch] = ()
    control: Sequence[Arrival] = ()
    # An SQL condition: the commit removes the earlier events for which it holds.
    replaced: str | None = None


def select_of_paths(paths: Sequence[str]) -> str | None:
    """Return an SQL condition for the events of files; None without files."""
    if not paths:
        return None
    sources = ", ".join(map(quote_literal, paths))
    return f"kind <> 'batch' AND kind <> 'watermark' AND source IN ({sources})"


class EventCommits:
    """Commits events; a commit is void if another run has committed since this was created.

    `counts` are those of the events that were committed, without what was decoded again.
    """

    def __init__(self, lake: LakeSession) -> None:
        self._lake = lake
        # Read before any data: a later commit of another run makes ours void.
        self._number = read_last_stage_commit(lake, "events", _STAGE).number
        self.counts = DecodeCounts()

    def commit(self, decoded: Decoded, batches: Sequence[tuple[int, int]]) -> bool:
        """Commit the events of whole batches (number and last seq); return False if it was void."""
        rows = _make_table(decoded.control, batches)
        self._number += 1
        mark = StageMark(_STAGE, self._number)
        if isinstance(decoded.data, DataFrame):
            return self._commit_frame(decoded.data, rows, mark, decoded.replaced)
        files = decoded.data if isinstance(decoded.data, list) else []
        if not files:
            rows = pa.concat_tables([rows, *_make_tables(decoded.data)])
        if decoded.replaced is not None:
            is_committed = self._commit_frame(self._open(files), rows, mark, decoded.replaced)
        elif not files:
            is_committed = commit_rows(self._lake, "events", rows, mark)
        elif is_writable(LakeReader(self._lake.location).open("events")):
            is_committed = self._commit_files(files, rows, mark)
        else:
            is_committed = self._commit_frame(self._open(files), rows, mark)
        if is_committed:
            counts = (_make_counts(each.kinds) for each in files)
            self.counts += sum(counts, _count_kinds(rows))
        return is_committed

    def _commit_files(self, files: Sequence[EventFile], control: pa.Table, mark: StageMark) -> bool:
        """Commit the files of workers, and one with rows of this process."""
        written = [each.file for each in files]
        if control.num_rows:
            measured = STATISTICS["events"]
            written.append(write_data_file(self._lake.location, "events", control, measured))
        return commit_files(self._lake, "events", written, mark)

    def _open(self, files: Sequence[EventFile]) -> DataFrame | None:
        """Open the files of workers for a commit that needs Spark."""
        if not files:
            return None
        written = [each.file for each in files]
        schema = read_schema(LakeReader(self._lake.location).open("events"))
        types = [schema[name].dataType.simpleString() for name in SCHEMA.names]
        return open_files(self._lake, "events", written, SCHEMA, types)

    def _commit_frame(
        self,
        frame: DataFrame | None,
        rows: pa.Table,
        mark: StageMark,
        replaced: str | None = None,
    ) -> bool:
        """Commit a frame, and rows of this process, with Spark."""
        is_small = frame is None
        if frame is None:
            frame = self._lake.make_frame(rows).coalesce(1)
        elif rows.num_rows:
            # Spark Connect makes no frame without rows.
            frame = self._lake.make_frame(rows).coalesce(1).union(frame)
        with sized_for(self._lake, small=is_small):
            return commit_frame(self._lake, "events", frame, mark, replaced)


def _count_kinds(rows: pa.Table) -> DecodeCounts:
    return _make_counts(count_by("kind", rows.select(["kind"])))


def _make_counts(kinds: Mapping[str, int]) -> DecodeCounts:
    return DecodeCounts(
        rows=kinds.get("row", 0),
        ddls=sum(kinds.get(kind, 0) for kind in _STATEMENTS),
        quarantined=kinds.get("quarantined", 0),
        files=kinds.get("file", 0),
        erased=kinds.get(ERASED, 0),
    )


def _make_tables(batches: Iterable[pa.RecordBatch]) -> list[pa.Table]:
    return [pa.Table.from_batches([batch]) for batch in batches]


def _make_table(control: Sequence[Arrival], batches: Sequence[tuple[int, int]]) -> pa.Table:
    markers: list[dict[str, Any]] = [
        {"batch": batch, "seq": seq, "kind": "batch"} for batch, seq in batches
    ]
    return pa.Table.from_batches([*to_arrow(control), make_batch(markers)], schema=SCHEMA)
