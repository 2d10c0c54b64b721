"""The rows of a table on TiDB, each by where it is stored, with texts as the encoders take them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from ticdc_assets.demo.change import RowTexts, row_columns
from ticdc_assets.demo.column_type import BINARY, FLOATS, INTEGERS, identifier
from ticdc_assets.demo.net_change import make_move_test
from ticdc_assets.demo.tidb_table import TidbTable
from ticdc_assets.events import Column

# The values of a row, each as the server printed it.
Row = tuple[bytes | None, ...]
Query = Callable[[str], Sequence[Row]]
_ROW_NUMBER = "_tidb_rowid"


class Place(NamedTuple):
    """Where TiDB stores a row: what TiCDC takes for one and the same row."""

    partition: int | None
    handle: Row


class RecordedTable:
    """A table under one schema, which a DDL ends."""

    def __init__(self, table: TidbTable) -> None:
        self._table = table
        self.schema = table.schema
        self.partition_ids = {id for _, id in table.partitions}
        self.moves = make_move_test(table.schema)
        columns = row_columns(table.schema)
        self._readers = [_make_reader(column) for column in columns]
        handle = [identifier(name) for name in table.handle] or [_ROW_NUMBER]
        stated = ", ".join([*map(_write_column, columns), *handle])
        self._select = f"SELECT {stated} FROM"
        self._from = f"{identifier(table.schema.database)}.{identifier(table.schema.table)}"
        self.partitions = [name for name, _ in table.partitions]
        # Each partition is read by itself: that tells in which one a row is.
        self._parts: list[tuple[int | None, str]] = [
            (id, f"PARTITION ({identifier(name)})") for name, id in table.partitions
        ] or [(None, "")]

    def renamed(self, name: str) -> "RecordedTable":
        """Return the same table under another name."""
        schema = self.schema.with_name(self.schema.database, name)
        return RecordedTable(self._table._replace(schema=schema))

    def stored_as(self, id: int, version: int | None) -> "RecordedTable":
        """Return the same table with other rows: those that TiDB stores under an id."""
        schema = replace(self.schema, table_id=id, version=version)
        return RecordedTable(self._table._replace(schema=schema))

    def read(self, query: Query, clause: str = "") -> dict[Place, RowTexts]:
        """Return the rows that a clause selects."""
        count = len(self._readers)
        found: dict[Place, RowTexts] = {}
        for partition, part in self._parts:
            for row in query(f"{self._select} {self._from} {part} {clause}"):
                texts = tuple(
                    None if value is None else read(value)
                    for value, read in zip(row[:count], self._readers, strict=True)
                )
                found[Place(partition, row[count:])] = texts
        return found


def _write_column(column: Column) -> str:
    name = identifier(column.name)
    # A FLOAT prints six digits; as a DOUBLE it prints all.
    return f"{name} * 1e0" if column.type.name == "float" else name


def _make_reader(column: Column) -> Callable[[bytes], str]:
    """Return how the value that the server prints becomes a text."""
    name = column.type.name
    if name in BINARY:
        return bytes.hex
    if name == "bit":
        return lambda value: str(int.from_bytes(value, "big"))
    if name in FLOATS:
        kind = np.float32 if name == "float" else np.float64
        return lambda value: np.format_float_positional(kind(float(value)), trim="-")
    if name in INTEGERS or name == "year":
        # Without the zeros of ZEROFILL.
        return lambda value: str(int(value))
    return bytes.decode
