"""Who does the tasks of histories and changes: as in `apply`, this process or Spark's workers."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ticdc_assets.lake.apply.engine import Engine
from ticdc_assets.lake.apply.spread_tasks import SpreadDone, remove_spread
from ticdc_assets.lake.apply.task_runs import (
    are_few,
    do_here,
    run_bundled,
    split_table,
    spread_tables,
)
from ticdc_assets.lake.history.table_update import Sized
from ticdc_assets.lake.history.version_tasks import VersionsDone, do_versions, join_done
from ticdc_assets.store.lake import LakeSession


def run_tasks(lake: LakeSession, engine: Engine, tasks: Sequence[Sized]) -> Iterator[VersionsDone]:
    """Do tasks of one window, and yield their tables."""
    if are_few((each.rows for each in tasks), lake, engine):
        names = set().union(*(each.task.table.names for each in tasks))
        return do_here(engine, [each.task for each in tasks], do_versions, names)
    return _run_in_workers(lake, engine, tasks)


def _run_in_workers(
    lake: LakeSession, engine: Engine, tasks: Sequence[Sized]
) -> Iterator[VersionsDone]:
    engine = replace(engine, pending=engine.pending.describe())
    by_kind: dict[str, list[Sized]] = defaultdict(list)
    for each in tasks:
        by_kind[each.task.kind].append(each)
    # The history and the changes of a table may have different parts.
    for alike in by_kind.values():
        large = [each.task.table for each in alike if each.task.table.parts > 1]
        parts: dict[str, list[VersionsDone]] = defaultdict(list)
        counts = {each.task.name: each.task.table.parts for each in alike}
        spread: list[SpreadDone] = []
        try:
            if large:
                spread += spread_tables(lake, engine, large)
            split = [
                (replace(each.task, table=table), rows)
                for each in alike
                for table, rows in split_table(each.task.table, each.rows, spread)
            ]
            for done in run_bundled(lake, engine, do_versions, split, list[VersionsDone]):
                parts[done.name].append(done)
                if len(parts[done.name]) == counts[done.name]:
                    yield join_done(parts.pop(done.name))
        finally:
            remove_spread(engine.location, spread)
