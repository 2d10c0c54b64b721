"""The lake's tables opened in this process, with delta-rs: reading them needs no Spark and no Java.

What is opened is one Delta version, whatever is committed meanwhile.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from ticdc_assets.errors import ConfigError
from ticdc_assets.safe_text import describe_error
from ticdc_assets.store.file_blocks import read_blocks, read_fragment
from ticdc_assets.store.format import check_format
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.open_table import open_table
from ticdc_assets.store.uris import choose_storage_options, format_uri

# What Arrow and msgspec raise for content that is not what it should be.
_DAMAGE = (pa.ArrowException, msgspec.MsgspecError, UnicodeError)
_FILES_AT_ONCE = 16
_FEW_FILES, _LITTLE = 64, 1 << 20
# From about this many rows of a table on, or bytes of Parquet, Spark's generated code pays off.
MANY_ROWS = 20_000
_SMALL_SIZE = 8 << 20

_Done = TypeVar("_Done")


class LakeNotFound(ConfigError):
    """The lake has no tables of this changefeed, or no snapshot of them."""

    def __init__(self, location: Lake) -> None:
        reason = f"holds nothing of changefeed {location.changefeed!r} yet: run advance first"
        super().__init__(reason, file=location.root, setting="--lake")


class Files(NamedTuple):
    """The files that a version of a table consists of."""

    number: int
    size: int


@dataclass(frozen=True)
class LakeReader:
    """Opens the Delta tables of one changefeed's lake; every error is a `ConfigError`."""

    location: Lake

    def open(self, table: str, version: int | None = None) -> DeltaTable:
        """Open a table at a Delta version, by default the newest."""
        path = self.location.path(table)
        with self.explained(path):
            return check_format(self.location, table, open_table(path, version))

    def find(self, table: str) -> DeltaTable | None:
        """Open a table at its newest version; None if there is none, which is quick."""
        path = self.location.path(table)
        with self.explained(path):
            try:
                return check_format(self.location, table, open_table(path))
            except TableNotFoundError:
                return None

    def open_folder(self, table: str) -> fs.FileSystem:
        """Return the folder of a table as a file system."""
        path = self.location.path(table)
        with self.explained(path):
            return open_folder(path)

    def read(
        self, table: DeltaTable, columns: Sequence[str], condition: pc.Expression | None = None
    ) -> pa.Table:
        """Read the rows that meet a condition; files whose statistics exclude it are not opened."""
        return pa.concat_tables(self.read_blocks(table, columns, condition))

    def read_blocks(
        self, table: DeltaTable, columns: Sequence[str], condition: pc.Expression | None = None
    ) -> Iterator[pa.Table]:
        """Read rows as `read` does, file by file, behind a block without rows."""
        path = _find_path(table)
        with self.explained(path):
            folder = open_folder(path)
            # On a disk, delta-rs passes each few bytes between three threads.  In an object store,
            # it spares the request for the size of each file.
            on_disk = folder if isinstance(folder, fs.SubTreeFileSystem) else None
            dataset = table.to_pyarrow_dataset(filesystem=on_disk)
            schema = pa.schema([dataset.schema.field(name) for name in columns])
            yield schema.empty_table()

            files: dict[str, ds.ParquetFileFragment] = {
                file.path: file for file in dataset.get_fragments(filter=condition)
            }

            def read_file(path: str) -> pa.Table:
                blocks = read_fragment(files[path], schema, dataset.schema, condition)
                return pa.concat_tables([schema.empty_table(), *blocks])

            yield from do_each_file(folder, [*files], read_file)

    def open_all(self, tables: Sequence[str]) -> "OpenTables":
        """Open the newest Delta versions of some tables."""
        return OpenTables(self, {table: self.open(table) for table in tables})

    def max_of(self, table: DeltaTable, column: str) -> int:
        """Return the greatest number in a column by the statistics in the log; 0 without rows."""
        return int(pc.max(self._list_statistics(table, f"max.{column}")).as_py() or 0)

    def min_of(self, table: DeltaTable, column: str) -> int | None:
        """Return the least number in a column by the statistics in the log; None without rows."""
        least: int | None = pc.min(self._list_statistics(table, f"min.{column}")).as_py()
        return least

    def _list_statistics(self, table: DeltaTable, name: str) -> pa.ChunkedArray:
        files = self.list_files(table).actions
        nothing = pa.chunked_array([], pa.int64())
        return files[name] if name in files.column_names else nothing

    def measure(self, table: DeltaTable) -> Files:
        """Return how many files a table has, and of how many bytes."""
        with self.explained(_find_path(table)):
            return measure_files(table)

    def list_files(self, table: DeltaTable) -> "FileList":
        """List the data files of a table."""
        with self.explained(_find_path(table)):
            return FileList(pa.table(table.get_add_actions(flatten=True)))

    def is_small(
        self, table: DeltaTable, above: Mapping[str, int] | None = None, *, times: int = 1
    ) -> bool:
        """Return whether this process can hold a table's rows; `times` as many as usual are few.

        With `above`, only those with a greater number in one of these columns; files without
        statistics may have some.
        """
        files = self.list_files(table).above(above or {})
        few, little = times * MANY_ROWS, times * _SMALL_SIZE
        return files.are_counted and files.rows <= few and files.size <= little

    @contextmanager
    def explained(self, path: str) -> Iterator[None]:
        """Raise the errors of libraries that read a table as one line without secrets."""
        try:
            yield
        except TableNotFoundError:
            raise LakeNotFound(self.location) from None
        except (DeltaError, OSError, *_DAMAGE) as error:
            reason = f"cannot be read: {describe_error(error).rstrip('.')}{_advise(path)}"
            raise ConfigError(reason, file=path) from None


