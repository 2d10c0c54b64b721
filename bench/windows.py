"""Measure small windows: some hundred row changes in a few tables, as a changefeed brings them.

Run as `python -m bench.windows`.  One process follows the simulated shop, DDLs included, window by
window.  For comparison, plain Spark appends the same rows to plain Delta tables, one append per
table and window, in turns with the lake and in the same session.  The checks of a window are
compared with the window.  Nothing passes or fails.
"""

import argparse
import csv
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession

from bench.figure import Figure, read_load
from bench.lake_work import Run, Work, describe_jobs
from bench.processes import Clock, Usage
from ticdc_assets.assets.advance import table_keys
from ticdc_assets.checks import SnapshotRange, evaluate_checks
from ticdc_assets.demo import SimulationOptions
from ticdc_assets.log.catalog import LakeCatalog
from ticdc_assets.naming import FeedNames
from ticdc_assets.resources.catalog import read_catalog
from ticdc_assets.resources.spark import get_session
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.work_size import sized_for

# Windows until the session has run every code path.
_WARM_UP = 4


class PlainTables:
    """Delta tables to which plain Spark appends the rows of a source, every value as text."""

    def __init__(self, spark: SparkSession, data: Path, out: Path) -> None:
        self._spark = spark
        self._data = data
        self._out = out
        self._seen: set[Path] = set()

    def append(self) -> Usage:
        """Append what is new in the source, in one commit per table."""
        new: dict[Path, list[Path]] = defaultdict(list)
        for path in sorted({*self._data.rglob("CDC*.csv")} - self._seen):
            new[Path(*path.relative_to(self._data).parts[:2])].append(path)
            self._seen.add(path)
        clock = Clock()
        # The lake works on as many tables at once.
        with ThreadPoolExecutor() as pool:
            list(pool.map(self._append_files, new, new.values()))
        return clock.read_usage()

    def _append_files(self, table: Path, files: list[Path]) -> None:
        by_header: dict[str, list[str]] = defaultdict(list)
        for path in files:
            with path.open(newline="") as opened:
                by_header[opened.readline()].append(str(path))
        parts = [self._read(header, same) for header, same in by_header.items()]
        rows = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), parts)
        place = str(self._out / table)
        rows.write.format("delta").mode("append").option("mergeSchema", True).save(place)

    def _read(self, header: str, files: list[str]) -> DataFrame:
        (names,) = csv.reader([header])
        columns = ", ".join("`" + name.replace("`", "``") + "` string" for name in names)
        reader = self._spark.read.schema(columns).option("header", True).option("multiLine", True)
        return reader.options(nullValue="\\N", quote='"', escape='"').csv(files)


def measure(*arguments: str) -> list[Figure]:
    """Measure, print and return the results."""
    parser = argparse.ArgumentParser(prog="python -m bench.windows", description=__doc__)
    parser.add_argument("--windows", type=int, default=12, help="the first 4 are not counted")
    parser.add_argument("--transactions", type=int, default=150, help="transactions per window")
    chosen = parser.parse_args(arguments)
    if chosen.windows <= _WARM_UP:
        parser.error(f"--windows must be more than {_WARM_UP}")
    each = chosen.transactions
    options = SimulationOptions(transactions=chosen.windows * each, flush_every=each, history=False)
    runs: list[Run] = []
    plain: list[Usage] = []
    checks: list[Usage] = []
    since = 0
    with tempfile.TemporaryDirectory(prefix="bench-windows-") as made:
        folder = Path(made)
        spark = get_session(str(folder))
        work = Work(spark, folder, options)
        tables = PlainTables(spark, work.data, folder / "plain")
        for number in range(1, chosen.windows + 1):
            work.write(number * each)
            runs.append(work.advance())
            catalog = read_catalog(work.lake.location)
            checks.append(_check(work.lake, since, catalog))
            since = catalog.snapshot_id
            plain.append(tables.append())
            print(
                f"window {number}: {_describe(runs[-1])}; checks {_time(checks[-1])};"
                f" plain Spark {_time(plain[-1])}"
            )
        spark.stop()
    if sum(run.events for run in runs) != work.simulation.rows:
        print(f"DIFFERENT: {work.simulation.rows:,} events were written")
    return _make_figures(runs[_WARM_UP:], checks[_WARM_UP:], plain[_WARM_UP:])


def _check(lake: LakeSession, since: int, catalog: LakeCatalog) -> Usage:
    """Evaluate the checks of what was applied since a snapshot, as a run does."""
    keys = table_keys(FeedNames(lake.feed), catalog)
    clock = Clock()
    with sized_for(lake, small=True):
        found = list(evaluate_checks(lake, SnapshotRange(since, catalog.snapshot_id), keys))
    usage = clock.read_usage()
    for one in found:
        if not one.passed:
            print(f"FAILED: {one.check_name}: {one.description}")
    return usage


def _describe(run: Run) -> str:
    return (
        f"{run.events} rows in {run.current_commits} tables, {_time(run.usage)};"
        f" jobs: {describe_jobs(run)}"
    )


def _time(usage: Usage) -> str:
    return f"{usage.seconds:.2f} s, CPU {usage.cpu:.2f} s"


def _make_figures(runs: list[Run], checks: list[Usage], plain: list[Usage]) -> list[Figure]:
    typical = sorted(runs, key=lambda run: run.seconds)[len(runs) // 2]
    events = sum(run.events for run in runs) / len(runs)
    tables = sum(run.current_commits for run in runs) / len(runs)
    seconds = median(run.seconds for run in runs), median(usage.seconds for usage in plain)
    cpu = median(run.cpu for run in runs), median(usage.cpu for usage in plain)
    print(
        f"median of {len(runs)} windows: {seconds[0]:.2f} s, CPU {cpu[0]:.2f} s; plain Spark",
        end="",
    )
    print(f" {seconds[1]:.2f} s, CPU {cpu[1]:.2f} s; load average {read_load()}")
    return [
        Figure(
            group="window",
            name=f"{events:.0f} rows in {tables:.0f} tables, {title}",
            value=value,
            unit="s",
            baseline_name="plain Spark appends",
            baseline=baseline,
            usage=typical.usage,
            jobs=typical.all_jobs,
        )
        for title, (value, baseline) in {"wall clock": seconds, "CPU": cpu}.items()
    ] + [
        Figure(
            group="window",
            name="its checks",
            value=median(usage.seconds for usage in checks),
            unit="s",
            baseline_name="the window",
            baseline=seconds[0],
            usage=sorted(checks, key=lambda usage: usage.seconds)[len(checks) // 2],
        )
    ]


if __name__ == "__main__":
    measure(*sys.argv[1:])
