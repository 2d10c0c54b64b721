"""Measure what a small change costs as the unchanged part of a lake grows: it should not grow."""

from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from bench.lake_work import STAGES, Run, Work, describe_jobs
from ticdc_assets.demo import SimulationOptions

# A share of updates, so that the change needs a merge.
_UPDATES = 0.1


@dataclass(frozen=True)
class Size:
    """The size of a lake before the change."""

    tables: int
    rows_each: int

    def __str__(self) -> str:
        return f"{self.tables:,} x {self.rows_each:,} rows"


def measure_changes(
    spark: SparkSession, folder: Path, size: Size, change: int, times: int
) -> list[Run]:
    """Apply a change of `change` rows in one table to a lake, several times, and measure each."""
    begin = size.tables * max(size.rows_each // change, 1)
    options = SimulationOptions(
        workload="bulk",
        # One more, to warm the session up.
        transactions=begin + times + 1,
        flush_every=1,
        tables=size.tables,
        rows_each=change,
        updates=_UPDATES,
        history=False,
    )
    work = Work(spark, folder, options)
    runs = []
    for number in range(times + 2):
        work.write(begin + number)
        runs.append(work.advance())
    return runs[2:]


def show_growth(title: str, small: Size, large: Size, results: dict[Size, list[Run]]) -> None:
    """Print what the same change costs in two lakes."""
    print(f"\n{title}: {small} and {large}")
    typical = {}
    for size in (small, large):
        runs = results[size]
        typical[size] = [median(run.seconds for run in runs), median(run.cpu for run in runs)]
        seconds, cpu = typical[size]
        each = ", ".join(f"{run.seconds:.2f}" for run in runs)
        print(f"  {size!s:>24}{seconds:8.2f} s ({each}), {cpu:.2f} s of CPU time")
        stages = ", ".join(f"{s} {median(run.stages[s] for run in runs):.2f}" for s in STAGES)
        print(f"  {'':24}  {stages}")
        print(f"  {'':24}  Spark jobs: {describe_jobs(runs[-1])}")
    seconds, cpu = (b / a for a, b in zip(typical[small], typical[large], strict=True))
    print(f"  {'ratio':>24}{seconds:8.2f}; CPU time {cpu:.2f}")