@dataclass(frozen=True)
class FileList:
    """Data files of a table, as its log states them."""

    actions: pa.Table

    def above(self, least: Mapping[str, int]) -> "FileList":
        """Choose the files that may have a greater number in one of some columns."""
        actions = self.actions
        if not least or any(f"max.{name}" not in actions.column_names for name in least):
            return self
        has_some = [pc.greater(actions[f"max.{name}"], number) for name, number in least.items()]
        return FileList(actions.filter(pc.fill_null(reduce(pc.or_, has_some), True)))

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(map(unquote, self.actions["path"].to_pylist()))

    @property
    def rows(self) -> int:
        """How many rows the files have that state it."""
        return self._sum("num_records")

    @property
    def size(self) -> int:
        """How many bytes."""
        return self._sum("size_bytes")

    @property
    def are_counted(self) -> bool:
        """Whether every file states how many rows it has."""
        return not self.actions["num_records"].null_count

    def _sum(self, name: str) -> int:
        return pc.sum(self.actions[name]).as_py() or 0


@dataclass(frozen=True)
class OpenTables:
    """Some tables of a lake, each at the Delta version at which it was opened."""

    _reader: LakeReader
    _tables: Mapping[str, DeltaTable]

    def read(self, table: str, *columns: str, where: pc.Expression | None = None) -> pa.Table:
        """Read columns of a table."""
        return self._reader.read(self._tables[table], columns, where)

    def read_blocks(
        self, table: str, *columns: str, where: pc.Expression | None = None
    ) -> Iterator[pa.Table]:
        """Read them file by file."""
        return self._reader.read_blocks(self._tables[table], columns, where)

    def list_files(self, table: str) -> FileList:
        return self._reader.list_files(self._tables[table])

    def columns(self, table: str) -> list[str]:
        return [field.name for field in self._tables[table].schema().fields]


def measure_files(table: DeltaTable) -> Files:
    """Measure as `LakeReader.measure` does, and raise the errors of delta-rs."""
    files = pa.table(table.get_add_actions())
    return Files(files.num_rows, pc.sum(files["size_bytes"]).as_py() or 0)


def open_folder(path: str) -> fs.FileSystem:
    """Return a folder, at a path or the URI of an object store, as a file system."""
    if "://" not in path:
        return fs.SubTreeFileSystem(path, fs.LocalFileSystem())
    return fs.PyFileSystem(_ObjectStore(format_uri(path), choose_storage_options(path)))


class _ObjectStore(DeltaStorageHandler):
    def copy_file(self, src: str, dst: str) -> None:
        """Copy a file within the store; delta-rs passes the target by a name that it lacks."""
        self._handler.copy_file(src, dst)


def create_folder(path: str) -> fs.FileSystem:
    """Return a folder as `open_folder` does; one on a disk exists then."""
    if "://" not in path:
        fs.LocalFileSystem().create_dir(path)
    return open_folder(path)


def write_content(folder: fs.FileSystem, path: str, content: bytes) -> None:
    """Write a file in a folder of the lake, in place of the one that is there."""
    # delta-rs writes `bytes` only.  Arrow hands them over when a buffer of the stream is flushed;
    # without one, it hands over its own `Buffer` objects.
    with folder.open_output_stream(path, buffer_size=len(content) + 1) as file:
        file.write(content)


@contextmanager
def naming(file: str) -> Iterator[None]:
    """Raise an error about the content of a file as one that names it."""
    try:
        yield
    except _DAMAGE as error:
        raise OSError(f"{file}: {describe_error(error)}") from None


def count_by(column: str, rows: pa.Table) -> dict[Any, int]:
    """Count rows by the values of a column."""
    counts = rows.group_by(column).aggregate([([], "count_all")])
    return {row[column]: row["count_all"] for row in counts.to_pylist()}


def read_data_files(
    folder: fs.FileSystem,
    paths: Sequence[str],
    rest: pa.Schema,
    columns: Sequence[str],
    where: pc.Expression | None = None,
) -> pa.Table:
    """Read the rows of data files that meet a condition; `rest` are the columns of their table."""
    nothing = pa.schema([rest.field(name) for name in columns]).empty_table()

    def read(path: str) -> pa.Table:
        return pa.concat_tables([nothing, *read_blocks(folder, path, rest, columns, where)])

    return pa.concat_tables([nothing, *do_each_file(folder, paths, read)])


def do_each_file(
    folder: fs.FileSystem, paths: Sequence[str], do: Callable[[str], _Done]
) -> Iterator[_Done]:
    """Read files of a folder: many at once, but for little ones of a disk."""
    if _are_little(folder, paths):
        yield from map(do, paths)
        return
    with ThreadPoolExecutor(_FILES_AT_ONCE) as threads:
        yield from threads.map(do, paths)


def _are_little(folder: fs.FileSystem, paths: Sequence[str]) -> bool:
    """Return whether to read files takes less time than to start threads for it."""
    if not isinstance(folder, fs.SubTreeFileSystem) or len(paths) > _FEW_FILES:
        return False
    return sum(info.size or _LITTLE for info in folder.get_file_info([*paths])) < _LITTLE


def _advise(path: str) -> str:
    """Say what reading from a store needs."""
    if not path.startswith(("s3://", "s3a://")):
        return ""
    return (
        "; the environment must have AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or a profile or"
        " role), AWS_REGION, and AWS_ENDPOINT_URL for another server than Amazon's"
    )


def _find_path(table: DeltaTable) -> str:
    """Return the path or URI of an open table as people write it."""
    uri = table.table_uri.rstrip("/")
    return unquote(uri.removeprefix("file://")) if uri.startswith("file://") else uri
