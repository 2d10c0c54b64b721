"""Data files of Delta tables, written by whichever process has the rows.

A file counts only once a commit names it (`LakeWriter`).  Its name is unique, so that a task which
is repeated or killed leaves an orphan, which `maintain` removes, and nothing else.
"""

import json
import secrets
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import create_folder

# Of texts longer than this, Delta's statistics have no exact bounds.
_LONGEST_BOUND = 32
_WITH_STATISTICS = 32
ROWS_PER_GROUP = 1 << 17
# In a sample of so many rows, each value of a column with a dictionary appears so often on average.
_SAMPLED, _ROWS_PER_VALUE = 4_096, 4


class WrittenFile(msgspec.Struct, frozen=True):
    """A data file that was written: its path below its table, and what Delta's log says of it."""

    path: str
    size: int
    rows: int
    statistics: str


# Parameters: of a table, rows, and how readers are to find some of them.
def write_data_file(
    location: Lake,
    table: str,
    rows: pa.Table,
    measured: Sequence[str] | None = None,
    *,
    sorted_by: str | None = None,
    rows_per_group: int = ROWS_PER_GROUP,
) -> WrittenFile:
    """Write rows into a new data file of a table, with statistics of some columns, or the first.

    Of the column by which they are sorted, these have the bounds of moments, too.
    """
    return write_into(
        location.path(table), rows, measured, sorted_by=sorted_by, rows_per_group=rows_per_group
    )


def write_into(
    folder: str,
    rows: pa.Table,
    measured: Sequence[str] | None = None,
    *,
    sorted_by: str | None = None,
    rows_per_group: int = ROWS_PER_GROUP,
) -> WrittenFile:
    """Write rows into a new data file in a folder: a path, or a URI."""
    name, size = _write(folder, rows, rows_per_group)
    if measured is None:
        measured = rows.column_names[:_WITH_STATISTICS]
    if sorted_by is not None and sorted_by not in measured:
        measured = [*measured, sorted_by]
    return WrittenFile(name, size, rows.num_rows, measure(rows.select(measured), sorted_by))


def write_passing(location: Lake, table: str, rows: pa.Table) -> str:
    """Write rows that only the next tasks read into the folder of a table; return the file's name.

    Arrow's own format takes a fraction of the time that Parquet takes.
    """
    name = f"part-{secrets.token_hex(16)}.arrows"
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with (
        create_folder(location.path(table)).open_output_stream(name) as stream,
        pa.ipc.new_stream(stream, rows.schema, options=options) as writer,
    ):
        writer.write_table(rows, ROWS_PER_GROUP)
    return name


def read_passing(folder: fs.FileSystem, name: str) -> pa.Table:
    """Read the rows of such a file."""
    options = pa.ipc.IpcReadOptions(use_threads=False)
    with folder.open_input_stream(name) as stream:
        return pa.ipc.open_stream(stream, options=options).read_all()


def _write(folder: str, rows: pa.Table, rows_per_group: int) -> tuple[str, int]:
    name = f"part-{secrets.token_hex(16)}.zstd.parquet"
    with create_folder(folder).open_output_stream(name) as stream:
        pq.write_table(
            rows,
            stream,
            compression="zstd",
            row_group_size=rows_per_group,
            use_dictionary=_choose_dictionaries(rows),
        )
        return name, stream.tell()


def _choose_dictionaries(rows: pa.Table) -> list[str]:
    """Choose the columns that have few different values: a dictionary costs all others dear."""
    places = np.linspace(0, max(rows.num_rows - 1, 0), min(rows.num_rows, _SAMPLED), dtype=np.int64)
    sample = rows.take(pa.array(places))
    return [
        field.name
        for field in rows.schema
        if not pa.types.is_nested(field.type)
        and pc.count_distinct(sample[field.name]).as_py() * _ROWS_PER_VALUE <= len(places)
    ]


def measure(rows: pa.Table, sorted_by: str | None) -> str:
    """Return the statistics of rows, as Delta's log has them."""
    bounds: dict[str, dict[str, Any]] = {"minValues": {}, "maxValues": {}}
    nulls = {}
    for field in rows.schema:
        column = rows[field.name]
        if pa.types.is_nested(field.type):
            continue
        nulls[field.name] = column.null_count
        least_and_most = _find_bounds(column)
        if least_and_most is None and field.name == sorted_by:
            least_and_most = _find_bounds_of_moments(column)
        if least_and_most is not None:
            least, most = least_and_most
            bounds["minValues"][field.name], bounds["maxValues"][field.name] = least, most
    return json.dumps({"numRecords": rows.num_rows, **bounds, "nullCount": nulls})


def _find_bounds(column: pa.ChunkedArray) -> tuple[Any, Any] | None:
    """Return the least and the greatest value; None where the log does not state them exactly."""
    kind = column.type
    if column.null_count == len(column):
        return None
    if pa.types.is_integer(kind):
        found = pc.min_max(column).as_py()
        return found["min"], found["max"]
    if pa.types.is_date(kind):
        days = pc.min_max(column.cast(pa.int32()))
        least, most = (bound.cast(pa.date32()).cast(pa.string()).as_py() for bound in days.values())
        return _spare_year_0(least, most)
    if pa.types.is_string(kind) and pc.max(pc.binary_length(column)).as_py() <= _LONGEST_BOUND:
        found = pc.min_max(column).as_py()
        return found["min"], found["max"]
    return None


def _find_bounds_of_moments(column: pa.ChunkedArray) -> tuple[Any, Any] | None:
    """Return the bounds of moments; None for a column of any other type."""
    kind = column.type
    if column.null_count == len(column) or not pa.types.is_timestamp(kind):
        return None
    bounds = pc.min_max(column.cast(pa.timestamp("us")))
    zone = "" if kind.tz is None else "Z"
    least, most = (bound.cast(pa.string()).as_py() for bound in bounds.values())
    return _spare_year_0(f"{least.replace(' ', 'T')}{zone}", f"{most.replace(' ', 'T')}{zone}")


def _spare_year_0(least: str, most: str) -> tuple[str, str] | None:
    """Return bounds of times, unless not every reader knows their year."""
    return None if least < "0001" else (least, most)
