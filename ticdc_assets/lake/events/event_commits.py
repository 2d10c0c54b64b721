"""Commit events together with their markers, and count what was committed."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from ticdc_assets.lake.events.event_rows import SCHEMA, Arrival, make_batch, to_arrow
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.observed import read_metrics
from ticdc_assets.lake.store.sql import quote_literal
from ticdc_assets.lake.store.stage_commits import (
    make_stage_writer,
    read_last_stage_commit,
    was_committed,
)
from ticdc_assets.lake.store.work_size import sized_for
from ticdc_assets.plan.row_group import UndecodedFiles

BYTES_PER_COMMIT = 8 << 30
_STAGE = "decode"


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


class EventCommits:
    """Commits events; a commit is void if another run has committed since this was created."""

    def __init__(self, lake: LakeSession, since: int) -> None:
        self._lake = lake
        self._since = since
        # Read before any data: a later commit of another run makes ours void.
        self._number = read_last_stage_commit(lake, "events", _STAGE).number
        self._batches: list[int] = []
        self._observations: list[Observation] = []

    def commit(
        self,
        data: DataFrame | None,
        control: Sequence[Arrival],
        batches: Sequence[tuple[int, int]],
        *,
        replaced: Sequence[str] = (),
        small: bool,
    ) -> bool:
        """Commit the events of whole batches (number and last seq); return False if it was void.

        The same commit removes earlier events of the replaced paths.
        """
        frame = self._lake.spark.createDataFrame(_make_table(control, batches)).coalesce(1)
        if data is not None:
            frame = frame.union(data)
        if small:
            frame = frame.coalesce(1)
        observation = Observation()
        kind = F.col("kind")
        writer = frame.observe(
            observation,
            F.count_if(kind == "row").alias("rows"),
            F.count_if(kind.isin("ddl", "bootstrap")).alias("ddls"),
            F.count_if(kind == "quarantined").alias("quarantined"),
            F.count_if(kind == "file").alias("files"),
        ).write
        if replaced:
            sources = ", ".join(map(quote_literal, replaced))
            old = f"kind <> 'batch' AND kind <> 'watermark' AND source IN ({sources})"
            writer = writer.mode("overwrite").option("replaceWhere", old)
        else:
            writer = writer.mode("append")
        self._number += 1
        writer, token = make_stage_writer(writer, _STAGE, self._number)
        with sized_for(self._lake.spark, small=small):
            writer.save(self._lake.path("events"))
        if not was_committed(self._lake, "events", token):
            return False
        self._batches += [batch for batch, _ in batches]
        self._observations.append(observation)
        return True

    def count_events(self) -> DecodeCounts:
        """Count the events that this object has committed."""
        metrics = [read_metrics(observation) for observation in self._observations]
        if all(metrics):
            return DecodeCounts(
                **{f.name: sum(counts[f.name] for counts in metrics) for f in fields(DecodeCounts)}
            )
        # A Spark Connect client may not receive observed metrics.
        mine = F.col("batch").isin(self._batches)
        events = self._lake.read("events").where(f"batch > {self._since}").where(mine)
        kinds = {row["kind"]: row["count"] for row in events.groupBy("kind").count().collect()}
        statements = kinds.get("ddl", 0) + kinds.get("bootstrap", 0)
        return DecodeCounts(
            rows=kinds.get("row", 0),
            ddls=statements,
            quarantined=kinds.get("quarantined", 0),
            files=kinds.get("file", 0),
        )


def _make_table(control: Sequence[Arrival], batches: Sequence[tuple[int, int]]) -> pa.Table:
    markers: list[dict[str, Any]] = [
        {"batch": batch, "seq": seq, "kind": "batch"} for batch, seq in batches
    ]
    return pa.Table.from_batches([*to_arrow(control), make_batch(markers)], schema=SCHEMA)
