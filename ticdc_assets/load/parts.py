"""Read the data files of a table in Spark's workers, in parts of bounded size."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import pyarrow as pa
from msgspec import Struct

from ticdc_assets.dumpling.dialect import Dialect
from ticdc_assets.dumpling.export import ExportedTable
from ticdc_assets.dumpling.path import ExportFile
from ticdc_assets.dumpling.reader import Range, can_be_cut, read_rows
from ticdc_assets.dumpling.source import Source
from ticdc_assets.events import TableSchema

_BYTES_PER_PART = 32 << 20
# A Spark job reads no more than this, so that progress shows.
_BYTES_PER_PORTION = 4 << 30


class ExportFolder(Protocol):
    """Opens the files of an export, on the driver and in the workers; raises `OSError`s."""

    def read(self, path: str) -> bytes:
        """Read a whole file."""
        ...

    def open(self, path: str) -> AbstractContextManager[Source]:
        """Open a file to read it piece by piece."""
        ...


class Part(Struct, frozen=True):
    """A range of a data file; `size` is about that of its rows as text."""

    file: ExportFile
    start: int = 0
    end: int | None = None
    size: int = 0


def split_into_portions(table: ExportedTable, dialect: Dialect) -> Iterator[list[Part]]:
    """Split the files of a table into parts, and these into portions."""
    parts: list[Part] = []
    size = 0
    for part in _split_files(table, dialect):
        if parts and size + part.size > _BYTES_PER_PORTION:
            yield parts
            parts, size = [], 0
        parts.append(part)
        size += part.size
    yield parts


def _split_files(table: ExportedTable, dialect: Dialect) -> Iterator[Part]:
    for data in table.data:
        if not can_be_cut(data.file, dialect) or data.size <= _BYTES_PER_PART:
            yield Part(data.file, size=data.text_size)
            continue
        count = -(-data.size // _BYTES_PER_PART)
        bounds = [data.size * place // count for place in range(count + 1)]
        for start, end in pairwise(bounds):
            # A file that is longer than the listing said is read to its end.
            last = None if end == data.size else end
            yield Part(data.file, start, last, end - start)


@dataclass(frozen=True)
class PartsReading:
    """Reads parts of files one after the other."""

    open_folder: Callable[[], ExportFolder]
    parts: tuple[Part, ...]
    schema: TableSchema
    dialect: Dialect

    def read(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the rows of each part with the path of its file."""
        folder = self.open_folder()
        for part in self.parts:
            with folder.open(part.file.path) as source:
                part_range = Range(part.start, part.end)
                for rows in read_rows(source, part.file, self.schema, self.dialect, part_range):
                    yield part.file.path, rows


def group_parts(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Group small files."""
    task: list[Part] = []
    size = 0
    for part in parts:
        if task and size + part.size > _BYTES_PER_PART:
            yield task
            task, size = [], 0
        task.append(part)
        size += part.size
    if task:
        yield task
