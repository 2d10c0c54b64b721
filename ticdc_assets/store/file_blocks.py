"""Read the rows of a data file in blocks, of which a few are in memory.

A block has some row groups, or a part of one where its texts are long.
"""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

# What a block has, or a row group where that is more.
_ROWS_PER_BLOCK = 1 << 17
# An array of Arrow holds 2 GiB of texts.
_BYTES_PER_BLOCK = 1 << 28
# Spark writes moments of 96 bits, and nanoseconds end in the year 2262.
INT96_UNIT = "us"


def open_parquet(file: pa.NativeFile, metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
    """Open a Parquet file that only the calling thread reads, if it sets `use_threads` to False.

    The file may be a Python object: a thread of Arrow's own that still holds one while the
    interpreter ends aborts the process.  With `metadata`, the footer is not read again.
    """
    return pq.ParquetFile(
        file, metadata=metadata, pre_buffer=False, coerce_int96_timestamp_unit=INT96_UNIT
    )


# Parameters: a file of a folder, and those of `read_data_files` in `reader`.
def read_blocks(
    folder: fs.FileSystem,
    path: str,
    rest: pa.Schema,
    columns: Sequence[str],
    where: pc.Expression | None = None,
) -> Iterator[pa.Table]:
    """Read the rows of a data file that meet a condition in blocks, each of some row groups."""
    schema = pa.schema([rest.field(name) for name in columns])
    return read_fragment(ds.ParquetFileFormat().make_fragment(path, folder), schema, rest, where)


def read_fragment(
    file: ds.ParquetFileFragment, schema: pa.Schema, rest: pa.Schema, where: pc.Expression | None
) -> Iterator[pa.Table]:
    """Read the rows of a data file of a dataset that meet a condition, in blocks."""
    # What the condition mentions, or more: the names of columns are words of ours.
    tested = () if where is None else [name for name in rest.names if name in str(where)]
    needed = {*schema.names, *tested}
    chosen = file if where is None else _choose_groups(file, rest, where, tested)
    with file.open() as opened:
        parquet = open_parquet(opened, chosen.metadata)
        stored = parquet.schema_arrow.names
        names = [name for name in stored if name in needed]
        lacking = [rest.field(name) for name in sorted(needed.difference(stored))]
        for groups in _join_groups(chosen.row_groups):
            rows = parquet.read_row_groups(groups, names, use_threads=False)
            for field in lacking:
                rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
            found = rows if where is None else _declare(rows, rest).filter(where)
            yield from _split_block(found.select(schema.names).cast(schema))


def _choose_groups(
    file: ds.ParquetFileFragment, rest: pa.Schema, where: pc.Expression, tested: Sequence[str]
) -> ds.ParquetFileFragment:
    """Choose the row groups that may have rows of a condition.

    The rows that remain after a delete, delta-rs stores as views, which pyarrow compares with
    nothing: of such a file, all.
    """
    types = [field.type for field in file.physical_schema if field.name in tested]
    if any(pa.types.is_string_view(t) or pa.types.is_binary_view(t) for t in types):
        return file
    return file.subset(filter=where, schema=rest)


def _declare(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Cast rows to their types in a schema: pyarrow does not filter views."""
    return rows.cast(pa.schema([schema.field(name) for name in rows.column_names]))


def _split_block(rows: pa.Table) -> Iterator[pa.Table]:
    """Split what a row group of long texts has."""
    step = max(rows.num_rows // (rows.nbytes // _BYTES_PER_BLOCK + 1), 1)
    for start in range(0, max(rows.num_rows, 1), step):
        yield rows.slice(start, step)


def _join_groups(groups: Iterable[ds.RowGroupInfo]) -> Iterator[list[int]]:
    """Put row groups together that are neighbours, for blocks of not too many rows."""
    joined: list[int] = []
    rows = size = 0
    for group in groups:
        is_full = (
            rows + group.num_rows > _ROWS_PER_BLOCK
            or size + group.total_byte_size > _BYTES_PER_BLOCK
        )
        if joined and is_full:
            yield joined
            joined, rows, size = [], 0, 0
        joined.append(group.id)
        rows, size = rows + group.num_rows, size + group.total_byte_size
    if joined:
        yield joined
