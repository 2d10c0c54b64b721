"""Work for Spark's workers: descriptions go out, descriptions of what was done come back.

No row passes through Spark: workers read files and write files by themselves.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from ticdc_assets.errors import ConfigError
from ticdc_assets.events.written import find_decoder
from ticdc_assets.store.lake import LakeSession

_ENCODE = msgspec.msgpack.Encoder().encode

_Task = TypeVar("_Task")
_Done = TypeVar("_Done")


def run_in_workers(
    lake: LakeSession,
    do: Callable[[_Task], _Done],
    bundles: Sequence[Sequence[_Task]],
    kind: type[_Done],
) -> Iterator[_Done]:
    """Have workers do bundles of tasks; `kind` is what doing one returns."""
    # With that, msgspec knows the structs in it.
    find_decoder(kind)
    read = msgspec.msgpack.Decoder(kind).decode
    numbers = lake.spark.range(0, len(bundles), 1, len(bundles))
    worker = _Worker(do, bundles)
    for row in numbers.mapInArrow(worker, "done binary, failure string").collect():
        if row["failure"] is not None:
            raise ConfigError(row["failure"])
        yield read(bytes(row["done"]))


def start_session(
    lake: LakeSession, do: Callable[[_Task], _Done], tasks: Sequence[_Task]
) -> tuple[Future[list[_Done]], list[_Task]]:
    """Start the session, which takes seconds, and do tasks in this process meanwhile.

    Return what will come of these, and the tasks that are left for workers.
    """
    left = iter(tasks)

    def do_here() -> list[_Done]:
        done = []
        for task in left:
            done.append(do(task))
            if lake.has_spark:
                break
        return done

    thread = ThreadPoolExecutor(1)
    doing = thread.submit(do_here)
    thread.shutdown(wait=False)
    try:
        # In this thread: what marks its jobs marks those of no other.
        _ = lake.spark
    finally:
        others = [*left]
    return doing, others


@dataclass(frozen=True)
class _Worker:
    """Does the bundles of tasks of which Spark sends the numbers to its process."""

    do: Callable[[Any], Any]
    bundles: Sequence[Sequence[Any]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for task in self.bundles[number]:
                    yield self._do(task)

    def _do(self, task: Any) -> pa.RecordBatch:
        done, failure = None, None
        try:
            done = _ENCODE(self.do(task))
        except ConfigError as error:
            # A person has to mend it: the driver says so as if it had met it.
            failure = str(error)
        columns = pa.array([done], pa.binary()), pa.array([failure], pa.string())
        return pa.RecordBatch.from_arrays(list(columns), ["done", "failure"])
