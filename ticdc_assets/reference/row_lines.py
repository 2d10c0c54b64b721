"""Rows of the model as JSON lines: what `replay` prints, and what tests compare."""

from ticdc_assets.events.row_image import dump
from ticdc_assets.reference.table import ModelTable
from ticdc_assets.schema.types.row import RowWriter


def encode_rows(table: ModelTable) -> list[bytes]:
    """A table's rows as JSON lines `{column: text or null}`, sorted so that runs repeat."""
    write = RowWriter(table.schema)
    return sorted(dump(write(row)).encode() + b"\n" for row in table)
