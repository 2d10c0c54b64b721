"""Who does the tasks of a window: this process where they are few, else the workers of Spark.

Workers get descriptions of the work and return descriptions of the files that they wrote: no row
passes through Spark itself.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import accumulate, chain
from typing import Protocol, TypeVar

from ticdc_assets.lake.apply.engine import Engine
from ticdc_assets.lake.apply.spread_tasks import (
    SpreadDone,
    SpreadTask,
    do_spread,
    remove_spread,
)
from ticdc_assets.lake.apply.table_tasks import (
    TableDone,
    TableTask,
    do_task,
    join_parts,
)
from ticdc_assets.rows.parts import Part
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.work_size import count_little
from ticdc_assets.store.workers import run_in_workers

# A worker of Spark is worth its start from about this much work on: what a row costs, and a table.
_ROWS_PER_TABLE = 1_000
FEW_ROWS = 100_000
# About what a partition of the job gets.
_COST_PER_PARTITION = 100_000
_SHARES_PER_PART = 2

_Task = TypeVar("_Task")
_Done = TypeVar("_Done")


def do_tasks(
    lake: LakeSession, engine: Engine, tasks: Sequence[tuple[TableTask, int]]
) -> Iterator[TableDone]:
    """Do tasks, each with its number of rows, and yield their tables."""
    if are_few((rows for _, rows in tasks), lake, engine):
        names = set().union(*(task.names for task, _ in tasks))
        return chain.from_iterable(do_here(engine, [task for task, _ in tasks], do_task, names))
    return _do_in_workers(lake, engine, tasks)


def are_few(rows: Iterable[int], lake: LakeSession, engine: Engine) -> bool:
    """Whether this process does tasks with these numbers of rows."""
    # The bytes of events that are held already are few, too.
    is_held = engine.pending.held is not None
    few = count_little(lake, FEW_ROWS) if is_held else FEW_ROWS
    return sum(map(_estimate_cost, rows)) <= few


def _estimate_cost(rows: int) -> int:
    """Estimate what the work on a table costs, in rows."""
    return rows + _ROWS_PER_TABLE


def do_here(
    engine: Engine,
    tasks: Sequence[_Task],
    do: Callable[[Engine, _Task], _Done],
    names: Collection[str],
) -> Iterator[_Done]:
    """Do tasks in this process; `names` are those of their events."""
    pending = engine.pending
    if pending.held is None:
        # Other tables may have many more.
        pending = pending.hold(names)
    held = replace(engine, pending=pending)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        yield from threads.map(lambda task: do(held, task), tasks)


def _do_in_workers(
    lake: LakeSession, engine: Engine, tasks: Sequence[tuple[TableTask, int]]
) -> Iterator[TableDone]:
    engine = replace(engine, pending=engine.pending.describe())
    large = [task for task, _ in tasks if task.parts > 1 and not task.spans]
    spread: list[SpreadDone] = []
    try:
        if large:
            spread += spread_tables(lake, engine, large)
        split = [each for task, rows in tasks for each in split_table(task, rows, spread)]
        parts: dict[str, list[TableDone]] = defaultdict(list)
        counts = {id: task.parts for task, _ in tasks for id in task.work}
        for done in run_bundled(lake, engine, do_task, split, list[list[TableDone]]):
            for each in done:
                parts[each.id].append(each)
                if len(parts[each.id]) == counts[each.id]:
                    yield join_parts(parts.pop(each.id))
    finally:
        remove_spread(engine.location, spread)


# Parts of large tables


def spread_tables(
    lake: LakeSession, engine: Engine, tasks: Sequence[TableTask]
) -> Iterator[SpreadDone]:
    """Spread the events of large tables over their parts."""
    pending = engine.pending
    shares: list[tuple[SpreadTask, int]] = []
    for task in tasks:
        (work,) = task.work.values()
        count = min(len(pending.files.paths), task.parts * _SHARES_PER_PART)
        for number in range(count):
            share = SpreadTask(work, pending.files.paths[number::count], task.parts)
            shares.append((share, pending.files.rows // count))
    return run_sized(lake, partial(do_spread, engine.location, pending), shares, SpreadDone)


def split_table(
    task: TableTask, rows: int, spread: Sequence[SpreadDone]
) -> Iterable[tuple[TableTask, int]]:
    """Return the tasks of the parts of a table, with their numbers of rows."""
    if task.parts == 1:
        return [(task, rows)]
    if task.spans:
        return [(replace(task, span=span), rows // task.parts) for span in task.spans]
    (id,) = task.work
    own = [done.files for done in spread if done.id == id]
    return [
        (
            replace(
                task,
                part=Part(number, task.parts),
                spread_events=tuple(file for files in own for file in files[number]),
            ),
            rows // task.parts,
        )
        for number in range(task.parts)
    ]


# Spark's workers


class _ReadsEvents(Protocol):
    """A task that may read events of its tables from the files of all tables."""

    @property
    def pending_names(self) -> Collection[str]: ...


_Reading = TypeVar("_Reading", bound=_ReadsEvents)


def run_bundled(
    lake: LakeSession,
    engine: Engine,
    do: Callable[[Engine, _Reading], _Done],
    tasks: Sequence[tuple[_Reading, int]],
    kind: type[list[_Done]],
) -> Iterator[_Done]:
    """Have workers do tasks, each with its number of rows; `kind` is what several return.

    A worker reads the events of a bundle once: opening files costs as much as the work on a table.
    """
    # In the order of the files of events: neighbours are in the same row groups.
    ordered = sorted(tasks, key=lambda each: sorted(each[0].pending_names))
    bundles = [[bundle] for bundle in _bundle(ordered)]
    for done in run_in_workers(lake, partial(_do_bundle, engine, do), bundles, kind):
        yield from done


def _do_bundle(
    engine: Engine, do: Callable[[Engine, _Reading], _Done], tasks: Sequence[_Reading]
) -> list[_Done]:
    names = set().union(*(task.pending_names for task in tasks))
    if len(tasks) > 1 and names:
        held = replace(engine, pending=engine.pending.hold(names))
        return [do(held if task.pending_names else engine, task) for task in tasks]
    return [do(engine, task) for task in tasks]


def run_sized(
    lake: LakeSession,
    do: Callable[[_Task], _Done],
    tasks: Sequence[tuple[_Task, int]],
    kind: type[_Done],
) -> Iterator[_Done]:
    """Have workers do tasks, each with its number of rows."""
    return run_in_workers(lake, do, _bundle(tasks), kind)


def _bundle(tasks: Sequence[tuple[_Task, int]]) -> list[list[_Task]]:
    """Put neighbours together so that each partition gets about as much as any other."""
    costs = [_estimate_cost(rows) for _, rows in tasks]
    cost = sum(costs)
    count = min(len(tasks), -(-cost // _COST_PER_PARTITION))
    bundles: list[list[_Task]] = [[] for _ in range(count)]
    # What comes before the middle of each task says in whose share it is.
    for (task, _), own, through in zip(tasks, costs, accumulate(costs), strict=True):
        bundles[(2 * through - own) * count // (2 * cost)].append(task)
    return [bundle for bundle in bundles if bundle]
