"""A large table in parts: what happens to one row depends on no other row.

What identifies a row is its key; in a table without a key, all of its values, and equal rows are
in one part.  A part has the rows, and the operations on rows, whose identity has one of the hashes
that are its own.  An event that takes a row from one identity to another may concern two parts:
one of them is its home, where it counts.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.events import TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.plan.steps import ApplyRows, TableWork, list_partners
from ticdc_assets.rows.columns import list_stored_columns
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

    def has(self, rows: Rows, names: Iterable[str]) -> pa.Array:
        """Return which rows are in the part, by the columns that identify them."""
        return pa.array(find_parts(rows, names, self.count) == self.number)


def can_be_split(work: TableWork) -> bool:
    """Whether the same columns identify rows through all steps of a table, so that parts remain.

    An update without an old row may concern any row of a table without a key.
    """
    schemas = [work.before, *(step.schema for step in work.steps)]
    groups = [
        typed for step in work.steps if isinstance(step, ApplyRows) for typed in step.row_groups
    ]
    is_redecoded = any(typed.redecode or typed.fault is not None for typed in groups)
    overwrites = any(not schema.key for schema in schemas) and any(
        typed.group.overwrites for typed in groups
    )
    has_partner = bool(list_partners(work))
    return not (is_redecoded or overwrites or has_partner) and have_one_identity(schemas)


def have_one_identity(schemas: Iterable[TableSchema]) -> bool:
    """Whether the same columns identify the rows of a table under some schemas."""
    return len({_describe_identity(schema) for schema in schemas}) == 1


def list_identifying(schema: TableSchema) -> tuple[str, ...]:
    """List the columns that identify a row: those of the key, or all."""
    key = {fold_name(name) for name in schema.key}
    stored = list_stored_columns(schema)
    return tuple(c.name for c in stored if not key or fold_name(c.name) in key)


def _describe_identity(schema: TableSchema) -> tuple[object, ...]:
    columns = (schema.column(name) for name in list_identifying(schema))
    types = {fold_name(column.name): column.type for column in columns if column is not None}
    return bool(schema.key), frozenset(types.items())


def find_parts(rows: Rows, names: Iterable[str], count: int) -> PartNumbers:
    """Return the number of the part in which each row is, by the columns that identify it."""
    # DDLs may move columns.
    texts = [_write(rows.columns[name]) for name in sorted(names, key=fold_name)]
    if not texts:
        return np.zeros(len(rows), np.uint32)
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
