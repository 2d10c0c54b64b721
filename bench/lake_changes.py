"""Measure what a small change costs, which should not grow with the data it leaves alone."""

from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from bench.lake_work import STAGES, Run, Work
from ticdc_assets.demo import Options

# A share of updates, so that the change has to be merged.
_UPDATES = 0.1


@dataclass(frozen=True)
class Size:
    """The size of a lake before a change; a few of its rows are updates of others."""

    tables: int
    rows_each: int

    def __str__(self) -> str:
        return f"{self.tables:,} x {self.rows_each:,} rows"


def changes(spark: SparkSession, folder: Path, size: Size, change: int, times: int) -> list[Run]:
    """Apply changes of `change` rows in one table to a lake, one after the other."""
    begin = size.tables * max(size.rows_each // change, 1)
    options = Options(
        workload="bulk",
        # One more, to finish warming up the session.
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


def show_growth(what: str, small: Size, large: Size, of: dict[Size, list[Run]]) -> None:
    """Print what the same change costs in a small and in a large lake."""
    print(f"\n{what}: {small} and {large}")
    typical = {}
    for size in (small, large):
        runs = of[size]
        typical[size] = [median(run.seconds for run in runs), median(r.processor for r in runs)]
        seconds, processor = typical[size]
        each = ", ".join(f"{run.seconds:.2f}" for run in runs)
        print(f"  {size!s:>24}{seconds:8.2f} s ({each}), {processor:.2f} s of processors")
        stages = ", ".join(f"{s} {median(run.stages[s] for run in runs):.2f}" for s in STAGES)
        print(f"  {'':24}  {stages}")
    seconds, processor = (b / a for a, b in zip(typical[small], typical[large], strict=True))
    print(f"  {'ratio':>24}{seconds:8.2f}; of processor time {processor:.2f}")
