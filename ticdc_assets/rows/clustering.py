"""The rows of a table in files of which readers skip those without a value that they look for.

Rows are sorted by one column, so that each file, and each row group of it, has a range of values.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.events import TableSchema
from ticdc_assets.plan.layout import Layout
from ticdc_assets.rows.columns import choose_delta_names

# In memory: a file of Parquet is several times smaller.
_BYTES_PER_FILE = 128 << 20


def find_clustering_column(schema: TableSchema, layout: Layout) -> str | None:
    """Return Delta's name of the column by which rows are sorted.

    A table that is dropped in a window may have lost the column before.
    """
    if layout.cluster_by is None:
        return None
    return choose_delta_names(schema).get(layout.cluster_by)


def split_by_column(
    rows: pa.Table, column: str, bytes_per_file: int = _BYTES_PER_FILE
) -> Iterator[pa.Table]:
    """Sort rows by a column, and yield those of each file."""
    ordered = rows.take(pc.sort_indices(rows[column]))
    files = max(1, -(-ordered.nbytes // bytes_per_file))
    rows_per_file = max(1, -(-ordered.num_rows // files))
    for start in range(0, ordered.num_rows, rows_per_file):
        yield ordered.slice(start, rows_per_file)
