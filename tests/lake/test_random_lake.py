"""Random workloads through Spark: tables are what a naive upstream has, wherever windows are cut.

What is covered by what:

`test_histories_are_told_as_they_were` is without Spark: it holds the workloads and what is made of
them here against a lake in memory, so that a difference is the lake's.

`test_many_histories_at_once` carries many histories through the planning and the composition of
frames: events in a real `events` table, read, planned and typed as `apply` does it, in windows cut
anywhere; but the frames that come out are collected, not written, and a next window starts from
what was collected.  So it says nothing of merges, appends, reshaping and commits.

`test_histories_through_commits` is `apply` itself, window after window, with every commit it makes
in tables of every kind; of that there are few, as each commit costs a second or so.

All have the DDLs of `tests.reference.test_ddl_random`, tables with and without keys, all manners of
telling, and events that are told twice; where order says nothing, in any order, and some early.
"""

import dataclasses
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.lake.histories import History, histories
from tests.lake.history_lake import IMAGE, Told, shown
from tests.plan.engine import Engine
from tests.plan.pictures import shown as in_memory
from tests.reference.changefeeds import DATABASE, MANNERS
from tests.reference.random_upstream import Shown
from ticdc_assets.lake.apply.apply import apply
from ticdc_assets.lake.apply.control_events import read_control_events
from ticdc_assets.lake.apply.frames import Frames
from ticdc_assets.lake.apply.window import prepare_window
from ticdc_assets.lake.columns.writing import write_images
from ticdc_assets.lake.log.applied import Snapshot, read_last_snapshot
from ticdc_assets.plan.state import Incarnation

AT_ONCE = 3


def composed(told: Told, random: Random, windows: int) -> int:
    """Carry histories through composed frames, window by window; how many tables there were."""
    lake = told.lake
    cuts = told.cuts(random, windows)
    pieces = zip(*(history.pieces(cuts) for history in told.histories), strict=True)
    applied, kept, count = Snapshot(), dict[str, pa.Table](), 0
    frames: Frames | None = None
    for batch, (ts, piece) in enumerate(zip(cuts, pieces, strict=True), 1):
        told.take(batch, [event for events in piece for event in events], ts)
        control = read_control_events(lake, applied, batch)
        assert (control.late, control.resolved_ts) == ((), ts)
        control = dataclasses.replace(control, more_may_come=False)
        way = prepare_window(lake, applied, control, ts=ts, batch=batch)
        assert way.plan.problems == []
        frames, frames_before, before = way.frames, frames, kept
        frames.start = partial(_as_kept, lake.spark, before, frames_before)
        state = way.plan.state
        tables = [state.incarnations[id] for _, id in state.names]

        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = list(pool.map(partial(_made, frames, before), tables))
        kept = {table.id: rows for table, rows in zip(tables, found, strict=True)}
        count += len(tables)
        images = (rows.column(IMAGE).to_pylist() for rows in found)
        told.check(ts, shown(zip(tables, images, strict=True)))
        applied = Snapshot(
            msgspec.structs.replace(state, snapshot_id=batch, watermarks=control.watermark_state),
            batch,
        )
    return count


def _made(frames: Frames, before: dict[str, pa.Table], table: Incarnation) -> pa.Table:
    work = frames.work.get(table.id)
    if work is None and table.id in before:
        return before[table.id]
    rows = frames.table(table.id, len(work.steps) if work else 0, [])
    return rows.withColumn(IMAGE, write_images(table.schema)).toArrow()


def _as_kept(
    spark: SparkSession, kept: dict[str, pa.Table], frames: Frames | None, incarnation: str
) -> DataFrame | None:
    """A table's rows after a window; those of a dropped one were not collected."""
    if incarnation in kept:
        return spark.createDataFrame(kept[incarnation].drop_columns([IMAGE]))
    if frames is None:
        return None
    if incarnation in frames.work:
        return frames.table(incarnation, len(frames.work[incarnation].steps), [])
    return frames.start(incarnation)


def committed(told: Told, random: Random, windows: int) -> set[str]:
    """Carry histories through `apply`, window by window; which operations it committed."""
    lake = told.lake
    cuts = told.cuts(random, windows)
    pieces = zip(*(history.pieces(cuts) for history in told.histories), strict=True)
    for batch, (ts, piece) in enumerate(zip(cuts, pieces, strict=True), 1):
        told.take(batch, [event for events in piece for event in events], ts)
        done = apply(lake, read_last_snapshot(lake), batch)
        assert (done.resolved_ts, done.problems, done.quarantined) == (ts, [], 0)
        told.check(ts, right(told, ts))
    between = random.randrange(cuts[0], cuts[-1])
    told.check(between, right(told, between))
    applied = read_last_snapshot(lake)
    operations = set()
    for id in applied.versions:
        history = lake.spark.sql(f"DESCRIBE HISTORY {lake.sql(f'current/{id}')}")
        operations |= {row["operation"] for row in history.select("operation").collect()}
    return operations


def right(told: Told, ts: int) -> dict[str, Shown]:
    """What a lake shows in which no table is paused."""
    reasons, found = told.pictured(ts)
    assert reasons == {}
    return found


@pytest.fixture
def small(spark: SparkSession) -> Iterator[SparkSession]:
    """A session for plans of very few rows."""
    settings = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.mark.parametrize("manner", MANNERS)
def test_histories_are_told_as_they_were(manner: str) -> None:
    """Without Spark: what a lake in memory makes of these pieces is what upstream had."""
    for seed in range(5):
        history, engine = History(seed, manner, steps=24), Engine()
        end = history.times[-1]
        cuts = [*sorted(history.random.sample(range(100, end), 2)), end]
        for ts, piece in zip(cuts, history.pieces(cuts), strict=True):
            engine.take(piece)
            engine.advance(ts, more_may_come=False)
            found = {
                f"{title.removeprefix(history.prefix).removeprefix(f'{DATABASE}/')}": rows
                for title, rows in in_memory(engine).items()
            }
            assert history.picture(ts) in (None, found), (seed, ts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seeds", "steps", "windows"), [(range(20), 14, 2), (range(20, 200), 8, 1)]
)
def test_many_histories_at_once(
    small: SparkSession, tmp_path: Path, seeds: range, steps: int, windows: int
) -> None:
    told = Told(small, tmp_path, histories(seeds, steps=steps))
    assert composed(told, Random(0), windows) > len(seeds)


@pytest.mark.slow
def test_histories_through_commits(spark: SparkSession, tmp_path: Path) -> None:
    told = Told(spark, tmp_path, histories(range(1000, 1003), steps=24))
    operations = committed(told, Random(1), windows=3)
    assert {"MERGE", "WRITE", "ADD COLUMNS"} <= operations


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2000, 4000, 50))
def test_very_many_histories_at_once(small: SparkSession, tmp_path: Path, seed: int) -> None:
    told = Told(small, tmp_path, histories(range(seed, seed + 50), steps=24))
    assert composed(told, Random(seed), windows=3) > 100


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5000, 5060, 3))
def test_more_histories_through_commits(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    told = Told(spark, tmp_path, histories(range(seed, seed + 3), steps=30))
    assert committed(told, Random(seed), windows=3)
