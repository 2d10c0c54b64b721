"""Verify the checksums that TiCDC sent with rows, on the values that their table gets.

A Python worker computes them, so only rows that came with one should get here: see `GroupReader`.
"""

from typing import Any

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from ticdc_assets.events import TableSchema
from ticdc_assets.events.written import read_json, write_json
from ticdc_assets.rows.left_out import NO_CHANGE, compare_checksums
from ticdc_assets.schema.types.checksum import ChecksumVerifier
from ticdc_assets.schema.types.row import RowReader


def find_mismatch(schema: TableSchema, key_only: Column, typed_row: Column) -> Column:
    """Return how an event differs from its checksums, or NULL.

    `schema` is the one under which the row was written, and `typed_row` the new row as
    `write_images` writes it.
    """
    schema_json = write_json(schema)

    def explain(
        before: pa.Array, after: pa.Array, key_only: pa.Array, checksums: pa.Array, typed: pa.Array
    ) -> pa.Array:
        table = read_json(schema_json, TableSchema)
        verifier, read = ChecksumVerifier(table), RowReader(table, member_names=True)
        columns = (array.to_pylist() for array in (before, after, key_only, checksums, typed))
        return pa.array(
            [_explain(verifier, read, *row) for row in zip(*columns, strict=True)], pa.string()
        )

    is_hashed = F.col("after").isNotNull() & (F.col("checksum.current") != 0)
    before, after, checksum = map(F.col, ("before", "after", "checksum"))
    typed = F.when(is_hashed, typed_row)
    # Its stub lacks the default of `functionType`.
    explain_udf = arrow_udf(explain, "string")  # type: ignore[call-overload]
    found: Column = explain_udf(before, after, key_only, checksum, typed)
    return found


# Parameters: the columns of an event that its checksums concern.
def _explain(
    verifier: ChecksumVerifier,
    read: RowReader,
    before: str | None,
    after: str | None,
    key_only: bool | None,
    checksum: dict[str, Any] | None,
    typed: str | None,
) -> str | None:
    if checksum is None:
        return None
    change = replace(NO_CHANGE, before=before, after=after, handle_key_only=bool(key_only))
    row = None if typed is None else read(typed)
    mismatch = compare_checksums(verifier, change, checksum, row)
    # Lone surrogates stand for bytes that are not UTF-8.
    return mismatch and mismatch.encode(errors="backslashreplace").decode()
