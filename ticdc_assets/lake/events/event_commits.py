"""The commits of decode: events with their markers, one at a time, and what came of them."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from ticdc_assets.lake.events.event_rows import SCHEMA, Arrival, from_dicts, to_arrow
from ticdc_assets.lake.store.codegen import set_codegen
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.sql import quote_literal
from ticdc_assets.lake.store.stage_commits import last_stage_commit, stage_writer, was_committed
from ticdc_assets.plan.row_group import UndecodedFiles

STAGE = "decode"


@dataclass(frozen=True)
class DecodeResult:
    """What one decode did."""

    rows: int
    ddls: int
    quarantined: int
    # Data files that are not decoded: without a schema, or not to be read just now.
    waiting: tuple[UndecodedFiles, ...]
    bytes: int
    # Every batch up to this one is decoded entirely.
    done_through: int
    # The newest batch that is decoded but for what waits.
    newest: int


@dataclass(frozen=True)
class DecodeCounts:
    """What became of the input of one decode."""

    rows: int = 0
    ddls: int = 0
    quarantined: int = 0
    files: int = 0


class EventCommits:
    """Writes events; each commit is made only if no other run has made one meanwhile."""

    def __init__(self, lake: LakeSession, since: int) -> None:
        self._lake = lake
        self._since = since
        # Taken before anything is read: whoever commits after that makes ours void.
        self._number = last_stage_commit(lake, "events", STAGE).number
        self._batches: list[int] = []
        self._heard: list[Observation] = []

    def commit(
        self,
        data: DataFrame | None,
        control: Sequence[Arrival],
        batches: Sequence[tuple[int, int]],
        *,
        replaced: Sequence[str] = (),
        small: bool,
    ) -> bool:
        """Write the events of whole batches, given with their last seq.

        Earlier events of the replaced paths are gone with the same commit.
        """
        frame = self._lake.spark.createDataFrame(_table(control, batches)).coalesce(1)
        if data is not None:
            frame = frame.union(data)
        if small:
            frame = frame.coalesce(1)
        heard = Observation()
        of = F.col("kind")
        writer = frame.observe(
            heard,
            F.count_if(of == "row").alias("rows"),
            F.count_if(of.isin("ddl", "bootstrap")).alias("ddls"),
            F.count_if(of == "quarantined").alias("quarantined"),
            F.count_if(of == "file").alias("files"),
        ).write
        if replaced:
            sources = ", ".join(map(quote_literal, replaced))
            old = f"kind <> 'batch' AND kind <> 'watermark' AND source IN ({sources})"
            writer = writer.mode("overwrite").option("replaceWhere", old)
        else:
            writer = writer.mode("append")
        self._number += 1
        writer, token = stage_writer(writer, STAGE, self._number)
        with set_codegen(self._lake.spark, not small):
            writer.save(self._lake.path("events"))
        if not was_committed(self._lake, "events", token):
            return False
        self._batches += [batch for batch, _ in batches]
        self._heard.append(heard)
        return True

    def counts(self) -> DecodeCounts:
        """What the commits of this run hold."""
        got = [heard.get for heard in self._heard]
        if all(got):
            return DecodeCounts(
                **{f.name: sum(counts[f.name] for counts in got) for f in fields(DecodeCounts)}
            )
        # A client of Spark Connect may not be told.
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


def _table(control: Sequence[Arrival], batches: Sequence[tuple[int, int]]) -> pa.Table:
    markers: list[dict[str, Any]] = [
        {"batch": batch, "seq": seq, "kind": "batch"} for batch, seq in batches
    ]
    return pa.Table.from_batches([*to_arrow(control), from_dicts(markers)], schema=SCHEMA)
