"""Commit with Spark what tasks wrote, where a table has a feature that delta-rs does not write.

The last commit of a table in a window states the ts at which its rows are true.  Those before it
prepare the table for it, and state nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.current_table import CurrentTable
from ticdc_assets.lake.apply.table_commits import commit_table, takes_spark
from ticdc_assets.lake.apply.table_errors import TABLE_ERRORS, find_pause_reason
from ticdc_assets.lake.apply.table_tasks import TableDone
from ticdc_assets.lake.apply.window import PreparedWindow
from ticdc_assets.lake.apply.written_rows import open_written
from ticdc_assets.plan.steps import Alter
from ticdc_assets.rows.merged_steps import merge_steps
from ticdc_assets.store.commits import write_ts
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.restores import restore, state_version
from ticdc_assets.store.work_size import sized_for

# What Delta writes into the commits of statements that take no options.
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


class SparkCommits:
    """The commits of a window that Spark writes."""

    def __init__(self, window: PreparedWindow) -> None:
        self._lake, self._window = window.lake, window
        self._work, self._versions = window.plan.work, window.start.versions

    def write(self, tables: Iterable[TableDone]) -> Iterator[tuple[TableDone, int | str]]:
        """Commit tables; yield the new version of each, or why it pauses."""
        tables = list(tables)
        if not tables:
            return
        failed: dict[str, str] = {}

        def attempt(done: TableDone, do: Callable[[TableDone], None]) -> None:
            reason = None if done.id in failed else self._attempt(done, do)
            if reason is not None:
                failed[done.id] = reason

        # A table mostly waits for its Delta log and for storage.
        with sized_for(self._lake, small=False), ThreadPoolExecutor() as pool:
            list(pool.map(lambda done: attempt(done, self._prepare), tables))
            by_ts = defaultdict(list)
            for done in tables:
                by_ts[self._window.find_ts(done.id)].append(done)
            for ts, chosen in by_ts.items():
                with stating(self._lake, ts):
                    list(pool.map(lambda done: attempt(done, self._write), chosen))
        for id in failed.keys() & self._versions.keys():
            newest, ts = CurrentTable(self._lake, id).version, self._window.find_start_ts(id)
            restore(self._lake.location, f"current/{id}", newest, self._versions[id], write_ts(ts))
        for done in tables:
            remove_written(self._lake, done)
            yield done, failed.get(done.id) or CurrentTable(self._lake, done.id).version

    def _attempt(self, done: TableDone, do: Callable[[TableDone], None]) -> str | None:
        """Return why a table pauses, if it does."""
        try:
            do(done)
        except TABLE_ERRORS as error:
            reason = find_pause_reason(error)
            if reason is None:
                raise
            return reason
        return None

    def _prepare(self, done: TableDone) -> None:
        table, work = CurrentTable(self._lake, done.id), self._work[done.id]
        if done.way == "whole":
            return
        if done.has_map and not table.has_map:
            table.add_map()
        if done.way == "append":
            return
        table.adapt_to_size(work.before, work.layout)
        schema = work.before
        for step in merge_steps(work.before, work.steps):
            if isinstance(step, Alter):
                table.reshape(schema, step.steps, step.schema, work.layout)
            schema = step.schema

    def _write(self, done: TableDone) -> None:
        table, schema = CurrentTable(self._lake, done.id), self._work[done.id].after
        exists, stated = done.id in self._versions, write_ts(self._window.find_ts(done.id))
        with_map = done.has_map or (exists and table.has_map)
        rows = open_written(self._lake, done, schema, with_map=with_map)
        if done.way == "whole":
            table.write_whole(rows, schema, stated, done.layout)
        elif not done.files:
            # Only its columns or features changed, if anything did.
            state_version(
                self._lake.location, f"current/{done.id}", self._versions[done.id], stated
            )
        elif done.way == "append":
            table.append(rows, stated)
        else:
            table.merge(rows, schema, done.layout)


@contextmanager
def stating(lake: LakeSession, ts: int) -> Iterator[None]:
    """Let the commits of Spark state a ts meanwhile."""
    before = lake.spark.conf.get(_METADATA, None)
    lake.spark.conf.set(_METADATA, write_ts(ts))
    try:
        yield
    finally:
        if before is None:
            lake.spark.conf.unset(_METADATA)
        else:
            lake.spark.conf.set(_METADATA, before)


def remove_written(lake: LakeSession, done: TableDone) -> None:
    """Remove files that Spark has read: no commit names them."""
    folder = LakeReader(lake.location).open_folder(f"current/{done.id}")
    for file in done.files:
        folder.delete_file(file.path)


def commit_new(lake: LakeSession, done: TableDone, schema: TableSchema, ts: int) -> int:
    """Commit the files of a new table, which is true at a ts; return its version."""
    if not takes_spark(done, None, schema):
        return commit_table(lake.location, done, None, schema, ts)
    table = CurrentTable(lake, done.id)
    rows = open_written(lake, done, schema, with_map=done.has_map)
    table.write_whole(rows, schema, write_ts(ts), done.layout)
    remove_written(lake, done)
    return table.version
