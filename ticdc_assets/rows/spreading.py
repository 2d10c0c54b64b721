"""Spread the events of a large table over its parts, by what identifies rows in their images."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import CONTENT_ERRORS
from ticdc_assets.events import TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.plan.steps import ApplyRows, TypedRowGroup
from ticdc_assets.rows.changes import list_readings
from ticdc_assets.rows.columns import list_stored_columns
from ticdc_assets.rows.images import ImageReader, Images, SideRows
from ticdc_assets.rows.parts import HOME, PartNumbers, find_parts, list_identifying
from ticdc_assets.rows.table_rows import Rows, make_nulls
from ticdc_assets.rows.typing import refit


def spread_events(events: pa.Table, step: ApplyRows, count: int) -> list[pa.Table]:
    """Return the events of a segment that concern each part; `HOME` says whether it is theirs."""
    spread: list[list[pa.Table]] = [[] for _ in range(count)]
    for block, groups in list_readings(events, step.row_groups):
        home, other = _find_both(block, groups, step.schema, count)
        for number, pieces in enumerate(spread):
            is_home = home == number
            concerns = is_home | (other == number)
            piece = block.filter(pa.array(concerns))
            pieces.append(piece.append_column(HOME, pa.array(is_home[concerns])))
    return [pa.concat_tables(pieces) for pieces in spread]


def _find_both(
    events: pa.Table, groups: Sequence[TypedRowGroup], table: TableSchema, count: int
) -> tuple[PartNumbers, PartNumbers]:
    """Return in which part each event is at home, and which other one it may concern."""
    images = Images(*(events[name].combine_chunks() for name in ("before", "after")))
    written, identifying = groups[0].schema, list_identifying(table)
    folded = set(map(fold_name, identifying))
    names = [c.name for c in list_stored_columns(written) if fold_name(c.name) in folded]
    try:
        reader = ImageReader(written, names, names, member_names=groups[0].group.member_names)
        old, new = (
            _fit_identity(side, written, table, identifying) for side in reader.read(images)
        )
    except CONTENT_ERRORS:
        # The work on the first part meets the same error, and states it.
        nowhere = np.zeros(events.num_rows, np.uint32)
        return nowhere, nowhere
    has_old, has_new = (pc.is_valid(side).to_numpy(zero_copy_only=False) for side in images)
    of_old, of_new = (find_parts(rows, identifying, count) for rows in (old, new))
    home = np.where(has_new, of_new, of_old)
    return home, np.where(has_old, of_old, home)


def _fit_identity(
    side: SideRows, written: TableSchema, table: TableSchema, identifying: Sequence[str]
) -> Rows:
    """Return the columns that identify rows as their table has them."""
    types = {fold_name(column.name): column.type for column in written.columns}
    by_name = {fold_name(name): stored for name, stored in side.columns.items()}
    columns = {}
    for name in identifying:
        column = table.column(name)
        assert column is not None
        stored = by_name.get(fold_name(name), make_nulls(len(side.invalid), column.type))
        columns[name] = refit(stored, types.get(fold_name(name), column.type), column.type).stored
    return Rows(columns, pa.nulls(len(side.invalid), pa.int64()))
