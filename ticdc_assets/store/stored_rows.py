"""The rows of a Delta table at a version, read from its data files in this process."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from random import Random
from typing import Any, Self

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from ticdc_assets.errors import TableCannotContinue
from ticdc_assets.store.deletion_vector import read_deleted_rows
from ticdc_assets.store.delta_log import (
    DataFile,
    TableState,
    VersionGone,
    count_rows_of,
    read_state,
)
from ticdc_assets.store.file_blocks import open_parquet
from ticdc_assets.store.log_actions import list_paths
from ticdc_assets.store.reader import LakeReader, naming

# What this file implements.
_FEATURES = frozenset(
    ("columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview")
)
_ROWS_PER_BATCH = 16_384
PHYSICAL_NAME = "delta.columnMapping.physicalName"


class FilesGone(TableCannotContinue):
    """Maintenance has removed files of a table's version."""

    def __init__(self, incarnation: str, version: int) -> None:
        super().__init__(f"maintenance has removed files of current/{incarnation} @ {version}")


class StoredRows:
    """A Delta table at a version."""

    def __init__(self, reader: LakeReader, table: str, version: int) -> None:
        self._reader = reader
        self._table = table
        self.version = version

    @cached_property
    def state(self) -> TableState:
        """What the log says of the version; raises `FilesGone` if maintenance has removed it."""
        try:
            return read_state(self._reader, self._table, self.version)
        except VersionGone:
            raise FilesGone(self._table.removeprefix("current/"), self.version) from None

    @property
    def unknown_features(self) -> frozenset[str]:
        """The Delta features of the table that only Spark reads."""
        return self.state.reader_features - _FEATURES

    @property
    def has_files(self) -> bool:
        """Whether all files are there: maintenance may have removed those of old versions."""
        try:
            paths = [path for file in self.state.files for path in list_paths(file)]
        except FilesGone:
            return False
        return all(info.type is fs.FileType.File for info in self._describe(paths))

    def with_files(self, files: Sequence[DataFile]) -> Self:
        """Return the same with some of its files only."""
        chosen = copy(self)
        chosen.state = replace(self.state, files=tuple(files))
        return chosen

    def open_dataset(self, schema: pa.Schema) -> ds.Dataset:
        """Return all rows of the data files, also deleted ones, by the names of columns in files.

        A file that lacks a column has NULLs there.
        """
        folder = self._reader.open_folder(self._table)
        paths = [file.path for file in self.state.files]
        format = ds.ParquetFileFormat()
        return ds.FileSystemDataset.from_paths(
            paths, schema=schema, format=format, filesystem=folder
        )

    def size(self) -> int:
        """Return the size of the data files in bytes."""
        paths = [file.path for file in self.state.files]
        return sum(info.size or 0 for info in self._describe(paths))

    def _describe(self, paths: list[str]) -> list[fs.FileInfo]:
        folder = self._reader.open_folder(self._table)
        with self._reader.explained(self._reader.location.path(self._table)):
            return list(folder.get_file_info(paths))

    def count(self) -> int:
        """Count the rows, without reading them."""
        return count_rows_of(self._reader, self._table, self.state)

    def read(self, columns: Collection[str] | None = None) -> Iterator[dict[str, pa.Array]]:
        """Yield blocks of rows by column, all or some; a file older than a column lacks it.

        Values have the types of their file: a column may have been widened since.
        """
        names = self.physical_names
        if columns is not None:
            names = {name: names[name] for name in columns if name in names}
        folder = self._reader.open_folder(self._table)
        with self._reader.explained(self._reader.location.path(self._table)):
            for file in self.state.files:
                for batch in _read_file(folder, file, columns=[*names.values()]):
                    yield _name_columns(batch, names)

    def sample(self, places: int, random: Random) -> Iterator[tuple[str, dict[str, pa.Array]]]:
        """Yield blocks of some data files, one block each, with the file's path below the table.

        Reads at most one row group of each file.
        """
        names = self.physical_names
        folder = self._reader.open_folder(self._table)
        files = random.sample(self.state.files, min(places, len(self.state.files)))
        with self._reader.explained(self._reader.location.path(self._table)):
            for file in files:
                for batch in _read_file(folder, file, random):
                    yield file.path, _name_columns(batch, names)

    @cached_property
    def physical_names(self) -> dict[str, str]:
        """The names of the columns, in order, and those in the data files."""
        return _map_names(msgspec.json.decode(self.state.schema))

    def read_names(self, column: str) -> dict[str, str]:
        """Return the names of the fields of a struct column, in order, and those in its files."""
        fields = msgspec.json.decode(self.state.schema)["fields"]
        (found,) = (field["type"] for field in fields if field["name"] == column)
        return _map_names(found)


def have_files(reader: LakeReader, versions: Mapping[str, int], ids: Iterable[str]) -> bool:
    """Whether the files of some current tables are there, each at its version, if it has one."""
    return all(
        StoredRows(reader, f"current/{id}", versions[id]).has_files for id in ids if id in versions
    )


def _map_names(struct: dict[str, Any]) -> dict[str, str]:
    fields: list[dict[str, Any]] = struct["fields"]
    return {field["name"]: field["metadata"].get(PHYSICAL_NAME, field["name"]) for field in fields}


def _name_columns(batch: pa.RecordBatch, names: Mapping[str, str]) -> dict[str, pa.Array]:
    """Return the columns of a table by name; `names` has their names in the file."""
    found = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns = {name: found.get(physical) for name, physical in names.items()}
    return {
        name: pa.nulls(batch.num_rows) if column is None else column
        for name, column in columns.items()
    }


def _read_file(
    folder: fs.FileSystem,
    file: DataFile,
    random: Random | None = None,
    columns: list[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a data file that are not deleted; with `random`, those of one batch.

    `columns` are those to read, by their names in the file, and may be missing there.
    """
    deleted = None if file.deleted is None else read_deleted_rows(folder, file.deleted)
    first = 0
    with naming(file.path), folder.open_input_file(file.path) as opened:
        parquet = open_parquet(opened)
        groups, chosen = range(parquet.num_row_groups), None
        if random is not None:
            chosen = random.randrange(max(parquet.metadata.num_rows, 1))
            groups, first = _find_group(parquet.metadata, chosen)
        for batch in parquet.iter_batches(_ROWS_PER_BATCH, groups, columns, use_threads=False):
            last = first + batch.num_rows
            if chosen is not None and not first <= chosen < last:
                first = last
                continue
            if deleted is not None:
                kept = np.ones(batch.num_rows, bool)
                kept[deleted[(deleted >= first) & (deleted < last)] - first] = False
                yield batch.filter(pa.array(kept))
            else:
                yield batch
            first = last


def _find_group(metadata: pq.FileMetaData, row: int) -> tuple[range, int]:
    """Find the row group that has a row, and the number of the group's first row."""
    first = 0
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        if first <= row < first + rows:
            return range(group, group + 1), first
        first += rows
    return range(0), 0
