"""Who does the tasks of a window: this process where they are few, else the workers of Spark.

Workers get descriptions of the work and return descriptions of the files that they wrote: no row
passes through Spark itself.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa

from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.apply.table_tasks import Engine, TableDone, TableTask, do_task
from ticdc_assets.lake.store.lake import LakeSession

# A worker of Spark is worth its start from about this much work on: what a row costs, and a table.
_ROWS_PER_TABLE = 2_000
FEW_ROWS = 100_000
# About what a partition of the job gets: a worker reads the events of its tables once for all.
_COST_PER_PARTITION = 100_000
_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(list[TableDone]).decode


def estimate_cost(rows: int, tables: int) -> int:
    """Estimate what work costs, in rows."""
    return rows + tables * _ROWS_PER_TABLE


def do_tasks(
    lake: LakeSession, engine: Engine, tasks: Sequence[tuple[TableTask, int]]
) -> Iterator[list[TableDone]]:
    """Do tasks, each with its number of rows, and yield their tables."""
    cost = estimate_cost(sum(rows for _, rows in tasks), len(tasks))
    if cost <= FEW_ROWS or len(tasks) == 0:
        yield from _do_here(engine, [task for task, _ in tasks])
    else:
        yield from _do_in_workers(lake, engine, tasks)


def _do_here(engine: Engine, tasks: Sequence[TableTask]) -> Iterator[list[TableDone]]:
    pending = engine.pending
    if pending.held is None:
        pending = pending.hold()
    held = replace(engine, pending=pending)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        yield from threads.map(lambda task: do_task(held, task), tasks)


def _do_in_workers(
    lake: LakeSession, engine: Engine, tasks: Sequence[tuple[TableTask, int]]
) -> Iterator[list[TableDone]]:
    engine = replace(engine, pending=engine.pending.describe())
    bundles = _bundle(tasks)
    frame = lake.spark.range(0, len(bundles), 1, len(bundles))
    for row in frame.mapInArrow(_Worker(engine, bundles), "done binary, failure string").collect():
        if row["failure"] is not None:
            raise ConfigError(row["failure"])
        yield _DECODE(bytes(row["done"]))


def _bundle(tasks: Sequence[tuple[TableTask, int]]) -> list[list[TableTask]]:
    """Put tasks together so that each partition gets about as much as any other."""
    cost = estimate_cost(sum(rows for _, rows in tasks), len(tasks))
    count = min(len(tasks), -(-cost // _COST_PER_PARTITION))
    bundles: list[list[TableTask]] = [[] for _ in range(count)]
    costs = [0] * count
    for task, rows in sorted(tasks, key=lambda each: -each[1]):
        least = costs.index(min(costs))
        bundles[least].append(task)
        costs[least] += estimate_cost(rows, 1)
    return bundles


@dataclass(frozen=True)
class _Worker:
    """Does the bundles of tasks of which Spark sends the numbers to its process."""

    engine: Engine
    bundles: Sequence[Sequence[TableTask]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for task in self.bundles[number]:
                    yield self._do(task)

    def _do(self, task: TableTask) -> pa.RecordBatch:
        done, failure = None, None
        try:
            done = _ENCODE(do_task(self.engine, task))
        except ConfigError as error:
            # A person has to mend it: the driver says so as if it had met it.
            failure = str(error)
        columns = pa.array([done], pa.binary()), pa.array([failure], pa.string())
        return pa.RecordBatch.from_arrays(list(columns), ["done", "failure"])
