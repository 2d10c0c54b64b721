"""What a copy is compared with, if it is the lake: a current table as of a ts, without Spark."""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from ticdc_assets.errors import TicdcError
from ticdc_assets.events import Column, ColumnType
from ticdc_assets.events.escaped_text import unescape_text
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.rows.columns import (
    DELETED_TS,
    INEXACT,
    DeltaColumn,
    fold_case,
    list_delta_columns,
    list_stored_columns,
    read_delta_type,
)
from ticdc_assets.rows.stored import can_be_inexact
from ticdc_assets.rows.table_rows import join_chunks, leave_out_kept, write_table
from ticdc_assets.schema.types.mysql_type import describe
from ticdc_assets.store.delta_log import DataFile
from ticdc_assets.upstream.sql import fit_fraction
from ticdc_assets.verify.batch_side import BatchSide, ReadColumn
from ticdc_assets.verify.canonical import ComparedColumn
from ticdc_assets.verify.copy_values import choose_reading
from ticdc_assets.verify.side import Comparison
from ticdc_assets.views.asof import AsOfView

# About how many rows are a unit.
_ROWS_PER_UNIT = 1_000_000
_EXACT = "exact "


class OnlySpark(TicdcError):
    """Only Spark reads the files of the table."""


def _name_exact(column: str) -> str:
    """Name the column of canonical texts of values that a Delta column cannot hold."""
    return _EXACT + column


class LakeRows:
    """The rows of a current table, which a Delta version has or events give."""

    def __init__(self, view: AsOfView, table: Incarnation) -> None:
        self._view = view
        self._table = table
        self.schema = table.schema
        self._types = {c.name: c.type for c in list_stored_columns(table.schema)}
        self._deltas = {delta.column: delta for delta in list_delta_columns(table.schema)}
        self._stored = view.find_stored(table)
        if self._stored is not None and (unknown := self._stored.unknown_features):
            raise OnlySpark(f"only Spark reads Delta's {', '.join(sorted(unknown))}")
        self._groups = [] if self._stored is None else group_files(self._stored.state.files)
        self.bytes_read = 0

    def count(self) -> int:
        return self._view.count(self._table)

    def read_as(self, column: Column, type: ColumnType, alias: str) -> ReadColumn:
        delta, held = self._deltas[column.name], self.columns
        reading = choose_reading(type, held[delta.name], alias)
        exact = _name_exact(delta.name)
        return ReadColumn(delta.name, alias, reading, exact if exact in held else None)

    def open(self, comparison: Comparison, read: Mapping[ComparedColumn, ReadColumn]) -> BatchSide:
        return BatchSide(self, comparison, read)

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        deltas = self._deltas.values()
        types = {delta.name: read_delta_type(delta.type) for delta in deltas}
        exact = (delta.name for delta in deltas if can_be_inexact(self._types[delta.column]))
        return types | {_name_exact(name): pa.binary() for name in exact}

    @property
    def units(self) -> int:
        return self._view.count_parts(self._table) if self._stored is None else len(self._groups)

    @property
    def state(self) -> str | None:
        version = None if self._stored is None else self._stored.version
        return f"{self._table.id} @ {self._view.ts}, version {version}"

    def read(self, unit: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        types = self.columns
        schema = pa.schema([(name, types[name]) for name in columns])
        deltas = self._deltas.values()
        exact = {delta.name: delta for delta in deltas if _name_exact(delta.name) in columns}
        for stored_block in self._read_blocks(unit, columns):
            block = leave_out_kept(stored_block, self._table.schema)
            found = {fold_case(name): array for name, array in block.items()}
            count = len(next(iter(block.values())))
            texts = _read_exact(found.get(fold_case(INEXACT)), exact, self._types, count)
            arrays = [
                join_chunks(found[fold_case(name)]).cast(types[name])
                if name not in texts
                else texts[name]
                for name in columns
            ]
            batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
            self.bytes_read += batch.nbytes
            yield batch

    def _read_blocks(
        self, unit: int, columns: Sequence[str]
    ) -> Iterator[Mapping[str, pa.Array | pa.ChunkedArray]]:
        if self._stored is not None:
            wanted = [*columns, INEXACT, DELETED_TS]
            yield from self._stored.with_files(self._groups[unit]).read(wanted)
            return
        rows = self._view.read_part(self._table, unit)
        if rows is not None:
            whole = write_table(rows, self._table.schema, self._table.shown_layout)
            yield dict(zip(whole.column_names, whole.columns, strict=True))


def group_files(files: Sequence[DataFile]) -> list[list[DataFile]]:
    """Group files so that a group has about a million rows, or is one file."""
    groups: list[list[DataFile]] = []
    room = 0
    for file in files:
        rows = file.rows or _ROWS_PER_UNIT
        if rows > room:
            groups.append([])
            room = _ROWS_PER_UNIT
        groups[-1].append(file)
        room -= rows
    return groups


def _read_exact(
    maps: pa.Array | pa.ChunkedArray | None,
    deltas: Mapping[str, DeltaColumn],
    types: Mapping[str, ColumnType],
    count: int,
) -> dict[str, pa.Array]:
    """Return the canonical texts in the maps of inexact values, by the names of their columns."""
    if maps is None or maps.null_count == len(maps):
        return {_name_exact(name): pa.nulls(count, pa.binary()) for name in deltas}
    rows = [dict(entries or ()) for entries in maps.to_pylist()]
    return {
        _name_exact(name): pa.array(
            [_encode(row.get(name), types[delta.column]) for row in rows], pa.binary()
        )
        for name, delta in deltas.items()
    }


def _encode(text: str | None, type: ColumnType) -> bytes | None:
    if text is None:
        return None
    exact = unescape_text(text)
    if describe(type).kind in ("datetime", "time"):
        exact = fit_fraction(exact, type)
    return exact.encode("utf-8", "surrogateescape")
