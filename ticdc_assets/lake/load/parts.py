"""Read the data files of a table in Spark's workers, in parts of bounded size."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Protocol

import pyarrow as pa
from msgspec import Struct
from pyspark.sql import DataFrame

from ticdc_assets.dumpling.dialect import Dialect
from ticdc_assets.dumpling.export import ExportedTable
from ticdc_assets.dumpling.path import ExportFile
from ticdc_assets.dumpling.reader import Range, can_be_cut, read_rows
from ticdc_assets.dumpling.source import Source
from ticdc_assets.events import TableSchema
from ticdc_assets.events.written import read_json, write_json
from ticdc_assets.lake.load.batches import add_typed, format_columns
from ticdc_assets.lake.store.lake import LakeSession

_BYTES_PER_PART = 32 << 20
# A Spark job reads no more than this, so that progress shows; each is a commit.
_BYTES_PER_COMMIT = 4 << 30
_TASKS = pa.schema([("task", pa.int32()), ("parts", pa.string())])


class ExportFolder(Protocol):
    """Opens the files of an export, on the driver and in the workers; raises `OSError`s."""

    def read(self, path: str) -> bytes:
        """Read a whole file."""
        ...

    def open(self, path: str) -> AbstractContextManager[Source]:
        """Open a file to read it piece by piece."""
        ...


class Part(Struct, frozen=True):
    """A range of a data file; `number` is the file's among those of the table.

    `size` is about that of its rows as text.
    """

    number: int
    file: ExportFile
    start: int = 0
    end: int | None = None
    size: int = 0


class _Task(Struct, frozen=True):
    parts: list[Part]


def split_into_commits(table: ExportedTable, dialect: Dialect) -> Iterator[list[Part]]:
    """Split the files of a table into parts, and these into commits."""
    parts: list[Part] = []
    size = 0
    for part in _split_files(table, dialect):
        if parts and size + part.size > _BYTES_PER_COMMIT:
            yield parts
            parts, size = [], 0
        parts.append(part)
        size += part.size
    yield parts


def _split_files(table: ExportedTable, dialect: Dialect) -> Iterator[Part]:
    for number, data in enumerate(table.data):
        if not can_be_cut(data.file, dialect) or data.size <= _BYTES_PER_PART:
            yield Part(number, data.file, size=data.text_size)
            continue
        count = -(-data.size // _BYTES_PER_PART)
        bounds = [data.size * place // count for place in range(count + 1)]
        for start, end in pairwise(bounds):
            # A file that is longer than the listing said is read to its end.
            last = None if end == data.size else end
            yield Part(number, data.file, start, last, end - start)


# Parameters: where rows are, and what they are.
def read_parts(
    lake: LakeSession,
    parts: Sequence[Part],
    schema: TableSchema,
    dialect: Dialect,
    open_folder: Callable[[], ExportFolder],
    *,
    typed: bool,
) -> DataFrame:
    """Return the rows of parts, as `batches.add_typed` does."""
    tasks = list(_group_into_tasks(parts))
    frame = lake.make_frame(
        pa.table([[*range(len(tasks))], [write_json(_Task(task)) for task in tasks]], _TASKS)
    )
    last = len(tasks) - 1
    frame = frame.repartitionById(last + 1, "task") if last else frame.coalesce(1)
    schema_json = write_json(schema)

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        folder = open_folder()
        read_as = read_json(schema_json, TableSchema)
        for batch in batches:
            for task in batch.column("parts").to_pylist():
                for part in read_json(task, _Task).parts:
                    with folder.open(part.file.path) as source:
                        part_range = Range(part.start, part.end)
                        for rows in read_rows(source, part.file, read_as, dialect, part_range):
                            yield add_typed(rows, part.number, read_as, typed=typed)

    return frame.mapInArrow(work, format_columns(schema))


def _group_into_tasks(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Group small files; without parts there is one task, which reads nothing."""
    task: list[Part] = []
    size = 0
    for part in parts:
        if task and size + part.size > _BYTES_PER_PART:
            yield task
            task, size = [], 0
        task.append(part)
        size += part.size
    yield task
