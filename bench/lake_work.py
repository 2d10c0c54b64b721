"""A simulated changefeed and the lake that follows it: what it took, stage by stage.

Processor time is told beside the time on the wall, for a busy machine changes it less.  Stages are
timed by a clock around the functions that an advance calls, so the lake knows nothing of it.
"""

import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from resources.storage import open_sink_folder
from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.demo import Options, prepare
from ticdc_assets.lake.advance import FolderSource, advance
from ticdc_assets.lake.store.lake import Lake, LakeSession

# The functions that make up a stage, by the module of the lake that calls them.
_STAGES = {
    "start": {"advance": ["create_tables", "read_last_snapshot"]},
    "ingest": {"advance": ["ingest_folder"]},
    "decode": {"advance": ["decode"]},
    "plan": {"apply.apply": ["read_control_events", "find_late_rows", "prepare_window"]},
    "apply": {"apply.apply": ["apply_table_work"]},
    "record": {
        "apply.apply": [
            *("write_quarantined_rows", "write_history", "write_tables", "write_snapshot"),
        ]
    },
}
STAGES = (*_STAGES, "rest")
_COMMIT = re.compile(r"\d{20}\.json")

# Rows, and sums that tell whether they are the same ones.
Totals = tuple[int, int, str]


@dataclass(frozen=True)
class Run:
    """One advance: seconds, in all and by stage, and Delta commits, of current tables and others.

    `processor` is the time that all processors together were at work for it.

    Stages that work on several tables at once count by the clock on the wall.
    """

    events: int
    seconds: float
    processor: float
    stages: dict[str, float]
    current_commits: int
    other_commits: int


class Work:
    """A changefeed in a folder of its own, and its lake; the source is written step by step."""

    def __init__(self, spark: SparkSession, folder: Path, options: Options) -> None:
        self.simulation = prepare(folder / "upstream", options)
        self.data = self.simulation.folder / "data"
        self._steps = iter(self.simulation)
        feed = next(iter(load_changefeeds(self.simulation.changefeeds).values()))
        self.lake = LakeSession(spark, Lake(str(folder.absolute() / "lake"), feed.id), feed)
        opened = partial(open_sink_folder, feed)
        self._source = FolderSource(opened(), opened)

    def write(self, transactions: int) -> None:
        """Have the source go on until so many transactions have happened in all."""
        for step in self._steps:
            if step.transactions >= transactions:
                return

    def advance(self) -> Run:
        """Bring the lake to where the source is."""
        before = self._commits()
        with _timed() as spans:
            clock = Clock()
            done = advance(self.lake, self._source)
            seconds, processor = clock.read()
        for problem in done.applied.problems:
            print(f"PROBLEM: {problem.describe()}")
        stages = {name: _covered(spans[name]) for name in _STAGES}
        stages["rest"] = seconds - sum(stages.values())
        new = self._commits() - before
        current = sum("current" in path.parts for path in new)
        others = len(new) - current
        return Run(done.decoded.rows, seconds, processor, stages, current, others)

    def _commits(self) -> set[Path]:
        logs = Path(self.lake.path("")).glob("**/_delta_log/*.json")
        return {path for path in logs if _COMMIT.fullmatch(path.name)}

    def totals(self) -> Totals:
        """What is in the current tables."""
        tables = self.lake.read("tables").select("location").collect()

        def of(location: str) -> Any:
            rows = self.lake.spark.read.format("delta").load(self.lake.path(location))
            return rows.agg(F.count("*"), F.sum("quantity"), F.sum("amount")).collect()[0]

        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(of, [row["location"] for row in tables]))
        return added(found)


def added(totals: list[Any]) -> Totals:
    """The totals of all tables."""
    counts, quantities, amounts = zip(*totals, strict=True)
    return sum(counts), int(sum(quantities)), str(sum(amounts))


class Clock:
    """Seconds since it was made: on the wall, and of processors (nan where there is no /proc)."""

    def __init__(self) -> None:
        self._processor = _processor_time()
        self._begun = time.perf_counter()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self._begun, _processor_time() - self._processor


def _processor_time() -> float:
    """What this process and all below it have used: the JVM, and the JVM's Python workers."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            # It has just ended; its parent has its time.
            continue
        pid = int(path.parent.name)
        parents[pid] = int(fields[1])
        ticks[pid] = sum(map(int, fields[11:15]))
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    used = sum(ticks.get(pid, 0) for pid in mine)
    return used / os.sysconf("SC_CLK_TCK") if ticks else float("nan")


@contextmanager
def _timed() -> Iterator[dict[str, list[tuple[float, float]]]]:
    """When each stage's functions were at work."""
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    untimed: list[tuple[Any, str, Any]] = []

    def clocked(work: Callable[..., Any], stage: str) -> Callable[..., Any]:
        def run(*args: Any, **named: Any) -> Any:
            begun = time.perf_counter()
            try:
                return work(*args, **named)
            finally:
                spans[stage].append((begun, time.perf_counter()))

        return run

    try:
        for stage, places in _STAGES.items():
            for place, names in places.items():
                module = import_module(f"ticdc_assets.lake.{place}")
                for name in names:
                    work = getattr(module, name)
                    untimed.append((module, name, work))
                    setattr(module, name, clocked(work, stage))
        yield spans
    finally:
        for module, name, work in untimed:
            setattr(module, name, work)


def _covered(spans: list[tuple[float, float]]) -> float:
    """The time during which at least one was at work."""
    covered = until = 0.0
    for begun, ended in sorted(spans):
        covered += max(ended - max(begun, until), 0.0)
        until = max(until, ended)
    return covered
