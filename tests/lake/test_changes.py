"""Changes of tables: from a state to a later one, each with the row before and after it."""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from tests.lake.changes_tables import compare_readers, compare_with_function, compare_with_histories
from tests.lake.histories import History, histories
from tests.lake.history_lake import FEED, HistoryLake
from tests.lake.versions_at import list_schema_versions, print_rows, read_rows
from tests.reference.changefeeds import Ddl, Step, Teller, cut, edit, put, rename
from tests.reference.random_upstream import Shown
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import Event, TableSchema
from ticdc_assets.lake.apply import table_features, task_runs
from ticdc_assets.lake.apply.apply import DecodedBatches, apply
from ticdc_assets.lake.history import table_window, versions_table
from ticdc_assets.lake.history.changes_table import ChangesTable
from ticdc_assets.lake.history.history_table import HistoryTable
from ticdc_assets.lake.history.update import update_histories
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.rows.table_rows import read_columns
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.stream.problem import Problem
from ticdc_assets.views.changes import changes

Update = Callable[[LakeSession, Snapshot], list[Problem]]
WITH_HISTORY = dataclasses.replace(FEED, history=("shop.*",), changes=("shop.*",))

WIDE = "id int primary key, v int, w int"
WITH_D = "id int primary key, v int, s varchar(10), d int default 5"
STEPS: list[Step] = [
    Ddl("CREATE TABLE `t` (id int primary key, v int, s varchar(10))", "t"),
    put("t", id=1, v=10, s="a"),
    put("t", id=2, v=20, s="b"),
    edit("t", {"id": 1, "v": 10, "s": "a"}, v=11),
    Ddl("ALTER TABLE `t` ADD COLUMN d int default 5", "t", WITH_D),
    Ddl("ALTER TABLE `t` RENAME COLUMN v TO w", "t", WITH_D.replace("v int", "w int")),
    edit("t", {"id": 1, "w": 11, "s": "a", "d": 5}, w=12),
    Ddl("ALTER TABLE `t` MODIFY w varchar(20)", "t", WITH_D.replace("v int", "w varchar(20)")),
    cut("t", id=2, w="20", s="b", d=5),
    Ddl("ALTER TABLE `t` DROP COLUMN s", "t", "id int primary key, w varchar(20), d int default 5"),
    put("t", id=2, w="twenty", d=6),
    rename("t", "u"),
    edit("u", {"id": 1, "w": "12", "d": 5}, id=3),
    Ddl("TRUNCATE TABLE `u`", "u"),
    put("u", id=9, w="nine", d=9),
]


def take(
    lake: HistoryLake, batch: int, events: list[Event], ts: int, update: Update = update_histories
) -> None:
    """Apply a batch; update the histories."""
    lake.take(batch, events, ts)
    done = apply(lake.lake, read_last_snapshot(lake.lake), DecodedBatches(batch, batch))
    assert (done.resolved_ts, done.problems, done.quarantined) == (ts, [], 0)
    assert update(lake.lake, done.snapshot) == []


