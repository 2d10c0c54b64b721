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
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.plan.engine import Engine
from tests.plan.test_random_histories import Shown, Watched
from tests.plan.test_random_histories import shown as in_memory
from tests.reference.changefeeds import DATABASE, MANNERS, Teller, put
from tests.reference.test_ddl_random import KINDS, Column
from ticdc_assets.changefeed import Changefeed, changefeed_from_uri
from ticdc_assets.events import Event, FilePosition, RowChange, Watermark
from ticdc_assets.lake.applied import Applied, last_applied
from ticdc_assets.lake.apply import apply
from ticdc_assets.lake.asof import picture
from ticdc_assets.lake.control import read_control
from ticdc_assets.lake.event_rows import Arrival, to_arrow
from ticdc_assets.lake.frames import Frames
from ticdc_assets.lake.row_work import mysql_lines
from ticdc_assets.lake.row_writing import image
from ticdc_assets.lake.tables import Lake, create
from ticdc_assets.lake.window import planned
from ticdc_assets.plan.state import Incarnation

AT_ONCE = 3
IMAGE = "⌗image"
FEED = changefeed_from_uri("file:///nowhere?protocol=canal-json", id="random")


class Workload(Watched):
    """A world of a few steps, some of its tables without a key."""

    def __init__(self, random: Random, steps: int, *, keyless: float) -> None:
        super().__init__(random)
        self.length, self.keyless = steps, keyless

    def run(self) -> None:
        rows = [self.insert] * 8 + [self.update, self.delete, self.twin] * 2
        tables = [self.create] * 2 + [self.truncate, self.drop, self.rename, self.swap, self.copy]
        columns = [self.add_column] * 2 + [self.drop_column, self.rename_column, self.retype]
        columns += [self.move, self.change_key, self.alter_much]
        partitions = [self.exchange, self.truncate_partition, self.drop_partition]
        partitions += [self.repartition, self.reorganize, self.drop_database]
        actions = rows + tables + columns + partitions
        self.create()
        self.keep()
        while len(self.steps) < self.length:
            self.random.choice(actions)()
            self.keep()

    def keep(self) -> None:
        self.pictures[len(self.steps)] = {
            f"{name}({', '.join(c.name for c in table.sent())})": table.shown()
            for name, table in self.tables.items()
        }

    def create(self) -> None:
        if (name := self.free()) is None:
            return
        new = self.partition()
        if self.random.random() < self.keyless:
            new.key = ()
        for _ in range(self.random.randrange(4)):
            new.columns.append(Column(f"c{next(self.numbers)}", self.random.choice([*KINDS])))
        self.random.shuffle(new.columns)
        self.tables[name] = new
        self.say(f"CREATE TABLE @ ({new.definition()}){new.by()}", name)

    def twin(self) -> None:
        """A row once more, where there is no key."""
        if (found := self.some()) is not None and found[1].rows and not found[1].key:
            row = dict(self.random.choice(found[1].rows))
            found[1].rows.append(row)
            self.steps.append(put(found[0], **row))

    def change_key(self) -> None:
        keyed = {name: table for name, table in self.tables.items() if table.key}
        if keyed:
            everything, self.tables = self.tables, keyed
            super().change_key()
            self.tables = everything


