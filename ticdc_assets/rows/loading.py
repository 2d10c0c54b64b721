"""The rows of a load: typed from texts that a reader has split into columns."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.events import TableSchema
from ticdc_assets.events.escaped_text import unescape_text
from ticdc_assets.rows.columns import list_stored_columns
from ticdc_assets.rows.images import SideRows, find_faults
from ticdc_assets.rows.table_rows import Rows
from ticdc_assets.rows.typing import TextTyper, TypedTexts


class RowTyper:
    """Types the rows of a table."""

    def __init__(self, schema: TableSchema, ts: int) -> None:
        """`ts`: when upstream had the rows."""
        self._schema = schema
        self._ts = ts
        self._typers = {
            column.name: TextTyper(column.type, member_names=True)
            for column in list_stored_columns(schema)
        }

    def type(self, texts: Sequence[pa.Array], is_escaped: pa.Array) -> tuple[Rows, pa.Array]:
        """Type rows, by column; some have escaped texts (`events.escaped_text`).

        Return them, and which of them their table cannot have.
        """
        has_escaped = pc.any(is_escaped, min_count=0).as_py()
        columns = {}
        invalid = pa.repeat(pa.scalar(False), len(is_escaped))
        for (name, typer), array in zip(self._typers.items(), texts, strict=True):
            typed = (
                _type_escaped(typer, array, is_escaped) if has_escaped else typer.type_array(array)
            )
            columns[name] = typed.stored
            if typed.invalid is not None:
                invalid = pc.or_(invalid, typed.invalid)
        faults = find_faults(SideRows(columns, invalid), self._schema)
        return Rows(columns, pa.repeat(pa.scalar(self._ts, pa.int64()), len(faults))), faults


def _type_escaped(typer: TextTyper, texts: pa.Array, is_escaped: pa.Array) -> TypedTexts:
    pairs = zip(texts.to_pylist(), is_escaped.to_pylist(), strict=True)
    return typer.type_list(
        [unescape_text(text) if escaped and text is not None else text for text, escaped in pairs]
    )
