"""Rows as Arrow batches: what a copy, or the lake, gives to `batch_side`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from ticdc_assets.upstream.snapshot import UpstreamSnapshot


class RowSource(Protocol):
    """The rows of a table, in units that are read one after the other, any number of times."""

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        """The types of the columns, by name."""

    @property
    def units(self) -> int:
        """How many units there are: files, row groups, or just the whole table."""

    @property
    def state(self) -> str | None:
        """What is equal as long as the units have the same rows; None if nothing shows that."""

    @property
    def bytes_read(self) -> int:
        """The bytes of the batches so far."""

    def read(self, unit: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a unit: these columns in this order, of the types of `columns`."""


@dataclass(frozen=True)
class SqlTable:
    """A table in a database of MySQL's protocol, which computes the sums itself."""

    snapshot: UpstreamSnapshot
    database: str
    table: str


class Copy(Protocol):
    """A copy of some tables that another pipeline has filled; it is only read."""

    @property
    def shown(self) -> str:
        """The URI without secrets."""

    @property
    def templates(self) -> Sequence[object]:
        """The templates of the names of its tables, which are texts for `str`."""

    def open(
        self, database: str, table: str
    ) -> AbstractContextManager[RowSource | SqlTable | None]:
        """Open its table of a name upstream; None if it has none.

        Raise `TableUnreadable` if it cannot be read.
        """