class History:
    """A workload as it was told, in databases and places of its own."""

    def __init__(self, seed: int, manner: str, *, steps: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        # Equal rows of a table without a key are told apart by the order in which they come.
        self.in_order = self.random.random() < 0.4
        self.world = self._world(steps)
        self.world.run()
        self.prefix = f"h{seed}_"
        teller = Teller(manner, start=100 + seed % 10)
        told = [teller.tell([step]) for step in self.world.steps]
        self.times = [events[0].commit_ts for events in told]  # type: ignore[union-attr]
        # Bootstraps come with the statement before them.
        self.events = [
            (ts, self._own(event))
            for ts, events in zip(self.times, told, strict=True)
            for event in events
        ]

    def _world(self, steps: int) -> Watched:
        return Workload(self.random, steps, keyless=0.5 if self.in_order else 0.0)

    def _own(self, event: Event) -> Event:
        text = msgspec.json.encode(event)
        for name in (DATABASE, "archive"):
            text = text.replace(f"`{name}`".encode(), f"`{self.prefix}{name}`".encode())
            text = text.replace(f'"{name}"'.encode(), f'"{self.prefix}{name}"'.encode())
        text = text.replace(b':"topic"', f':"{self.prefix}topic"'.encode())
        text = text.replace(b':"file', f':"{self.prefix}file'.encode())
        return msgspec.json.decode(text, type=type(event))

    def pieces(self, cuts: list[int]) -> Iterator[list[Event]]:
        """What has come by each ts: some of it twice; if in no order, some of it early too."""
        left, sent = list(self.events), list[tuple[int, Event]]()
        for cut in cuts:
            early = 0.0 if self.in_order else 0.05
            now = [at for at in left if at[0] <= cut or self.random.random() < early]
            taken = {id(at) for at in now}
            left = [at for at in left if id(at) not in taken]
            sent += now
            if self.in_order:
                now += self._repeated(now)
            elif self.random.random() < 0.6:
                now += self.random.sample(sent, min(len(sent), 6))
                self.random.shuffle(now)
            yield [event for _, event in now]

    def _repeated(self, now: list[tuple[int, Event]]) -> list[tuple[int, Event]]:
        """A sender that goes back: all from somewhere on once more."""
        again = now[self.random.randrange(len(now)) :] if now else []
        times = defaultdict(set)
        for ts, event in again:
            times[_sender(event)].add(ts)
        # Of a sender that repeats only its last transaction nothing shows that it went back.
        return [(ts, event) for ts, event in again if len(times[_sender(event)]) > 1]

    def picture(self, ts: int) -> Shown | None:
        """What was there upstream; None where the ts is inside of a step of several statements."""
        steps = bisect_right(self.times, ts)
        return self.world.pictures.get(steps) if steps else {}


def _sender(event: Event) -> tuple[str, str, int | None] | None:
    """What a row came through, and of which table: of files each version has its own."""
    if isinstance(event, RowChange):
        return event.database, event.table, event.schema_version
    return None


class Told:
    """Histories that go through one lake together."""

    def __init__(
        self, spark: SparkSession, root: Path, histories: Sequence[History], feed: Changefeed = FEED
    ) -> None:
        self.spark = spark
        self.histories = histories
        self.feed = feed
        self.lake = Lake(str(root), self.feed.id)
        create(spark, self.lake, of_records=False)
        self.end = max(history.times[-1] for history in histories)
        self._seq = 0

    def take(self, batch: int, events: list[Event], ts: int) -> None:
        """Write a batch of events, and up to where all is told."""
        events = [*events, Watermark(ts=ts, position=FilePosition("metadata"))]
        arrivals = [Arrival(batch, self._seq + n, 0, event) for n, event in enumerate(events, 1)]
        self._seq += len(arrivals)
        rows = self.spark.createDataFrame(pa.Table.from_batches(to_arrow(arrivals)))
        rows.write.format("delta").mode("append").save(self.lake.path("events"))

    def cuts(self, random: Random, windows: int) -> list[int]:
        return [*sorted(random.sample(range(100, self.end), windows - 1)), self.end]

    def check(self, ts: int, found: dict[str, Shown]) -> None:
        for history in self.histories:
            expected = history.picture(ts)
            if expected is not None:
                assert found.get(history.prefix, {}) == expected, (history.seed, ts)


def shown(tables: Iterable[tuple[Incarnation, list[str]]]) -> dict[str, Shown]:
    """Tables by history, as upstream shows them."""
    found: dict[str, Shown] = defaultdict(dict)
    for table, images in tables:
        assert not table.stopped, table.reason
        schema = table.schema
        number, _, database = schema.database.partition("_")
        columns = [c.name for c in schema.columns if c.generated != "virtual"]
        title = schema.table if database == DATABASE else f"{database}/{schema.table}"
        lines = [msgspec.json.decode(line) for line in mysql_lines(images, schema)]
        rows = [tuple(line.get(c, "absent") for c in columns) for line in lines]
        found[f"{number}_"][f"{title}({', '.join(columns)})"] = sorted(rows, key=str)
    return found


def composed(told: Told, random: Random, windows: int) -> int:
    """Carry histories through composed frames, window by window; how many tables there were."""
    spark, lake = told.spark, told.lake
    cuts = told.cuts(random, windows)
    pieces = zip(*(history.pieces(cuts) for history in told.histories), strict=True)
    applied, kept, count = Applied(), dict[str, pa.Table](), 0
    frames: Frames | None = None
    for batch, (ts, piece) in enumerate(zip(cuts, pieces, strict=True), 1):
        told.take(batch, [event for events in piece for event in events], ts)
        control = read_control(spark, lake, told.feed, applied, batch)
        assert (control.late, control.resolved_ts) == ((), ts)
        control = dataclasses.replace(control, more_may_come=False)
        way = planned(spark, lake, told.feed, applied, control, ts=ts, batch=batch)
        assert way.plan.problems == []
        frames, frames_before, before = way.frames, frames, kept
        frames.start = partial(_as_kept, spark, before, frames_before)
        state = way.plan.state
        tables = [state.incarnations[id] for _, id in state.names]

        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = list(pool.map(partial(_made, frames, before), tables))
        kept = {table.id: rows for table, rows in zip(tables, found, strict=True)}
        count += len(tables)
        images = (rows.column(IMAGE).to_pylist() for rows in found)
        told.check(ts, shown(zip(tables, images, strict=True)))
        applied = Applied(msgspec.structs.replace(state, seq=batch, heard=control.heard), batch)
    return count


def _made(frames: Frames, before: dict[str, pa.Table], table: Incarnation) -> pa.Table:
    work = frames.work.get(table.id)
    if work is None and table.id in before:
        return before[table.id]
    rows = frames.table(table.id, len(work.steps) if work else 0, [])
    return rows.withColumn(IMAGE, image(table.schema)).toArrow()


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


def histories(seeds: Iterable[int], *, steps: int) -> list[History]:
    return [History(seed, MANNERS[seed % len(MANNERS)], steps=steps) for seed in seeds]


def committed(told: Told, random: Random, windows: int) -> set[str]:
    """Carry histories through `apply`, window by window; which operations it committed."""
    spark, lake = told.spark, told.lake
    cuts = told.cuts(random, windows)
    pieces = zip(*(history.pieces(cuts) for history in told.histories), strict=True)
    for batch, (ts, piece) in enumerate(zip(cuts, pieces, strict=True), 1):
        told.take(batch, [event for events in piece for event in events], ts)
        done = apply(spark, lake, told.feed, last_applied(spark, lake), batch)
        assert (done.resolved_ts, done.problems, done.quarantined) == (ts, [], 0)
        told.check(ts, pictured(told, ts))
    between = random.randrange(cuts[0], cuts[-1])
    told.check(between, pictured(told, between))
    applied = last_applied(spark, lake)
    operations = set()
    for id in applied.versions:
        history = spark.sql(f"DESCRIBE HISTORY {lake.sql(f'current/{id}')}")
        operations |= {row["operation"] for row in history.select("operation").collect()}
    return operations


def pictured(told: Told, ts: int) -> dict[str, Shown]:
    seen = picture(told.spark, told.lake, told.feed, ts)
    found = []
    for table in seen.tables():
        rows = seen.rows(table)
        assert rows is not None, table.reason
        images = rows.select(image(table.schema).alias(IMAGE)).toArrow()
        found.append((table, images.column(IMAGE).to_pylist()))
    return shown(found)


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
