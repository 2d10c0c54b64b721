"""Measure how fast a lake loads CSV files, and what a change costs in lakes of different sizes.

Run as `python -m bench.lake`; the options set the sizes.  One advance of a warm session loads all
files of a simulated changefeed into current tables.  For comparison, plain Spark and DuckDB load
the same files in the same run, and Spark once more with every row stored as JSON in between, as the
events of a lake are.  Then a change of a fixed size is applied to lakes of different sizes.
Nothing passes or fails, but the output says if the results differ.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path

from pyspark.sql import SparkSession

from bench.figure import Figure
from bench.lake_baselines import find_data_files, in_duckdb, plain_spark, plain_spark_twice
from bench.lake_changes import Size, measure_changes, show_growth
from bench.lake_work import STAGES, Work, describe_jobs
from ticdc_assets.demo import SimulationOptions
from ticdc_assets.resources.spark import get_session

# Small enough to give every core a file to read.
_FILE_SIZE = 8 << 20
# Enough for the JIT compiler to optimize the code the rows pass through.
_WARM_UP_LOAD = 200_000
_WARM_UP_ROWS = 2000


@dataclass(frozen=True)
class Load:
    """A changefeed to load at once."""

    name: str
    tables: int
    rows: int
    updates: float
    deletes: float = 0.0


def parse_options(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the sizes from a command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.lake", description=__doc__)
    whole = parser.add_argument_group("all files at once")
    whole.add_argument("--rows", type=int, default=300_000, help="rows of the single table")
    whole.add_argument("--tables", type=int, default=100, help="number of tables")
    whole.add_argument(
        "--rows-of-many", type=int, default=30_000, help="rows of all these tables together"
    )
    change = parser.add_argument_group("a change")
    change.add_argument("--change", type=int, default=1000, help="rows that change")
    change.add_argument(
        "--times", type=int, default=3, help="number of changes; the median is printed"
    )
    change.add_argument(
        "--target", type=int, default=50_000, help="rows in the table, and ten times that"
    )
    change.add_argument("--others", type=int, default=10, help="other tables, and ten times that")
    parser.add_argument("--only", choices=("loads", "changes"))
    return parser.parse_args(arguments)


def measure(*arguments: str) -> list[Figure]:
    """Measure, print and return the results."""
    chosen = parse_options(arguments)
    figures: list[Figure] = []
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bench-lake-") as made:
        folder = Path(made)
        spark = get_session(str(folder))
        _warm_up(spark, folder / "warm")
        print(
            f"{platform.machine()}, {os.cpu_count()} cores, load average {_load()} after warming up"
        )
        if chosen.only != "changes":
            many = chosen.rows_of_many
            for load in (
                Load("1 table, inserts", 1, chosen.rows, 0.0),
                Load("1 table, 10% updates", 1, chosen.rows, 0.1),
                Load("1 table, 50% updates", 1, chosen.rows, 0.5),
                Load("1 table, 40% deletes", 1, chosen.rows, 0.0, 0.4),
                Load(f"{chosen.tables} tables, inserts", chosen.tables, many, 0.0),
                Load(f"{chosen.tables} tables, 10% updates", chosen.tables, many, 0.1),
            ):
                place = folder / f"load-{load.tables}-{load.updates}-{load.deletes}"
                figures += _load_all(spark, place, load)
        if chosen.only != "loads":
            figures += _grow(spark, folder, chosen)
        spark.stop()
    print(
        "\nx lake: speed or CPU economy as a multiple of the lake's; CPU s: all processes together"
    )
    print(f"{time.monotonic() - start:.0f} s in total; load average {_load()} at the end")
    return figures


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def _options(load: Load) -> SimulationOptions:
    # Several transactions per table, because only existing rows can be updated.
    each = max(min(load.rows // load.tables // 3, 1000), 1)
    transactions = load.rows // each
    return SimulationOptions(
        workload="bulk",
        transactions=transactions,
        flush_every=transactions,
        file_size=_FILE_SIZE,
        tables=load.tables,
        rows_each=each,
        updates=load.updates,
        deletes=load.deletes,
        history=False,
    )


def _warm_up(spark: SparkSession, folder: Path) -> None:
    """Run every code path once: a table that is created, and one that is merged into."""
    measure_changes(spark, folder / "lake", Size(2, _WARM_UP_ROWS), _WARM_UP_ROWS, 0)
    work = Work(spark, folder / "load", _options(Load("warming up", 1, _WARM_UP_LOAD, 0.1)))
    work.write(work.simulation.options.transactions)
    work.advance()
    plain_spark(spark, work.data, folder / "spark")
    plain_spark_twice(spark, work.data, folder / "twice")
    in_duckdb(work.data, folder / "duckdb")


def _load_all(spark: SparkSession, folder: Path, load: Load) -> list[Figure]:
    work = Work(spark, folder, _options(load))
    work.write(work.simulation.options.transactions)
    files = [Path(file) for files in find_data_files(work.data).values() for file in files]
    size = sum(file.stat().st_size for file in files)
    rows = work.simulation.rows
    print(f"\n{load.name}: {rows:,} events in {len(files)} files, {size / 1e6:.0f} MB")
    run = work.advance()
    spark_once, keys = plain_spark(spark, work.data, folder / "spark")
    twice = plain_spark_twice(spark, work.data, folder / "twice")
    duckdb_run, expected = in_duckdb(work.data, folder / "duckdb")
    results = {
        "lake": (run.seconds, run.cpu),
        "plain Spark": spark_once,
        "twice, as JSON": twice,
        "DuckDB": duckdb_run,
    }
    titles = f"{'s':>8}{'events/s':>12}{'x lake':>8}{'CPU s':>13}{'x lake':>8}"
    print(f"  {'':14}{titles}{'events/core-s':>15}")
    for name, (seconds, cpu) in results.items():
        print(
            f"  {name:14}{seconds:8.2f}{rows / seconds:12,.0f}{run.seconds / seconds:8.1f}"
            f"{cpu:13.2f}{run.cpu / cpu:8.1f}{rows / cpu:15,.0f}"
        )
    stages = ", ".join(f"{name} {run.stages[name]:.2f}" for name in STAGES)
    print(f"  Spark jobs: {describe_jobs(run)}")
    print(f"  seconds: {stages}; Delta commits: {run.current_commits} to current tables,", end=" ")
    print(f"{run.other_commits} to others; load average {_load()}")
    got = work.totals()
    if run.events != rows:
        print(f"  DIFFERENT: {rows:,} events were written, {run.events:,} decoded")
    if got != expected or (got[0] != keys and not load.deletes):
        print(f"  DIFFERENT: lake {got}, DuckDB {expected}, keys of plain Spark {keys:,}")
    else:
        print(f"  the same {got[0]:,} rows in all of them")
    del results["lake"]
    return [
        Figure(
            group="load",
            name=load.name,
            value=rows / own,
            unit=unit,
            baseline_name=name,
            baseline=rows / other,
            usage=run.usage,
            jobs=run.all_jobs,
        )
        for name, (seconds, cpu) in results.items()
        for unit, own, other in (
            ("events/s", run.seconds, seconds),
            ("events/core-s", run.cpu, cpu),
        )
    ]


def _grow(spark: SparkSession, folder: Path, chosen: argparse.Namespace) -> list[Figure]:
    change, times = chosen.change, chosen.times
    print(f"\nA change of {change:,} rows in one table, median of {times}")
    rows = Size(1, chosen.target), Size(1, 10 * chosen.target)
    tables = Size(chosen.others, change), Size(10 * chosen.others, change)
    figures = []
    for title, (small, large) in {"Rows in the table": rows, "Other tables": tables}.items():
        runs = {}
        for size in (small, large):
            place = folder / f"change-{size.tables}-{size.rows_each}"
            runs[size] = measure_changes(spark, place, size, change, times)
        show_growth(title, small, large, runs)
        own = max(run.current_commits for run in runs[large])
        others = max(run.other_commits for run in runs[large])
        print(
            f"  Delta commits per advance: {own} to the table, {others} to others;"
            f" load average {_load()}"
        )
        before, after = (
            sorted(runs[size], key=lambda run: run.seconds)[times // 2] for size in (small, large)
        )
        figures.append(
            Figure(
                group="change",
                name=f"{change:,} rows, {large}",
                value=after.seconds,
                unit="s",
                baseline_name=str(small),
                baseline=before.seconds,
                usage=after.usage,
                jobs=after.all_jobs,
            )
        )
    return figures


if __name__ == "__main__":
    if isinstance(sys.stdout, TextIOWrapper):
        # Show every line at once, also through a pipe.
        sys.stdout.reconfigure(line_buffering=True)
    measure(*sys.argv[1:])
