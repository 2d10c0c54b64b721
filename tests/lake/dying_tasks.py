"""`ticdc-assets` on a Spark whose tasks die: a program of its own, for `test_repeated_tasks`.

Run as `python -m tests.lake.dying_tasks FOLDER COMMAND…`.  Spark's first attempt at a task is
killed behind its work, when it has written its files.  The next one does it twice, as beside a
speculative one whose result is lost.  Spark's workers do every table in parts.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext

from ticdc_assets.cli import main
from ticdc_assets.lake.apply import table_tasks, task_runs, window_work
from ticdc_assets.lake.events import decode_folder, event_files
from ticdc_assets.lake.events.event_files import EventFile, write_events
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.workers import run_in_workers

_Done = TypeVar("_Done")


def die_once(folder: str, name: str) -> None:
    """End this process at Spark's first attempt, and leave a note."""
    context = TaskContext.get()
    assert context is not None
    if not context.attemptNumber():
        Path(folder, f"{name} {context.taskAttemptId()}").touch()
        os._exit(9)


def attempt(folder: str, do: Callable[[Any], _Done], task: Any) -> _Done:
    """Do a task as often as Spark may; each file of its events is a block."""
    table_tasks._MOST_EVENTS = 0
    done = do(task)
    die_once(folder, type(done).__name__)
    do(task)
    return done


def write_twice(
    folder: str, location: Lake, batches: Iterable[pa.RecordBatch]
) -> Iterator[EventFile]:
    """Write files of events as often as Spark may."""
    held = [*batches]
    written = [*write_events(location, held)]
    die_once(folder, "events")
    list(write_events(location, held))
    yield from written


def leave_all(
    lake: LakeSession, do: Callable[[Any], _Done], tasks: Sequence[Any]
) -> tuple[Future[list[_Done]], list[Any]]:
    """Start the session, and leave all tasks to its workers."""
    nothing: Future[list[_Done]] = Future()
    nothing.set_result([])
    _ = lake.spark
    return nothing, [*tasks]


if __name__ == "__main__":
    decode_folder.start_session = leave_all
    _, folder, *arguments = sys.argv
    task_runs.FEW_ROWS = -1
    window_work.EVENTS_PER_PART = 3
    decode_folder._LITTLE_WORK = 0
    task_runs.run_in_workers = lambda lake, do, bundles, kind: run_in_workers(  # type: ignore[assignment]
        lake, partial(attempt, folder, do), bundles, kind
    )
    event_files.write_events = partial(write_twice, folder)
    sys.exit(main(arguments))