def update_large_histories(lake: LakeSession, last: Snapshot) -> list[Problem]:
    """Update the histories with Spark, as those of large tables; other tables stay small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_features, "LARGE_TABLE", -1)
        return update_histories(lake, last)


def find_incarnation(lake: HistoryLake, created_ts: int) -> str:
    (id,) = (id for id in read_last_snapshot(lake.lake).versions if id.endswith(f"-{created_ts}"))
    return id


def read_history(lake: HistoryLake, created_ts: int) -> list[dict[str, Any]]:
    """Read the history of the incarnation that began at a ts, NULLs and times left out."""
    id = find_incarnation(lake, created_ts)
    rows = read_rows(HistoryTable(lake.lake, id))
    rows = rows.sort_by([("_valid_from", "ascending"), ("id", "ascending")])
    times = ("_valid_from_time", "_valid_to_time")
    return [
        {k: v for k, v in row.items() if v is not None and k not in times}
        for row in rows.to_pylist()
    ]


def version(since: int, until: int | None, operation: str, **values: Any) -> dict[str, Any]:
    ends = {} if until is None else {"_valid_to": until}
    return {"_valid_from": since, **ends, "_operation": operation, **values}


EXPECTED = [
    version(120, 140, "insert", id=1, v=10, s="a"),
    version(130, 150, "insert", id=2, v=20, s="b"),
    version(140, 150, "update", id=1, v=11, s="a"),
    version(150, 160, "ddl", id=1, v=11, s="a", d=5),
    version(150, 160, "ddl", id=2, v=20, s="b", d=5),
    version(160, 170, "ddl", id=1, **{"w@int": 11}, s="a", d=5),
    version(160, 180, "ddl", id=2, **{"w@int": 20}, s="b", d=5),
    version(170, 180, "update", id=1, **{"w@int": 12}, s="a", d=5),
    version(180, 200, "ddl", id=1, w="12", s="a", d=5),
    version(180, 190, "ddl", id=2, w="20", s="b", d=5),
    version(200, 230, "ddl", id=1, w="12", d=5),
    version(210, 240, "insert", id=2, w="twenty", d=6),
    version(230, 240, "insert", id=3, w="12", d=5),
]


def image(row: Any) -> dict[str, Any] | None:
    return None if row is None else {k: v for k, v in row.asDict().items() if v is not None}


def list_changes(lake: LakeSession, table: str, start: int, end: int) -> list[tuple[Any, ...]]:
    found = changes(lake, table, start, end).orderBy("commit_ts", "operation", "before.id")
    return [
        (row["commit_ts"], row["operation"], image(row["before"]), image(row["after"]))
        for row in found.collect()
    ]


def test_a_history_has_the_columns_of_every_time(spark: SparkSession, tmp_path: Path) -> None:
    lake = HistoryLake(spark, tmp_path, [], WITH_HISTORY)
    take(lake, 1, Teller("canal").tell(STEPS), 300)

    assert read_history(lake, 110) == EXPECTED
    assert read_history(lake, 240) == [version(250, None, "insert", id=9, w="nine", d=9)]
    # At 235 the table has another name than its events.
    rows = list_changes(lake.lake, "shop.u", 100, 235)
    assert rows[:4] == [
        (120, "insert", None, {"id": 1, "w": "10"}),
        (130, "insert", None, {"id": 2, "w": "20"}),
        (140, "update", {"id": 1, "w": "10"}, {"id": 1, "w": "11"}),
        (150, "update", {"id": 1, "w": "11"}, {"id": 1, "w": "11", "d": 5}),
    ]
    assert rows[4:] == [
        (150, "update", {"id": 2, "w": "20"}, {"id": 2, "w": "20", "d": 5}),
        (170, "update", {"id": 1, "w": "11", "d": 5}, {"id": 1, "w": "12", "d": 5}),
        (190, "delete", {"id": 2, "w": "20", "d": 5}, None),
        (210, "insert", None, {"id": 2, "w": "twenty", "d": 6}),
        (230, "delete", {"id": 1, "w": "12", "d": 5}, None),
        (230, "insert", None, {"id": 3, "w": "12", "d": 5}),
    ]
    assert list_changes(lake.lake, "shop.u", 230, 300)[0][0] == 250
    # The table of changes has the columns of every time, so five rows more: DDLs rename, convert
    # and drop one.
    assert compare_with_histories(lake.lake) == len(rows) + 5 + 1
    assert compare_with_function(lake.lake, "shop.t", 100, 149) == 3
    assert compare_with_function(lake.lake, "shop.u", 200, 239) == 3
    assert compare_readers(lake.lake, find_incarnation(lake, 110)) == len(rows) + 5
    row = changes(lake.lake, "shop.t", 205, 215).first()
    assert row is not None
    assert (row["source"], row["partition"]) == ("topic", 0)
    with pytest.raises(ConfigError, match=r"no table shop\.t"):
        changes(lake.lake, "shop.t", 100, 300)


def take_most(lake: HistoryLake) -> list[Event]:
    """Apply most of the steps, some of them twice; return all, of which one is late then."""
    events = Teller("canal").tell(STEPS)
    in_time = [event for event in events if getattr(event, "commit_ts", 0) != 170]
    # The replay starts at 150, and keeps what the DDL of that ts changed.
    take(lake, 1, [event for event in in_time if getattr(event, "commit_ts", 0) < 150], 150)
    take(lake, 2, [event for event in in_time if getattr(event, "commit_ts", 0) > 130], 205)
    assert read_history(lake, 110) != EXPECTED
    return events


def test_few_late_and_repeated_events_take_no_spark(tmp_path: Path) -> None:
    def start() -> SparkSession:
        raise AssertionError("Spark is not needed")

    lake = HistoryLake(start, tmp_path, [], WITH_HISTORY)
    take(lake, 3, take_most(lake), 300)

    assert read_history(lake, 110) == EXPECTED
    assert compare_with_histories(lake.lake) == 16


def test_workers_do_the_parts_of_many_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = HistoryLake(spark, tmp_path, [], WITH_HISTORY)
    events = take_most(lake)
    monkeypatch.setattr(task_runs, "FEW_ROWS", -1)
    monkeypatch.setattr(table_window, "_EVENTS_PER_PART", 3)
    take(lake, 3, events, 300)

    assert read_history(lake, 110) == EXPECTED
    assert compare_with_histories(lake.lake) == 16
    assert len(list_changes(lake.lake, "shop.t", 100, 160)) == 5
    assert len(list_changes(lake.lake, "shop.u", 100, 235)) == 10
    assert compare_with_function(lake.lake, "shop.u", 200, 239) == 3


class Killed(Exception):
    pass


@pytest.mark.slow
def test_a_killed_update_leaves_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, update = HistoryLake(spark, tmp_path, [], WITH_HISTORY), update_large_histories
    steps: list[Step] = [
        Ddl("CREATE TABLE `t` (id int primary key, v int)", "t"),
        *(put("t", id=n, v=n) for n in (1, 2)),
        edit("t", {"id": 1, "v": 1}, v=10),
        cut("t", id=2, v=2),
        Ddl("ALTER TABLE `t` ADD COLUMN w int, ADD COLUMN x int", "t", f"{WIDE}, x int"),
        *(put("t", id=n, v=n, w=11 * n, x=111 * n) for n in (3, 4)),
    ]
    *events, late = Teller("canal").tell(steps)
    take(lake, 1, [e for e in events if getattr(e, "commit_ts", 0) <= 130], 130, update)
    before = read_history(lake, 110), read_changes(lake, 110)

    def kill(*args: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        # Each has made commits by then: a MERGE, and new columns in two structs.
        for commit in ("commit_rows", "commit_files", "commit_frame"):
            patch.setattr(versions_table, commit, kill)
        with pytest.raises(Killed):
            take(lake, 2, events, 190, update)
    assert (read_history(lake, 110), read_changes(lake, 110)) == before
    assert update(lake.lake, read_last_snapshot(lake.lake)) == []
    assert read_history(lake, 110) == [
        version(120, 140, "insert", id=1, v=1),
        version(130, 150, "insert", id=2, v=2),
        version(140, None, "update", id=1, v=10),
        version(170, None, "insert", id=3, v=3, w=33, x=333),
    ]
    assert compare_with_histories(lake.lake) == 5
    for kind, expected in (("history", {"MERGE", "RESTORE"}), ("changes", {"RESTORE"})):
        table = lake.lake.sql(f"{kind}/{find_incarnation(lake, 110)}")
        operations = [row["operation"] for row in spark.sql(f"DESCRIBE HISTORY {table}").collect()]
        assert expected <= {*operations}
        # One commit adds both columns to both structs, in each of the two runs.
        assert operations.count("ADD COLUMNS") == 2
    # A replay removes the changes since its start, and leaves the others.
    take(lake, 3, [late], 200, update)
    assert compare_with_histories(lake.lake) == 6
    # New columns are behind the others in both structs.
    assert compare_readers(lake.lake, find_incarnation(lake, 110)) == 6
    (row,) = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").collect()
    assert "commit_ts > 130" in row["operationParameters"]["predicate"]


def read_changes(lake: HistoryLake, created_ts: int) -> list[Any]:
    rows = read_rows(ChangesTable(lake.lake, find_incarnation(lake, created_ts)))
    return sorted(rows.to_pylist(), key=str)


# Random workloads


def read_states(history: History) -> dict[int, Shown]:
    """Return what was upstream after each ts at which that is known."""
    states = ((ts, history.expected_at(ts)) for ts in sorted(set(history.times)))
    return {ts: state for ts, state in states if state is not None}


def print_images(changes: pa.Table, name: str, schema: TableSchema) -> list[tuple[int, Any]]:
    """Print an image of each change that has it: its commit ts, and the values."""
    some = changes.filter(pc.is_valid(changes[name]))
    images = some[name].combine_chunks()
    fields = [field.name for field in images.type]
    rows = read_columns(dict(zip(fields, images.flatten(), strict=True)), schema)
    columns = [c.name for c in schema.columns if c.generated != "virtual"]
    lines = map(msgspec.json.decode, print_rows(rows, schema))
    values = [tuple(line.get(c, "absent") for c in columns) for line in lines]
    return list(zip(some["commit_ts"].to_pylist(), values, strict=True))


def check_table(
    lake: HistoryLake, history: History, eras: Sequence[tuple[int, int, TableSchema]]
) -> int:
    """Compare the changes of one table, in each of its eras, with its states upstream."""
    states, count = read_states(history), 0
    for start, end, schema in eras:
        columns = [c.name for c in schema.columns if c.generated != "virtual"]
        database = schema.database.removeprefix(history.prefix)
        title = schema.table if database == "shop" else f"{database}/{schema.table}"
        title = f"{title}({', '.join(columns)})"
        times = [ts for ts in states if start <= ts < end]
        if len(times) < 2:
            continue
        found = changes(lake.lake, f"{schema.database}.{schema.table}", times[0], times[-1])
        kept = found.toArrow()
        gone, came = defaultdict(Counter), defaultdict(Counter)
        for side, by_ts in (("before", gone), ("after", came)):
            for ts, row in print_images(kept, side, schema):
                by_ts[ts][row] += 1
        for before, after in pairwise(times):
            now = Counter(states[before][title])
            for ts in sorted({*gone, *came}):
                if before < ts <= after:
                    assert gone[ts] <= now, (history.seed, title, ts)
                    now = now - gone[ts] + came[ts]
                    count += 1
            assert now == Counter(states[after][title]), (history.seed, title, after)
    return count


def check_changes(lake: HistoryLake) -> int:
    eras = defaultdict(list)
    for id, start, end, schema in list_schema_versions(lake.lake):
        eras[id].append((start, end, schema))
    by_prefix = {history.prefix: history for history in lake.histories}
    return sum(
        check_table(lake, by_prefix[f"{id.partition('_')[0]}_"], found)
        for id, found in eras.items()
    )


def run_workloads(lake: HistoryLake, random: Random, windows: int) -> None:
    cuts = lake.cuts(random, windows)
    pieces = zip(*(history.pieces(cuts) for history in lake.histories), strict=True)
    for batch, (ts, piece) in enumerate(zip(cuts, pieces, strict=True), 1):
        lake.take(batch, [event for events in piece for event in events], ts)
        apply(lake.lake, read_last_snapshot(lake.lake), DecodedBatches(batch, batch))


@pytest.mark.soak
def test_changes_lead_from_each_state_to_the_next(spark: SparkSession, tmp_path: Path) -> None:
    lake = HistoryLake(spark, tmp_path, histories((1000,), steps=20))
    run_workloads(lake, Random(3), 2)
    assert check_changes(lake) > 5


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(8000, 8040, 2))
def test_more_changes_lead_from_each_state_to_the_next(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    lake = HistoryLake(spark, tmp_path, histories(range(seed, seed + 2), steps=40))
    run_workloads(lake, Random(seed), 3)
    assert check_changes(lake)
