"""Write data files of a Delta table again without some of their rows, whatever features it has.

Columns have the names that they have in the files, and keep all that Parquet says of them, so a
new file is to its table what the old one was.  Rows that a deletion vector deletes are in the bytes
of a file: where one of those is chosen, too, the file is written again, and has none of them then.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from ticdc_assets.errors import ConfigError
from ticdc_assets.store.data_files import measure
from ticdc_assets.store.deletion_vector import read_deleted_rows
from ticdc_assets.store.delta_log import (
    DataFile,
    identify,
    read_file_action,
    read_newest_state,
)
from ticdc_assets.store.file_blocks import open_parquet
from ticdc_assets.store.lock import check_lock
from ticdc_assets.store.log_actions import add_file, describe_commit, remove_file
from ticdc_assets.store.log_files import LOG_FOLDER
from ticdc_assets.store.once import write_once
from ticdc_assets.store.reader import LakeReader, create_folder, naming

# Rows, and which of them are chosen: return the rows that take their place.
Change = Callable[[pa.Table, pa.Array], pa.Table]


def leave_out(rows: pa.Table, chosen: pa.Array) -> pa.Table:
    """Return the rows that are not chosen."""
    return rows.filter(pc.invert(chosen))


@dataclass(frozen=True)
class RowChoice:
    """Which rows are changed, by some of their columns, and how: they are left out by default."""

    # By their names in the files; a file may lack some.
    columns: Sequence[str]
    choose: Callable[[pa.Table], pa.Array]
    change: Change = leave_out
    # Of some columns, the values that rows must have, by which files are skipped.
    values: Mapping[str, Sequence[int | str]] = field(default_factory=dict)

    def may_be_in(self, file: DataFile) -> bool:
        """Return whether a file may have chosen rows, by its statistics."""
        if not self.values or file.statistics is None:
            return True
        stated = msgspec.json.decode(file.statistics)
        least, most = stated.get("minValues") or {}, stated.get("maxValues") or {}
        return all(
            any(least[name] <= value <= most[name] for value in values)
            for name, values in self.values.items()
            if _is_comparable(values, least.get(name), most.get(name))
        )


@dataclass
class FileRewrite:
    """Writes files of a table again, each once for all versions that have it."""

    reader: LakeReader
    table: str
    choice: RowChoice
    # The rows that were chosen, in the files that were written again; deleted ones count.
    rows: int = 0
    _done: dict[tuple[str, object], DataFile | None] = field(default_factory=dict)

    def rewrite(self, files: Sequence[DataFile]) -> list[DataFile]:
        """Return the files of a version with others for those that have chosen rows."""
        with self.reader.explained(self.reader.location.path(self.table)):
            return [new for file in files if (new := self._rewrite(file)) is not None]

    def replace_actions(self, added: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return actions that add files with others for those that have chosen rows."""
        replaced = []
        for action in added:
            file = read_file_action(action)
            new = self._rewrite(file)
            if new is file:
                replaced.append(action)
            elif new is not None:
                replaced.append(msgspec.json.decode(add_file(new))["add"])
        return replaced

    def _rewrite(self, file: DataFile) -> DataFile | None:
        if (id := identify(file)) not in self._done:
            folder = self.reader.open_folder(self.table)
            may_be = self.choice.may_be_in(file)
            count = count_chosen(folder, file.path, self.choice) if may_be else 0
            self.rows += count
            self._done[id] = self._write(folder, file) if count else file
        return self._done[id]

    def _write(self, folder: fs.FileSystem, file: DataFile) -> DataFile | None:
        """Write a file again; None if it would have no rows."""
        deleted = None if file.deleted is None else read_deleted_rows(folder, file.deleted)
        name = f"part-{secrets.token_hex(16)}.zstd.parquet"
        path = self.reader.location.path(self.table)
        with naming(file.path), folder.open_input_file(file.path) as opened:
            parquet = open_parquet(opened)
            rows = 0
            with (
                create_folder(path).open_output_stream(name) as stream,
                pq.ParquetWriter(stream, parquet.schema_arrow, compression="zstd") as writer,
            ):
                for group in _read_live(parquet, deleted):
                    changed = self.choice.change(group, self.choice.choose(group))
                    if changed.num_rows:
                        writer.write_table(changed.cast(parquet.schema_arrow))
                        rows += changed.num_rows
        if not rows:
            folder.delete_file(name)
            return None
        size = folder.get_file_info(name).size or 0
        return DataFile(name, rows, None, size, _measure_again(folder, name, file.statistics))


