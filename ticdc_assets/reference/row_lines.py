"""The rows of a model table as JSON lines, as `replay` prints them."""

from ticdc_assets.events.row_image import dump
from ticdc_assets.reference.table import ModelTable
from ticdc_assets.schema.types.row import RowWriter


def encode_rows(table: ModelTable) -> list[bytes]:
    """Encode a table's rows as JSON lines `{column: text or null}`, sorted to be reproducible."""
    write = RowWriter(table.schema)
    return sorted(dump(write(row)).encode() + b"\n" for row in table)
