"""Tables read by name, printed as `show` prints them."""

from ticdc_assets.reading import PinnedTable
from ticdc_assets.rows.lines import format_blocks


def print_rows(table: PinnedTable) -> list[bytes]:
    """Return the rows of a table as lines, in byte order."""
    rows = table.arrow()
    block = dict(zip(rows.column_names, rows.columns, strict=True))
    (lines,) = format_blocks([block], table._table.schema)
    return sorted(lines)
