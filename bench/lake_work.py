"""A simulated changefeed and a lake that follows it, timed stage by stage.

CPU time and Spark jobs are measured beside wall-clock time, because a busy machine distorts them
less.  Stages are timed by wrapping the functions that an advance calls, so the lake has no code for
it.
"""

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
from typing import Any, cast

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.processes import Clock, Usage
from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.demo import SimulationOptions, prepare
from ticdc_assets.lake.advance import FolderSource, advance
from ticdc_assets.resources.storage import open_sink_folder
from ticdc_assets.store.lake import Lake, LakeSession

# The functions that make up each stage, by the module that has the name.
TIMED_FUNCTIONS = {
    "start": {"advance": ["upgrade", "create_tables", "read_last_snapshot"]},
    "ingest": {"advance": ["ingest_folder"]},
    "decode": {"advance": ["decode_folder"]},
    "plan": {"apply.apply": ["read_control_events", "find_late_rows", "prepare_window"]},
    "apply": {"apply.window_work": ["WindowWork.run"]},
    "record": {
        "apply.apply": ["write_quarantined_rows", "write_history", "write_tables", "write_snapshot"]
    },
}
STAGES = (*TIMED_FUNCTIONS, "rest")
_JOB_GROUP = "spark.jobGroup.id"
_COMMIT = re.compile(r"\d{20}\.json")

# Row count and two sums, to compare the content of tables.
Totals = tuple[int, int, str]


@dataclass(frozen=True)
class Run:
    """One advance: what it took, seconds and Spark jobs in all and per stage, and Delta commits.

    Jobs that a stage starts in other threads count as
    the rest's.
    """

    events: int
    usage: Usage
    stages: dict[str, float]
    current_commits: int
    other_commits: int
    jobs: dict[str, int]

    @property
    def seconds(self) -> float:
        return self.usage.seconds

    @property
    def cpu(self) -> float:
        return self.usage.cpu

    @property
    def all_jobs(self) -> int:
        return sum(self.jobs.values())


class Work:
    """A simulated changefeed, written step by step, and its lake."""

    def __init__(self, spark: SparkSession, folder: Path, options: SimulationOptions) -> None:
        self.simulation = prepare(folder / "upstream", options)
        self.data = self.simulation.folder / "data"
        self._steps = iter(self.simulation)
        feed = next(iter(load_changefeeds(self.simulation.changefeeds).values()))
        self.lake = LakeSession(spark, Lake(str(folder.absolute() / "lake"), feed.id), feed)
        opened = partial(open_sink_folder, feed)
        self._source = FolderSource(opened(), opened)

    def write(self, transactions: int) -> None:
        """Write the source up to this total number of transactions."""
        for step in self._steps:
            if step.transactions >= transactions:
                return

    def advance(self) -> Run:
        """Advance the lake to the end of the source and measure it."""
        before = self._commits()
        jobs = _Jobs(self.lake.spark)
        with _timed(jobs) as spans:
            clock = Clock()
            done = advance(self.lake, self._source)
            usage = clock.read_usage()
        for problem in done.applied.problems:
            print(f"PROBLEM: {problem.describe()}")
        stages = {name: _union_seconds(spans[name]) for name in TIMED_FUNCTIONS}
        stages["rest"] = usage.seconds - sum(stages.values())
        new = self._commits() - before
        current = sum("current" in path.parts for path in new)
        others = len(new) - current
        return Run(done.decoded.rows, usage, stages, current, others, jobs.read())

    def _commits(self) -> set[Path]:
        logs = Path(self.lake.path("")).glob("**/_delta_log/*.json")
        return {path for path in logs if _COMMIT.fullmatch(path.name)}

    def totals(self) -> Totals:
        """Return the totals of all current tables."""
        tables = self.lake.read("tables").select("location").collect()

        def total(location: str) -> Any:
            rows = self.lake.spark.read.format("delta").load(self.lake.path(location))
            return rows.agg(F.count("*"), F.sum("quantity"), F.sum("amount")).collect()[0]

        with ThreadPoolExecutor(4) as pool:
            totals = list(pool.map(total, [row["location"] for row in tables]))
        return sum_totals(totals)


def sum_totals(totals: list[Any]) -> Totals:
    """Add up the totals of tables."""
    counts, quantities, amounts = zip(*totals, strict=True)
    return sum(counts), int(sum(quantities)), str(sum(amounts))


class _Jobs:
    """Counts the Spark jobs of stages since its creation (none on Spark Connect)."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext if hasattr(spark, "_jsc") else None
        self._groups: set[str] = set()
        self._before: dict[str | None, set[int]] = {None: self._find(None)}

    def _find(self, group: str | None) -> set[int]:
        if self._context is None:
            return set()
        return set(self._context.statusTracker().getJobIdsForGroup(group))

    @contextmanager
    def count(self, group: str) -> Iterator[None]:
        """Count the jobs that this thread starts for a group."""
        if self._context is None:
            yield
            return
        if group not in self._groups:
            self._before[group] = self._find(group)
            self._groups.add(group)
        before = self._context.getLocalProperty(_JOB_GROUP)
        self._context.setLocalProperty(_JOB_GROUP, group)
        try:
            yield
        finally:
            # Spark removes a property that is set to nothing.
            self._context.setLocalProperty(_JOB_GROUP, cast("str", before))

    def read(self) -> dict[str, int]:
        """Return the number of jobs by stage."""
        stages = dict.fromkeys(STAGES, 0)
        for group, old in self._before.items():
            stages[group or "rest"] += len(self._find(group) - old)
        return stages


@contextmanager
def _timed(jobs: _Jobs) -> Iterator[dict[str, list[tuple[float, float]]]]:
    """Record when the functions of each stage ran."""
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    originals: list[tuple[Any, str, Any]] = []

    def time_calls(work: Callable[..., Any], stage: str) -> Callable[..., Any]:
        def run(*args: Any, **named: Any) -> Any:
            begun = time.perf_counter()
            try:
                with jobs.count(stage):
                    return work(*args, **named)
            finally:
                spans[stage].append((begun, time.perf_counter()))

        return run

    try:
        for stage, places in TIMED_FUNCTIONS.items():
            for place, names in places.items():
                module = import_module(f"ticdc_assets.lake.{place}")
                for path in names:
                    holder, _, name = path.rpartition(".")
                    owner = getattr(module, holder) if holder else module
                    work = getattr(owner, name)
                    originals.append((owner, name, work))
                    setattr(owner, name, time_calls(work, stage))
        yield spans
    finally:
        for owner, name, work in originals:
            setattr(owner, name, work)


def describe_jobs(run: Run) -> str:
    """Describe the Spark jobs of a run: in all, and by stage."""
    stages = ", ".join(f"{name} {run.jobs[name]}" for name in STAGES)
    return f"{run.all_jobs} ({stages})"


def _union_seconds(spans: list[tuple[float, float]]) -> float:
    """Return the time during which at least one function ran."""
    covered = until = 0.0
    for begun, ended in sorted(spans):
        covered += max(ended - max(begun, until), 0.0)
        until = max(until, ended)
    return covered
