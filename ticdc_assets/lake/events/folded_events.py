"""The row events that a fold covers: how many there are, and their removal from `events`.

Files are taken one by one, and no Spark: one that has nothing else leaves the table unread, and
any other is written again without them.  A commit takes some files at a time, so a run that is
killed has done a part, and the next one goes on.
"""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.events.event_files import write_events
from ticdc_assets.log.folds import Fold, FoldedRows, make_counts, new_sums
from ticdc_assets.log.spans import Span
from ticdc_assets.log.stopped_names import Stopped
from ticdc_assets.store.data_files import WrittenFile
from ticdc_assets.store.delta_log import DataFile, read_newest_state
from ticdc_assets.store.event_rows import SCHEMA
from ticdc_assets.store.file_blocks import read_blocks
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.lock import check_lock
from ticdc_assets.store.log_actions import add_file, describe_commit, remove_file
from ticdc_assets.store.once import write_once
from ticdc_assets.store.reader import LakeReader

_TABLE = "events"
# What a commit takes: a run that is killed does no more than this again.
_FILES_PER_COMMIT = 64
_BYTES_PER_COMMIT = 1 << 30
_COUNTED = ("name", "commit_ts", "batch")


class _Bounds(msgspec.Struct):
    """The bounds of the columns that decide, as the log states them."""

    kind: str | None = None
    commit_ts: int | None = None
    batch: int | None = None


class _Statistics(msgspec.Struct, rename="camel"):
    min_values: _Bounds = msgspec.field(default_factory=_Bounds)
    max_values: _Bounds = msgspec.field(default_factory=_Bounds)
    null_count: dict[str, int] = {}


_decode = msgspec.json.Decoder(_Statistics).decode


def count_folded(
    reader: LakeReader, fold: Fold, spans: Sequence[Span], stopped: Sequence[Stopped]
) -> list[FoldedRows]:
    """Count what a fold covers, by name.

    Rows that had arrived later than the window of their time count as repeated: the snapshot of a
    fold is valid, so no new one came so late.  For those that a load replaced, see the ledger.
    """
    sums = new_sums()
    where = fold.covers(pc.field)
    ends = np.array([span.ts for span in spans], np.int64)
    batches = np.array([*(span.batch for span in spans), np.iinfo(np.int64).max], np.int64)
    replaced = [each for each in stopped if each.is_replaced]
    folder = reader.open_folder(_TABLE)
    with reader.explained(reader.location.path(_TABLE)):
        for file in _list_candidates(reader, fold)[1]:
            for rows in read_blocks(folder, file.path, SCHEMA, _COUNTED, where):
                is_late = (
                    rows["batch"].to_numpy()
                    > batches[np.searchsorted(ends, rows["commit_ts"].to_numpy())]
                )
                counted = rows.append_column("late", pa.array(is_late).cast(pa.int64()))
                counted = counted.append_column("replaced", _count_replaced(rows, replaced))
                found = counted.group_by("name").aggregate(
                    [([], "count_all"), ("late", "sum"), ("replaced", "sum")]
                )
                for row in found.to_pylist():
                    each = sums[row["name"]]
                    for place, number in enumerate(("count_all", "late_sum", "replaced_sum")):
                        each[place] += row[number]
    return make_counts(sums)


def _count_replaced(rows: pa.Table, replaced: Sequence[Stopped]) -> pa.ChunkedArray:
    """Return 1 for rows of tables that had stopped when a load replaced them, else 0."""
    found = pa.chunked_array([pa.repeat(pa.scalar(False), rows.num_rows)])
    for each in replaced:
        ts = rows["commit_ts"]
        is_beyond = pc.and_(pc.greater(ts, each.after_ts), pc.less_equal(ts, each.through_ts))
        found = pc.or_(found, pc.and_(pc.equal(rows["name"], each.name), is_beyond))
    return found.cast(pa.int64())


def remove_folded(location: Lake, fold: Fold) -> None:
    """Remove what a fold covers, as far as it is still there."""
    if not fold.snapshot_id:
        return
    reader = LakeReader(location)
    while True:
        version, files = _list_candidates(reader, fold)
        folder = reader.open_folder(_TABLE)
        chosen: list[DataFile] = []
        written: list[WrittenFile] = []
        for file in files:
            if not _is_whole(file, fold):
                if not _has_some(folder, file, fold):
                    continue
                written += _write_rest(location, folder, file, fold)
            chosen.append(file)
            taken = sum(each.size for each in chosen)
            if len(chosen) >= _FILES_PER_COMMIT or taken >= _BYTES_PER_COMMIT:
                break
        if not chosen:
            return
        _commit(location, version, chosen, written)


def _list_candidates(reader: LakeReader, fold: Fold) -> tuple[int, list[DataFile]]:
    """List the files that may have covered events, with the newest version of the table."""
    found = read_newest_state(reader, _TABLE)
    if found is None:
        raise ConfigError("there is no Delta log", file=reader.location.path(_TABLE))
    version, state = found
    if any(file.deleted is not None for file in state.files):
        reason = "has deletion vectors, which nothing here has written: run REORG … APPLY (PURGE)"
        raise ConfigError(reason, file=reader.location.path(_TABLE))
    return version, [file for file in state.files if _may_have_some(file, fold)]


def _may_have_some(file: DataFile, fold: Fold) -> bool:
    low = _read_statistics(file).min_values
    return (low.commit_ts is None or low.commit_ts <= fold.through_ts) and (
        low.batch is None or low.batch <= fold.batch
    )


def _is_whole(file: DataFile, fold: Fold) -> bool:
    """Whether a file has nothing but covered events, by its statistics."""
    stated = _read_statistics(file)
    low, high = stated.min_values, stated.max_values
    if high.commit_ts is None or high.batch is None or any(stated.null_count.values()):
        return False
    is_old = high.commit_ts <= fold.through_ts and high.batch <= fold.batch
    return low.kind == high.kind == "row" and is_old


def _read_statistics(file: DataFile) -> _Statistics:
    return _Statistics() if file.statistics is None else _decode(file.statistics)


def _has_some(folder: fs.FileSystem, file: DataFile, fold: Fold) -> bool:
    blocks = read_blocks(folder, file.path, SCHEMA, ["batch"], fold.covers(pc.field))
    return any(rows.num_rows for rows in blocks)


def _write_rest(
    location: Lake, folder: fs.FileSystem, file: DataFile, fold: Fold
) -> list[WrittenFile]:
    """Write what a file has besides covered events into new files."""
    return [each.file for each in write_events(location, _read_rest(folder, file, fold))]


def _read_rest(folder: fs.FileSystem, file: DataFile, fold: Fold) -> Iterator[pa.RecordBatch]:
    for rows in read_blocks(folder, file.path, SCHEMA, SCHEMA.names, ~fold.covers(pc.field)):
        yield from rows.to_batches()


def _commit(
    location: Lake, version: int, removed: Sequence[DataFile], written: Sequence[WrittenFile]
) -> None:
    """Commit files in place of others, whatever features the table has."""
    actions = [describe_commit("DELETE", None)]
    actions += map(remove_file, removed)
    actions += (
        add_file(DataFile(each.path, each.rows, None, each.size, each.statistics))
        for each in written
    )
    # Of another run that has taken the lock meanwhile, no commit may be replaced.
    check_lock(location)
    path = location.path(_TABLE)
    with LakeReader(location).explained(path):
        write_once(
            location, f"{path}/_delta_log", f"{version + 1:020}.json", b"\n".join(actions) + b"\n"
        )
