"""A large table in parts: what happens to one key depends on no other key.

A part has the rows, and the operations on rows, whose key has one of the hashes that are its own.
An event that moves a row from one key to another may concern two parts: one of them is its home,
where it counts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.events import TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.plan.steps import ApplyRows, Exchange, TableWork
from ticdc_assets.rows.identity import make_comparable
from ticdc_assets.rows.stored import Stored
from ticdc_assets.rows.table_rows import Rows

# The column of events that says whether a part is their home.
HOME = "is_home"
_NULL = b"\x00"

# The number of a part, for each of some rows.
PartNumbers = np.ndarray[tuple[int], np.dtype[np.uint32]]


@dataclass(frozen=True)
class Part:
    """One of `count` parts of a table."""

    number: int
    count: int

    def has(self, rows: Rows, key: Sequence[str]) -> pa.Array:
        """Return which rows are in the part, by their key."""
        return pa.array(find_parts(rows, key, self.count) == self.number)


def can_be_split(work: TableWork) -> bool:
    """Whether a table has the same key through all of its steps, so that parts remain parts."""
    schemas = [work.before, *(step.schema for step in work.steps)]
    keys = {_describe_key(schema) for schema in schemas}
    is_redecoded = any(
        typed.redecode or typed.fault is not None
        for step in work.steps
        if isinstance(step, ApplyRows)
        for typed in step.row_groups
    )
    has_exchange = any(isinstance(step, Exchange) for step in work.steps)
    return len(keys) == 1 and () not in keys and not is_redecoded and not has_exchange


def _describe_key(schema: TableSchema) -> tuple[object, ...]:
    columns = (schema.column(name) for name in schema.key)
    return tuple((fold_name(column.name), column.type) for column in columns if column is not None)


def find_parts(rows: Rows, key: Iterable[str], count: int) -> PartNumbers:
    """Return the number of the part in which each row is, by its key."""
    texts = [_write(rows.columns[name]) for name in key]
    joined = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, _NULL)
    hashes = np.fromiter(map(crc32, joined.to_pylist()), np.uint32, len(rows))
    return hashes % np.uint32(count)


def _write(stored: Stored) -> pa.Array:
    """Write values so that equal ones have equal texts; NULL is one, too."""
    values = make_comparable(stored.values)
    if pa.types.is_temporal(values.type) and not pa.types.is_date(values.type):
        values = values.cast(pa.int64())
    if not pa.types.is_binary(values.type):
        values = values.cast(pa.string()).cast(pa.binary())
    if stored.exact is not None:
        values = pc.coalesce(stored.exact.cast(pa.binary()), values)
    return pc.fill_null(values, _NULL)
