"""Copies in folders: Delta tables, Parquet files and Iceberg tables."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError
from pyarrow import fs

from ticdc_assets.resources.copy_names import Template
from ticdc_assets.safe_text import describe_error, redact
from ticdc_assets.store.delta_log import DataFile, read_newest_state
from ticdc_assets.store.file_blocks import INT96_UNIT
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.open_table import open_table
from ticdc_assets.store.reader import LakeReader, open_folder
from ticdc_assets.store.stored_rows import StoredRows
from ticdc_assets.upstream.snapshot import TableUnreadable
from ticdc_assets.verify.batches import RowSource
from ticdc_assets.verify.lake_rows import group_files

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, StaticTable

_SETTING = "--against"
_METADATA = re.compile(r"(?:v?(\d+))(?:-[^/]*)?(?:\.gz)?\.metadata\.json(?:\.gz)?")
_ROWS_PER_BATCH = 65_536
Kind = Literal["delta", "parquet", "iceberg"]


@dataclass(frozen=True)
class FolderCopy:
    """A folder with a folder per table."""

    kind: Kind
    root: str
    templates: Sequence[Template]

    @property
    def shown(self) -> str:
        return redact(f"{self.kind}:{self.root}")

    @contextmanager
    def open(self, database: str, table: str) -> Iterator[RowSource | None]:
        try:
            yield self._open(database, table)
        except (DeltaError, OSError, pa.ArrowException, ValueError) as error:
            raise TableUnreadable(describe_error(error), setting=_SETTING) from None

    def _open(self, database: str, table: str) -> RowSource | None:
        store = open_folder(self.root)
        for template in self.templates:
            path = template.fill_path(database, table)
            if store.get_file_info(path).type is not fs.FileType.Directory:
                continue
            # A folder may be there, and the table in another one.
            if (found := self._open_folder(store, path)) is not None:
                return found
        # An object store has no folders, only objects below them.
        if "://" not in self.root and not os.path.isdir(self.root):
            raise TableUnreadable(f"there is no folder {redact(self.root)}", setting=_SETTING)
        return None

    def _open_folder(self, store: fs.FileSystem, path: str) -> RowSource | None:
        match self.kind:
            case "delta":
                return open_delta(self.root, path)
            case "parquet":
                return open_parquet(store, path)
            case "iceberg":
                return open_iceberg(self.root, store, path)


class _Counting:
    """Counts the bytes of batches, and brings each to the types that were stated."""

    def __init__(self, columns: Mapping[str, pa.DataType], state: str | None) -> None:
        self.columns = columns
        self.state = state
        self.bytes_read = 0

    def count(
        self, columns: Sequence[str], arrays: Sequence[pa.Array | pa.ChunkedArray]
    ) -> pa.RecordBatch:
        cast = [
            array if array.type == self.columns[name] else array.cast(self.columns[name])
            for name, array in zip(columns, arrays, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(cast, list(columns))
        self.bytes_read += batch.nbytes
        return batch


# --- Delta -------------------------------------------------------------------


class _PlainFolder(Lake):
    """A folder whose tables are where their names say."""

    def path(self, table: str) -> str:
        return f"{self.root.rstrip('/')}/{table}"


class DeltaRows(_Counting):
    """The newest version of a Delta table, whoever writes it; a unit is some of its files."""

    def __init__(self, stored: StoredRows, opened: DeltaTable) -> None:
        schema = pa.schema(Schema.from_json(stored.state.schema).to_arrow())
        super().__init__(
            {field.name: field.type for field in schema}, f"{stored.state.id} @ {stored.version}"
        )
        self._stored = stored
        self._groups = group_files(stored.state.files)
        self._partitions = opened.metadata().partition_columns
        self._values = _read_partition_values(opened) if self._partitions else {}

    @property
    def units(self) -> int:
        return len(self._groups)

    def read(self, unit: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = [name for name in columns if name not in self._partitions]
        for file in self._groups[unit]:
            constants = self._values.get(file.path, {})
            for block in self._read_file(file, wanted):
                length = len(next(iter(block.values())))
                arrays = [
                    pa.repeat(pa.scalar(constants.get(name), self.columns[name]), length)
                    if name in self._partitions
                    else block[name]
                    for name in columns
                ]
                yield self.count(columns, arrays)

    def _read_file(self, file: DataFile, wanted: Sequence[str]) -> Iterator[dict[str, pa.Array]]:
        # A file without any of these columns says by another one how many rows it has.
        names = wanted or [n for n in self._stored.physical_names if n not in self._partitions][:1]
        yield from self._stored.with_files([file]).read(names)


def open_delta(root: str, path: str) -> DeltaRows | None:
    """Open a Delta table below a folder; None if there is none."""
    reader = LakeReader(_PlainFolder(root, ""))
    found = read_newest_state(reader, path)
    if found is None:
        return None
    stored = StoredRows(reader, path, found[0])
    if unknown := stored.unknown_features:
        reason = f"only Spark reads Delta's {', '.join(sorted(unknown))}"
        raise TableUnreadable(reason, setting=_SETTING)
    return DeltaRows(stored, open_table(reader.location.path(path), found[0]))


def _read_partition_values(opened: DeltaTable) -> dict[str, dict[str, Any]]:
    """Read the values of partition columns by the paths of files."""
    actions = pa.table(opened.get_add_actions(flatten=True))
    prefix = "partition."
    names = [name for name in actions.column_names if name.startswith(prefix)]
    rows = actions.select(["path", *names]).to_pylist()
    return {
        # Escaped as in the log.
        unquote(row["path"]): {name.removeprefix(prefix): row[name] for name in names}
        for row in rows
    }


# --- Parquet -----------------------------------------------------------------


class ParquetRows(_Counting):
    """The Parquet files below a folder; a unit is a file."""

    def __init__(self, dataset: ds.Dataset, files: Sequence[fs.FileInfo]) -> None:
        listed = sorted((info.path, info.size, info.mtime_ns) for info in files)
        super().__init__({field.name: field.type for field in dataset.schema}, repr(listed))
        self._fragments = sorted(dataset.get_fragments(), key=lambda fragment: fragment.path)
        self._schema = dataset.schema

    @property
    def units(self) -> int:
        return len(self._fragments)

    def read(self, unit: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        scanner = self._fragments[unit].scanner(
            schema=self._schema,
            columns=list(columns),
            batch_size=_ROWS_PER_BATCH,
            use_threads=False,
        )
        for batch in scanner.to_batches():
            yield self.count(columns, batch.columns)


def open_parquet(store: fs.FileSystem, path: str) -> ParquetRows | None:
    """Open the Parquet files below a folder; None if there are none."""
    if store.get_file_info(f"{path}/_delta_log").type is fs.FileType.Directory:
        # Its folder has the files of former versions, too.
        raise TableUnreadable("it is a Delta table: compare it with delta:", setting=_SETTING)
    found = store.get_file_info(fs.FileSelector(path, recursive=True))
    files = [info for info in found if info.type is fs.FileType.File and _is_data(info, path)]
    if not files:
        return None
    paths = [info.path for info in files]
    format = ds.ParquetFileFormat(coerce_int96_timestamp_unit=INT96_UNIT)
    opened = ds.FileSystemDataset.from_paths(paths, pa.schema([]), format, store)
    schemas = [fragment.physical_schema for fragment in opened.get_fragments()]
    # A file may lack a column that others have, or have a narrower one.
    whole = pa.unify_schemas(schemas, promote_options="permissive").remove_metadata()
    in_names = _list_named(files, path)
    for name in in_names.difference(whole.names):
        # The names of folders are texts, also those that look like numbers.
        whole = whole.append(pa.field(name, pa.string()))
    dataset = ds.dataset(
        paths,
        schema=whole,
        filesystem=store,
        format=format,
        partitioning=ds.partitioning(
            pa.schema([whole.field(name) for name in sorted(in_names)]), flavor="hive"
        ),
        partition_base_dir=path,
    )
    return ParquetRows(dataset, files)


def _list_named(files: Sequence[fs.FileInfo], folder: str) -> set[str]:
    """List the columns whose values are in the names of folders."""
    parts = (part for info in files for part in _split_path(info, folder)[:-1])
    return {unquote(part.partition("=")[0]) for part in parts if "=" in part}


def _split_path(info: fs.FileInfo, folder: str) -> list[str]:
    path: str = info.path
    return path.removeprefix(folder).lstrip("/").split("/")


def _is_data(info: fs.FileInfo, folder: str) -> bool:
    # Writers hide what is no data, as files and as folders, behind a point or an underscore.
    *folders, name = _split_path(info, folder)
    shown = [name, *(each for each in folders if "=" not in each)]
    is_hidden = any(each.startswith((".", "_")) for each in shown)
    return name.endswith((".parquet", ".parq", ".pq")) and not is_hidden


# --- Iceberg -----------------------------------------------------------------


class IcebergRows(_Counting):
    """The current snapshot of an Iceberg table; a unit is a data file with its deletes."""

    def __init__(self, table: "StaticTable") -> None:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
        super().__init__({field.name: field.type for field in schema}, table.metadata_location)
        self._table = table

    @cached_property
    def _tasks(self) -> "Sequence[FileScanTask]":
        return sorted(self._table.scan().plan_files(), key=lambda task: task.file.file_path)

    @property
    def units(self) -> int:
        return len(self._tasks)

    def read(self, unit: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        projected = self._table.schema().select(*columns)
        scan = ArrowScan(self._table.metadata, self._table.io, projected, AlwaysTrue())
        for batch in scan.to_record_batches([self._tasks[unit]]):
            yield self.count(columns, [batch.column(name) for name in columns])


def open_iceberg(root: str, store: fs.FileSystem, path: str) -> IcebergRows | None:
    """Open the Iceberg table in a folder, by its newest metadata; None if there is none."""
    from pyiceberg.exceptions import NoSuchTableError, ValidationError
    from pyiceberg.table import StaticTable

    selector = fs.FileSelector(f"{path}/metadata", allow_not_found=True)
    named = [(_METADATA.fullmatch(info.base_name), info) for info in store.get_file_info(selector)]
    # A number may be there twice: a writer that was too late leaves its file behind.
    numbered = [
        (int(match[1]), info.mtime_ns or 0, info.base_name)
        for match, info in named
        if match is not None
    ]
    if not numbered:
        return None
    location = f"{root.rstrip('/')}/{path}/metadata/{max(numbered)[-1]}"
    try:
        return IcebergRows(StaticTable.from_metadata(location))
    except (NoSuchTableError, ValidationError) as error:
        raise TableUnreadable(describe_error(error), setting=_SETTING) from None
