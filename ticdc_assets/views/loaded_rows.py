"""The rows that tables began with, as loads wrote them: no event states them.

The columns with the given values are searched first, so that the other columns of a large table are
read only from the data files that have the row.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.events import TableSchema
from ticdc_assets.events.row_image import load as load_image
from ticdc_assets.log.loads import read_loads
from ticdc_assets.plan.load import Load
from ticdc_assets.rows.columns import INEXACT, choose_delta_names
from ticdc_assets.rows.lines import format_blocks
from ticdc_assets.schema.types.mysql_type import Kind, describe
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import StoredRows
from ticdc_assets.views.overview import SchemaVersionRow
from ticdc_assets.views.row_history import Printed, states

_Block = Mapping[str, pa.Array]
# The kind of a column, and the text that its value has to have.
_Test = tuple[Kind, str]
# Of other kinds, stored values are not what is printed.
_COMPARED_BY_ARROW = ("integer", "decimal", "date", "datetime", "text", "binary")


@dataclass(frozen=True)
class LoadedRows:
    """A load, and the rows of it with given values; None if maintenance has removed its files."""

    load: Load
    rows: Sequence[Printed] | None


def find_loaded_rows(
    reader: LakeReader, versions: Sequence[SchemaVersionRow], wanted: Mapping[str, str]
) -> list[LoadedRows]:
    """Find the rows with these values in the loads that began tables, by ts."""
    ids = {version.incarnation for version in versions if version.origin == "load"}
    loads = [load for load in (read_loads(reader) if ids else ()) if load.incarnation in ids]
    return [
        LoadedRows(
            load, find_stored_rows(reader, load.schema, (load.incarnation, load.version), wanted)
        )
        for load in sorted(loads, key=lambda load: load.ts)
    ]


def find_stored_rows(
    reader: LakeReader, schema: TableSchema, place: tuple[str, int], wanted: Mapping[str, str]
) -> list[Printed] | None:
    """Find the rows with these values in a version of a table; None if its files are gone."""
    incarnation, version = place
    stored = StoredRows(reader, f"current/{incarnation}", version)
    if not stored.has_files:
        return None
    if any(schema.column(name) is None for name in wanted):
        return []
    blocks = _select_blocks(stored, _list_tests(schema, wanted))
    lines = (line for block in format_blocks(blocks, schema) for line in block)
    rows = (load_image(line.decode()) for line in lines)
    return [row for row in rows if states(wanted, None, row)]


def _list_tests(schema: TableSchema, wanted: Mapping[str, str]) -> dict[str, _Test]:
    """List the stored columns whose values Arrow can compare with the text wanted."""
    names = choose_delta_names(schema)
    columns = [(schema.column(name), text) for name, text in wanted.items()]
    return {
        names[column.name]: (describe(column.type).kind, text)
        for column, text in columns
        if column is not None
        and column.name in names
        and describe(column.type).kind in _COMPARED_BY_ARROW
    }


def _select_blocks(stored: StoredRows, tests: Mapping[str, _Test]) -> Iterator[_Block]:
    """Yield the rows that may have the values."""
    for file in stored.state.files:
        one = copy(stored)
        one.state = replace(stored.state, files=(file,))
        searched = one.read([*tests, INEXACT]) if tests else ()
        if tests and not any(pc.any(_choose(block, tests)).as_py() for block in searched):
            continue
        for block in one.read():
            chosen = _choose(block, tests)
            yield {name: array.filter(chosen) for name, array in block.items()}


def _choose(block: _Block, tests: Mapping[str, _Test]) -> pa.Array:
    """Choose the rows that have the values, and those with inexact ones."""
    chosen = pa.repeat(True, len(next(iter(block.values()))))
    for name, (kind, text) in tests.items():
        chosen = pc.and_(chosen, _equals(block[name], kind, text))
    return pc.or_(chosen, pc.is_valid(block[INEXACT])) if INEXACT in block else chosen


def _equals(array: pa.Array, kind: Kind, text: str) -> pa.Array:
    if kind == "datetime":
        # A TIMESTAMP is printed in UTC.
        array = array.cast(pa.timestamp("us"))
    try:
        value = pa.scalar(bytes.fromhex(text) if kind == "binary" else text).cast(array.type)
    except (ValueError, pa.ArrowException):
        # No value of the type.
        return pa.repeat(False, len(array))
    return pc.fill_null(pc.equal(array, value), False)
