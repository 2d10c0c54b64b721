"""What both sides of a comparison answer: sums of hashes, hashes, and rows, by ranges of positions.

The position of a row is its integer key, or the first column of a key that begins with an integer
and seldom repeats it; of any other table, the hash of its key or, without a key, of the whole row.
A server reads a range of integer keys by its index.  A range of hashes it finds by reading the
whole table, so all of them are read at once.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ticdc_assets.verify.canonical import HASH_END, ComparedColumn, hash_values

Value = bytes | None
# The canonical texts of a key, or of a row.
Texts = tuple[Value, ...]


class Span(NamedTuple):
    """Positions from `low` up to `high`, which is the first one behind it."""

    low: int
    high: int

    def split(self, parts: int) -> "list[Span]":
        """Split into equal parts, and a shorter last one."""
        width = self.part_width(parts)
        return [Span(low, min(low + width, self.high)) for low in range(self.low, self.high, width)]

    def part_width(self, parts: int) -> int:
        return max(1, -(-(self.high - self.low) // parts))

    def part(self, number: int, parts: int) -> "Span":
        """Return one of the equal parts."""
        width = self.part_width(parts)
        low = self.low + number * width
        return Span(low, min(low + width, self.high))


ALL_HASHES = Span(0, HASH_END)


class Digest(NamedTuple):
    """The number of rows in a span, and the sum of their hashes."""

    rows: int
    sum: int


class Entry(NamedTuple):
    """A row by its key: the position, the canonical texts of the key, and the hash of the row.

    A side states equal rows of a table without a key once, with their number.
    """

    position: int
    key: Texts
    hash: int
    copies: int = 1


class Measure(NamedTuple):
    """Rows of a table, different values of its lead, and values that divide it into even spans."""

    rows: int
    distinct: int
    bounds: tuple[int, ...]


@dataclass(frozen=True)
class Comparison:
    """A table to compare: its name upstream, its columns on both sides, and its key.

    `lead` is the integer column whose values are the positions; without it, they are hashes.
    Without a key, `key` is empty, and rows are compared as a multiset.
    """

    database: str
    table: str
    columns: tuple[ComparedColumn, ...]
    key: tuple[ComparedColumn, ...]
    lead: ComparedColumn | None

    @property
    def identity(self) -> tuple[ComparedColumn, ...]:
        """The columns whose hash is the position of a row that has no lead."""
        return self.key or self.columns

    def find_position(self, row: Texts) -> int:
        """Return the position of a row."""
        if self.lead is not None:
            return int(row[self.columns.index(self.lead)] or 0)
        return hash_values(self.select(row, self.identity), self.identity)

    def select(self, row: Texts, columns: tuple[ComparedColumn, ...]) -> Texts:
        """Return the texts of some columns of a row."""
        return tuple(row[self.columns.index(column)] for column in columns)


class Side(Protocol):
    """One side of a comparison."""

    @property
    def finds_by_index(self) -> bool:
        """Whether reading some spans costs less than reading all rows."""

    def sum_parts(self, spans: Sequence[Span], parts: int) -> Iterator[tuple[Span, Digest]]:
        """Yield the sums of equal parts of spans, all those of a span together.

        Parts without rows may be left out.  The spans are disjoint and ascend; those of hashes are
        equal and begin at a multiple of their size.
        """

    def list_entries(self, spans: Sequence[Span]) -> Iterator[Entry]:
        """List the rows of spans, which are disjoint and ascend; those of hashes are equal."""

    def read_rows(self, positions: Collection[int]) -> Iterator[tuple[int, Texts]]:
        """Read the rows at some positions: canonical texts, or the MD5 of those that are long.

        Equal rows may be given once.
        """


class UnitSide(Side, Protocol):
    """A side whose rows are read in units, one after the other."""

    @property
    def state(self) -> str | None:
        """What is equal as long as the units have the same rows; None if nothing shows that."""

    def sum_units(
        self, spans: Sequence[Span], parts: int, first: int = 0
    ) -> Iterator[Mapping[Span, Digest]]:
        """Yield the sums of equal parts of spans over the rows of each unit, from `first` on."""