def _is_comparable(values: Sequence[int | str], *bounds: object) -> bool:
    return bool(values) and all(type(bound) is type(values[0]) for bound in bounds)


def count_chosen(folder: fs.FileSystem, path: str, choice: RowChoice) -> int:
    """Count the rows of a data file that are chosen, deleted ones too."""
    with naming(path), folder.open_input_file(path) as opened:
        parquet = open_parquet(opened)
        stored = parquet.schema_arrow.names
        names = [name for name in stored if name in choice.columns]
        if not names:
            return 0
        count = 0
        for group in range(parquet.num_row_groups):
            rows = parquet.read_row_group(group, names, use_threads=False)
            count += pc.sum(choice.choose(rows)).as_py() or 0
        return count


def _read_live(parquet: pq.ParquetFile, deleted: Any) -> Iterator[pa.Table]:
    """Yield the row groups of a file without the rows that are deleted."""
    first = 0
    for group in range(parquet.num_row_groups):
        rows = parquet.read_row_group(group, use_threads=False)
        last = first + rows.num_rows
        if deleted is not None:
            kept = np.ones(rows.num_rows, bool)
            kept[deleted[(deleted >= first) & (deleted < last)] - first] = False
            rows = rows.filter(pa.array(kept))
        first = last
        yield rows


def _measure_again(folder: fs.FileSystem, name: str, before: str | None) -> str:
    """Return the statistics of a file, of the columns that another one had some of."""
    stated = msgspec.json.decode(before) if before is not None else {}
    bounds = stated.get("minValues") or {}
    known = {*bounds, *(stated.get("nullCount") or {})}
    with naming(name), folder.open_input_file(name) as opened:
        parquet = open_parquet(opened)
        fields = {column.name: column.type for column in parquet.schema_arrow}
        chosen = [n for n, kind in fields.items() if n in known and not pa.types.is_nested(kind)]
        if not chosen:
            return msgspec.json.encode({"numRecords": parquet.metadata.num_rows}).decode()
        rows = parquet.read(chosen, use_threads=False)
    moments = [n for n in chosen if n in bounds and pa.types.is_timestamp(fields[n])]
    return measure(rows, moments[0] if moments else None)


def commit_rewrite(
    rewrite: FileRewrite, metadata: str | None = None, *, always: bool = False
) -> int:
    """Write the newest version of a table again, in a commit if files change, or `always`.

    The commit has the metadata.  Return the newest version then.  Raise `ConcurrentCommit` if
    another run commits meanwhile.
    """
    reader, table = rewrite.reader, rewrite.table
    path = reader.location.path(table)
    found = read_newest_state(reader, table)
    if found is None:
        raise ConfigError("there is no Delta log", file=path)
    newest, state = found
    files = rewrite.rewrite(state.files)
    known = {identify(file): file for file in state.files}
    wanted = {identify(file): file for file in files}
    if known.keys() == wanted.keys() and not always:
        return newest
    actions = [describe_commit("DELETE", metadata)]
    actions += [remove_file(file) for id, file in known.items() if id not in wanted]
    actions += [add_file(file) for id, file in wanted.items() if id not in known]
    # Of another run that has taken the lock meanwhile, no commit may be replaced.
    check_lock(reader.location)
    with reader.explained(path):
        content = b"\n".join(actions) + b"\n"
        write_once(reader.location, f"{path}/{LOG_FOLDER}", f"{newest + 1:020}.json", content)
    return newest + 1
