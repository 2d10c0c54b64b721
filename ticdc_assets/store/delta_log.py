"""The state of a Delta table at a version, replayed from its log in this process.

Current tables use Delta features that delta-rs does not read.  The log itself states the files of a
version, how many rows each has, and which of them are deleted, whatever the features.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from ticdc_assets.errors import ConfigError
from ticdc_assets.store.file_blocks import open_parquet
from ticdc_assets.store.log_files import (
    LOG_FOLDER,
    LogEnd,
    RemovedFromLog,
    list_commits,
    list_log,
    read_log_end,
)
from ticdc_assets.store.reader import LakeReader, naming

# Before the protocol named its features, this version of it stood for column mapping.
_MAPPING_VERSION = 2
# Of the columns of a checkpoint, what `_Action` takes.
_IN_CHECKPOINT = ["add", "metaData", "protocol", "domainMetadata"]
# Where Delta keeps the columns by which a table is clustered.
CLUSTERING = "delta.clustering"


class VersionGone(ConfigError):
    """Maintenance has removed a version from the log of its table."""


class DeletionVector(msgspec.Struct, frozen=True, rename="camel"):
    """Where the deleted rows of a file are listed, and how many there are."""

    storage_type: str
    path_or_inline_dv: str
    cardinality: int
    offset: int | None = None
    size_in_bytes: int = 0

    @property
    def id(self) -> tuple[str, str, int | None]:
        return self.storage_type, self.path_or_inline_dv, self.offset


class _File(msgspec.Struct, rename="camel"):
    path: str
    size: int | None = None
    stats: str | None = None
    deletion_vector: DeletionVector | None = None


class _MetaData(msgspec.Struct, rename="camel"):
    id: str
    schema_string: str
    configuration: dict[str, str] | None = None
    description: str | None = None
    name: str | None = None


class _DomainMetadata(msgspec.Struct):
    domain: str
    configuration: str
    removed: bool = False


class Protocol(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """What a reader and a writer of a table must know."""

    min_reader_version: int
    min_writer_version: int
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None


class _Action(msgspec.Struct, rename="camel"):
    add: _File | None = None
    remove: _File | None = None
    meta_data: _MetaData | None = None
    protocol: Protocol | None = None
    domain_metadata: _DomainMetadata | None = None


class _Stats(msgspec.Struct, rename="camel"):
    num_records: int | None = None


# Threads read logs at the same time: see `find_decoder`.
_decode_actions = msgspec.json.Decoder(_Action).decode_lines
_decode_stats = msgspec.json.Decoder(_Stats).decode


@dataclass(frozen=True)
class DataFile:
    """A data file, by its path below the table, and which of its rows are deleted."""

    path: str
    # With the deleted ones; None where the log does not state it.
    rows: int | None
    deleted: DeletionVector | None
    # In bytes, and the statistics as JSON.
    size: int = 0
    statistics: str | None = None

    @property
    def deleted_rows(self) -> int:
        return 0 if self.deleted is None else self.deleted.cardinality

    @property
    def live_rows(self) -> int | None:
        return None if self.rows is None else self.rows - self.deleted_rows


@dataclass(frozen=True)
class TableState:
    """A Delta table at a version."""

    files: tuple[DataFile, ...]
    # As Delta writes it: JSON.
    schema: str
    protocol: Protocol
    properties: Mapping[str, str]
    # The id that Delta gave the table.
    id: str
    description: str | None = None
    name: str | None = None
    # As Delta writes it; None for a table that is not clustered.
    clustering: str | None = None

    @property
    def reader_features(self) -> frozenset[str]:
        """What a reader has to know, by the protocol's names."""
        features = frozenset(self.protocol.reader_features or ())
        is_mapped = self.protocol.min_reader_version == _MAPPING_VERSION
        return features | {"columnMapping"} if is_mapped else features


def read_state(reader: LakeReader, table: str, version: int) -> TableState:
    """Replay the log of a table up to a version; raise `VersionGone` if it was removed."""
    folder, path = reader.open_folder(table), reader.location.path(table)
    with reader.explained(path):
        try:
            end = read_log_end(folder, version)
        except RemovedFromLog as error:
            raise VersionGone(str(error), file=path) from None
        return _replay(_read_actions(folder, end))


def read_newest_state(reader: LakeReader, table: str) -> tuple[int, TableState] | None:
    """Replay the log of a table to its newest version, and return that, too; None without a log."""
    folder = reader.open_folder(table)
    with reader.explained(reader.location.path(table)):
        end = read_log_end(folder)
        return None if end.version < 0 else (end.version, _replay(_read_actions(folder, end)))


