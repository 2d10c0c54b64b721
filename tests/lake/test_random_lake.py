"""Random workloads through Spark: tables equal a naive upstream, wherever windows are cut.

What each test covers:

`test_histories_in_memory_equal_upstream` needs no Spark: it compares the workloads with a lake in
memory, so that a difference in the other tests is the lake's.

`test_many_histories_at_once` takes many histories through planning and the engine, as views do:
real rows of `events`, read, planned and typed as in `apply`, in windows cut anywhere.  The rows
are kept instead of written, and the next window starts from them, so this test covers no
merge, append, column change or commit.

`test_histories_through_commits` runs `apply` itself, window after window, with every commit, on
tables of every kind.  Each commit takes about a second, so there are few.

All have the DDLs of `tests.reference.test_ddl_random`, tables with and without keys, all manners of
sending, and events sent twice; where the order is free, in any order, and some early.
"""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.lake.histories import History, histories
from tests.lake.history_lake import HistoryLake, shown
from tests.plan.contents import contents as in_memory
from tests.plan.engine import Engine
from tests.reference.changefeeds import DATABASE, MANNERS
from tests.reference.random_upstream import Shown
from ticdc_assets.changefeed.layout import TableLayout
from ticdc_assets.lake.apply import table_features
from ticdc_assets.lake.apply.apply import DecodedBatches, apply
from ticdc_assets.lake.apply.control_events import read_control_events
from ticdc_assets.lake.apply.window import prepare_window
from ticdc_assets.lake.publish import publish
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.state import name_address
from ticdc_assets.rows.lines import format_blocks, format_columns
from ticdc_assets.store.delta_log import read_newest_state
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import StoredRows
from ticdc_assets.views.table_rows import ComputedTables, KeptTables, StoredTables


def composed(history_lake: HistoryLake, random: Random, windows: int) -> int:
    """Take histories through the engine in windows; return the number of tables."""
    lake = history_lake.lake
    cuts = history_lake.cuts(random, windows)
    pieces = zip(*(history.pieces(cuts) for history in history_lake.histories), strict=True)
    applied, kept, count = Snapshot(), None, 0
    for batch, (ts, piece) in enumerate(zip(cuts, pieces, strict=True), 1):
        history_lake.take(batch, [event for events in piece for event in events], ts)
        control = read_control_events(lake, applied, batch)
        assert (control.late_ddls, control.resolved_ts) == ((), ts)
        control = dataclasses.replace(control, more_may_come=False)
        way = prepare_window(lake, applied, control, ts, batch)
        assert way.plan.problems == []
        start = StoredTables(lake.location, way.start.versions, earlier=kept)
        kept = KeptTables(ComputedTables(way.engine, way.plan.work, start))
        state = way.plan.state
        tables = [state.incarnations[id] for _, id in state.names]
        found = kept.read({table.id: table.schema for table in tables})
        count += len(found)
        lines = (format_columns(found[table.id].columns, table.schema) for table in tables)
        history_lake.check(ts, shown(zip(tables, lines, strict=True)))
        applied = Snapshot(
            msgspec.structs.replace(state, snapshot_id=batch, watermarks=control.watermark_state),
            batch,
        )
    return count


def committed(
    history_lake: HistoryLake,
    random: Random,
    windows: int,
    declare: Callable[[LakeSession], LakeSession] = lambda lake: lake,
) -> set[str]:
    """Apply histories through `apply` in windows; return the operations it committed.

    `declare` changes the declaration of the changefeed before each window.
    """
    cuts = history_lake.cuts(random, windows)
    pieces = zip(*(history.pieces(cuts) for history in history_lake.histories), strict=True)
    for batch, (ts, piece) in enumerate(zip(cuts, pieces, strict=True), 1):
        history_lake.take(batch, [event for events in piece for event in events], ts)
        lake = declare(history_lake.lake)
        done = apply(lake, read_last_snapshot(lake), DecodedBatches(batch, batch))
        problems = [problem for problem in done.problems if problem.kind != "layout"]
        assert (done.resolved_ts, problems, done.quarantined) == (ts, [], 0)
        history_lake.check(ts, right(history_lake, ts))
        publish(lake)
        history_lake.check(ts, by_name(lake))
    between = random.randrange(cuts[0], cuts[-1])
    history_lake.check(between, right(history_lake, between))
    lake = history_lake.lake
    applied = read_last_snapshot(lake)
    operations = set()
    for id in applied.versions:
        history = lake.spark.sql(f"DESCRIBE HISTORY {lake.sql(f'current/{id}')}")
        operations |= {row["operation"] for row in history.select("operation").collect()}
    return operations


