"""Commit events together with their markers, and count what was committed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from ticdc_assets.lake.events.event_files import EventFile
from ticdc_assets.lake.events.event_rows import SCHEMA, Arrival, make_batch, to_arrow
from ticdc_assets.lake.store.contracts import STATISTICS
from ticdc_assets.lake.store.data_files import write_data_file
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.observed import read_metrics
from ticdc_assets.lake.store.reader import LakeReader, count_by
from ticdc_assets.lake.store.sql import quote_literal
from ticdc_assets.lake.store.stage_commits import (
    StageMark,
    commit_files,
    commit_frame,
    commit_rows,
    read_last_stage_commit,
)
from ticdc_assets.lake.store.work_size import sized_for
from ticdc_assets.plan.row_group import UndecodedFiles

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

    def __add__(self, other: "DecodeCounts") -> "DecodeCounts":
        return DecodeCounts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class Decoded:
    """Events to commit: few were decoded in this process, many by Spark's workers.

    These have written data files, unless the commit needs Spark: then the frame decodes.
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
    """Commits events; a commit is void if another run has committed since this was created."""

    def __init__(self, lake: LakeSession, since: int) -> None:
        self._lake = lake
        self._since = since
        # Read before any data: a later commit of another run makes ours void.
        self._number = read_last_stage_commit(lake, "events", _STAGE).number
        self._batches: list[int] = []
        self._observations: list[Observation] = []
        self._counted = DecodeCounts()

    def commit(self, decoded: Decoded, batches: Sequence[tuple[int, int]]) -> bool:
        """Commit the events of whole batches (number and last seq); return False if it was void."""
        control = _make_table(decoded.control, batches)
        self._number += 1
        mark = StageMark(_STAGE, self._number)
        rows = control
        files = decoded.data if isinstance(decoded.data, list) else []
        if not files and not isinstance(decoded.data, DataFrame):
            rows = pa.concat_tables([control, *_make_tables(decoded.data)])
        if isinstance(decoded.data, DataFrame) or decoded.replaced:
            is_committed = self._commit_frame(decoded, rows, mark)
        elif files:
            is_committed = self._commit_files(files, rows, mark)
        else:
            is_committed = commit_rows(self._lake, "events", rows, mark)
            if is_committed:
                self._counted += _count_kinds(rows)
        if is_committed:
            self._batches += [batch for batch, _ in batches]
        return is_committed

    def _commit_files(self, files: Sequence[EventFile], control: pa.Table, mark: StageMark) -> bool:
        """Commit the files of workers, and one with rows of this process."""
        written = [each.file for each in files]
        if control.num_rows:
            measured = STATISTICS["events"]
            written.append(write_data_file(self._lake.location, "events", control, measured))
        is_committed = commit_files(self._lake, "events", written, mark)
        if is_committed:
            counts = (_make_counts(each.kinds) for each in files)
            self._counted += sum(counts, _count_kinds(control))
        return is_committed

    def _commit_frame(self, decoded: Decoded, rows: pa.Table, mark: StageMark) -> bool:
        """Commit rows of this process, and what the workers decode, with Spark."""
        if not isinstance(decoded.data, DataFrame):
            frame = self._lake.make_frame(rows).coalesce(1)
        elif rows.num_rows:
            frame = self._lake.make_frame(rows).coalesce(1).union(decoded.data)
        else:
            # Spark Connect makes no frame without rows.
            frame = decoded.data
        observation = Observation()
        kind = F.col("kind")
        observed = frame.observe(
            observation,
            F.count_if(kind == "row").alias("rows"),
            F.count_if(kind.isin(*_STATEMENTS)).alias("ddls"),
            F.count_if(kind == "quarantined").alias("quarantined"),
            F.count_if(kind == "file").alias("files"),
        )
        with sized_for(self._lake, small=not isinstance(decoded.data, DataFrame)):
            is_committed = commit_frame(self._lake, "events", observed, mark, decoded.replaced)
        if is_committed:
            self._observations.append(observation)
        return is_committed

    def count_events(self) -> DecodeCounts:
        """Count the events that this object has committed."""
        metrics = [read_metrics(observation) for observation in self._observations]
        if all(metrics):
            return sum((DecodeCounts(**counts) for counts in metrics), self._counted)
        # A Spark Connect client may not receive observed metrics.
        mine = (pc.field("batch") > self._since) & pc.field("batch").isin(self._batches)
        reader = LakeReader(self._lake.location)
        return _count_kinds(reader.read(reader.open("events"), ["kind"], mine))


def _count_kinds(rows: pa.Table) -> DecodeCounts:
    return _make_counts(count_by("kind", rows.select(["kind"])))


def _make_counts(kinds: Mapping[str, int]) -> DecodeCounts:
    return DecodeCounts(
        rows=kinds.get("row", 0),
        ddls=sum(kinds.get(kind, 0) for kind in _STATEMENTS),
        quarantined=kinds.get("quarantined", 0),
        files=kinds.get("file", 0),
    )


def _make_tables(batches: Iterable[pa.RecordBatch]) -> list[pa.Table]:
    return [pa.Table.from_batches([batch]) for batch in batches]


def _make_table(control: Sequence[Arrival], batches: Sequence[tuple[int, int]]) -> pa.Table:
    markers: list[dict[str, Any]] = [
        {"batch": batch, "seq": seq, "kind": "batch"} for batch, seq in batches
    ]
    return pa.Table.from_batches([*to_arrow(control), make_batch(markers)], schema=SCHEMA)