def read_named_files(reader: LakeReader, table: str) -> Iterator[DataFile]:
    """Yield the files that the commits in the log of a table add and remove."""
    for action in _read_commits(reader, table, -1):
        yield from (_make_file(each) for each in (action.add, action.remove) if each)


def read_added_files(reader: LakeReader, table: str, since: int) -> Iterator[DataFile]:
    """Yield the files that the commits behind a version add, again or for the first time."""
    for action in _read_commits(reader, table, since):
        if action.add is not None:
            yield _make_file(action.add)


def _read_commits(reader: LakeReader, table: str, since: int) -> Iterator[_Action]:
    folder = reader.open_folder(table)
    with reader.explained(reader.location.path(table)):
        for version, name in list_commits(list_log(folder)).items():
            if version > since:
                with naming(name), folder.open_input_file(f"{LOG_FOLDER}/{name}") as file:
                    actions = _decode_actions(file.read())
                yield from actions


def count_rows(reader: LakeReader, table: str, version: int) -> int:
    """Count the rows of a table at a version, from its log alone where that states them."""
    return count_rows_of(reader, table, read_state(reader, table, version))


def count_newest_rows(reader: LakeReader, table: str) -> int:
    """Count the rows of a table at its newest version; none without a table."""
    found = read_newest_state(reader, table)
    return 0 if found is None else count_rows_of(reader, table, found[1])


def count_rows_of(reader: LakeReader, table: str, state: TableState) -> int:
    """Count the rows of a table in a state of it that was read."""
    folder = reader.open_folder(table)
    with reader.explained(reader.location.path(table)):
        return sum(count_stored_rows(folder, file) - file.deleted_rows for file in state.files)


def count_stored_rows(folder: fs.FileSystem, file: DataFile) -> int:
    """Count the rows of a data file, with the deleted ones, in its table's folder."""
    if file.rows is not None:
        return file.rows
    with naming(file.path), folder.open_input_file(file.path) as opened:
        return int(pq.read_metadata(opened).num_rows)


def _read_actions(folder: fs.FileSystem, end: LogEnd) -> Iterator[_Action]:
    """Yield the actions at the end of a log in order, from the last checkpoint on."""
    for name in end.checkpoint:
        with naming(name), folder.open_input_file(f"{LOG_FOLDER}/{name}") as file:
            parquet = open_parquet(file)
            columns = list_columns(parquet.schema_arrow, _IN_CHECKPOINT)
            for batch in parquet.iter_batches(columns=columns, use_threads=False):
                # Most rows of a log that is written often are files that were removed.
                is_needed = reduce(pc.or_, (pc.is_valid(column) for column in batch.columns))
                rows = batch.filter(is_needed).to_pylist(maps_as_pydicts="strict")
                yield from msgspec.convert(rows, list[_Action])
    for name, content in end.commits:
        with naming(name):
            yield from _decode_actions(content)


def list_columns(checkpoint: pa.Schema, actions: Iterable[str]) -> list[str]:
    """List the columns of some actions in a checkpoint, without what it has in two forms.

    Spark parses statistics, whose moments may be none of Python's: MySQL knows the year 0.
    """
    return [
        f"{action}.{field.name}"
        for action in actions
        if action in checkpoint.names
        for field in checkpoint.field(action).type
        if not field.name.endswith("_parsed")
    ]


def _replay(actions: Iterable[_Action]) -> TableState:
    files: dict[tuple[str, object], DataFile] = {}
    meta, protocol = _MetaData("", ""), Protocol(1, 2)
    clustering: str | None = None
    for action in actions:
        if action.remove is not None:
            files.pop(identify(_make_file(action.remove)), None)
        if action.add is not None:
            added = _make_file(action.add)
            files[identify(added)] = added
        if action.meta_data is not None:
            meta = action.meta_data
        if action.protocol is not None:
            protocol = action.protocol
        domain = action.domain_metadata
        if domain is not None and domain.domain == CLUSTERING:
            clustering = None if domain.removed else domain.configuration
    return TableState(
        tuple(files.values()),
        meta.schema_string,
        protocol,
        meta.configuration or {},
        meta.id,
        meta.description,
        meta.name,
        clustering,
    )


def identify(file: DataFile) -> tuple[str, object]:
    """Return what tells a file of a version of a table from the others."""
    return file.path, file.deleted and file.deleted.id


def read_file_action(action: Mapping[str, Any]) -> DataFile:
    """Read an action that adds a file, as it is in a log."""
    return _make_file(msgspec.convert(action, _File))


def _make_file(file: _File) -> DataFile:
    stats = _Stats() if file.stats is None else _decode_stats(file.stats)
    path, vector = unquote(file.path), file.deletion_vector
    return DataFile(path, stats.num_records, vector, file.size or 0, file.stats)