def by_name(lake: LakeSession) -> dict[str, Shown]:
    """Return what stands at the addresses of all names."""
    state, reader = read_last_snapshot(lake).state, LakeReader(lake.location)
    tables = [state.incarnations[id] for _, id in state.names]
    found = []
    for table in tables:
        address = f"current/{name_address(table.schema.database, table.schema.table)}"
        newest = read_newest_state(reader, address)
        assert newest is not None
        blocks = StoredRows(reader, address, newest[0]).read()
        found.append([line for lines in format_blocks(blocks, table.schema) for line in lines])
    return shown(zip(tables, found, strict=True))


def right(history_lake: HistoryLake, ts: int) -> dict[str, Shown]:
    """Return the contents of a lake in which no table is paused."""
    reasons, found = history_lake.contents_at(ts)
    assert reasons == {}
    return found


@pytest.fixture
def small(spark: SparkSession) -> Iterator[SparkSession]:
    """Start a session for plans of very few rows."""
    settings = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.mark.parametrize("manner", MANNERS)
def test_histories_in_memory_equal_upstream(manner: str) -> None:
    """Without Spark: a lake in memory equals upstream after these pieces."""
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
            assert history.expected_at(ts) in (None, found), (seed, ts)


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "steps", "windows"), [(range(14), 14, 2)])
def test_many_histories_at_once(
    small: SparkSession, tmp_path: Path, seeds: range, steps: int, windows: int
) -> None:
    history_lake = HistoryLake(small, tmp_path, histories(seeds, steps=steps))
    assert composed(history_lake, Random(0), windows) > len(seeds)


@pytest.mark.slow
@pytest.mark.parametrize("large", [pytest.param(False, marks=pytest.mark.soak), True])
def test_histories_through_commits(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    monkeypatch.setattr(table_features, "LARGE_TABLE", -1 if large else 1 << 20)
    history_lake = HistoryLake(spark, tmp_path, histories(range(1001, 1003), steps=24))
    operations = committed(history_lake, Random(1), windows=2)
    if large:
        assert {"MERGE", "WRITE", "ADD COLUMNS", "SET TBLPROPERTIES"} <= operations
    else:
        # The last one states an order of columns.
        assert operations <= {"WRITE", "CREATE TABLE", "SET TBLPROPERTIES", "CHANGE COLUMN"}


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2000, 4000, 50))
def test_very_many_histories_at_once(small: SparkSession, tmp_path: Path, seed: int) -> None:
    history_lake = HistoryLake(small, tmp_path, histories(range(seed, seed + 50), steps=24))
    assert composed(history_lake, Random(seed), windows=3) > 100


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5000, 5060, 3))
def test_more_histories_through_commits(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    history_lake = HistoryLake(spark, tmp_path, histories(range(seed, seed + 3), steps=30))
    assert committed(history_lake, Random(seed), windows=3)


@pytest.mark.soak
@pytest.mark.parametrize("large", [True, False])
@pytest.mark.parametrize("seed", range(7000, 7009, 3))
def test_histories_in_any_layout(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, large: bool
) -> None:
    monkeypatch.setattr(table_features, "LARGE_TABLE", -1 if large else 1 << 20)
    history_lake = HistoryLake(spark, tmp_path, histories(range(seed, seed + 3), steps=24))
    random = Random(seed)

    def declare(lake: LakeSession) -> LakeSession:
        """Change the layout of all tables, to the order of a column that some have."""
        known = read_last_snapshot(lake).state.incarnations.values()
        columns = sorted({column.name for table in known for column in table.schema.columns})
        column = random.choice([None, "id", *columns])
        layout = TableLayout(("*.*",), "bigint", random.choice([True, False]), column)
        feed = dataclasses.replace(history_lake.feed, layouts=(layout,))
        return LakeSession(spark, lake.location, feed)

    assert committed(history_lake, random, 4, declare)
