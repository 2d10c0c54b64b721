"""The lake's side of a comparison for a table that this process can hold: no Spark, no Java."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from operator import itemgetter

from ticdc_assets.events import TableSchema
from ticdc_assets.events.row_image import EITHER, load
from ticdc_assets.rows.columns import INEXACT, list_delta_columns
from ticdc_assets.rows.lines import format_blocks
from ticdc_assets.rows.table_rows import leave_out_kept
from ticdc_assets.store.stored_rows import StoredRows
from ticdc_assets.verify.canonical import (
    ComparedColumn,
    hash_values,
    make_canonical,
    shorten,
)
from ticdc_assets.verify.narrowing import NOTHING
from ticdc_assets.verify.side import Comparison, Digest, Entry, Measure, Span, Texts


class SmallLake:
    """The rows of a small table."""

    def __init__(self, stored: StoredRows | None, schema: TableSchema) -> None:
        """Read the rows; a table that never had one is not stored."""
        self._images = [] if stored is None else list(_read_images(stored, schema))

    def measure(self, lead: ComparedColumn | None) -> Measure:
        # A small table is one span.
        values = set() if lead is None else {self._read(image, lead) for image in self._images}
        numbers = sorted(int(value or 0) for value in values)
        return Measure(len(self._images), len(numbers), tuple(numbers[:1] + numbers[-1:]))

    def open(self, comparison: Comparison) -> "SmallLakeSide":
        rows = [
            tuple(self._read(image, column) for column in comparison.columns)
            for image in self._images
        ]
        return SmallLakeSide(rows, comparison)

    def _read(self, image: dict[str, str | None], column: ComparedColumn) -> bytes | None:
        return make_canonical(image[column.delta.column], column.type)


def _read_images(stored: StoredRows, schema: TableSchema) -> Iterator[dict[str, str | None]]:
    """Yield rows as texts; a TIMESTAMP that is one of two moments has both."""
    deltas = [delta for delta in list_delta_columns(schema) if delta.type == "timestamp"]
    timestamps = {delta.name: delta.column for delta in deltas}
    for stored_block in stored.read():
        block = leave_out_kept(stored_block, schema)
        (lines,) = format_blocks([block], schema)
        maps = block[INEXACT].to_pylist() if INEXACT in block else [None] * len(lines)
        for line, exact_texts in zip(lines, maps, strict=True):
            image = load(line.decode())
            for name, text in exact_texts or ():
                if name in timestamps and EITHER in text:
                    image[timestamps[name]] = text
            yield image


class SmallLakeSide:
    """The canonical texts of all rows."""

    finds_by_index = True

    def __init__(self, rows: Sequence[Texts], comparison: Comparison) -> None:
        self._comparison = comparison
        placed = [(comparison.find_position(row), row) for row in rows]
        self._rows = sorted(placed, key=itemgetter(0))
        self._hashes = [hash_values(row, comparison.columns) for _, row in self._rows]

    def sum_parts(self, spans: Sequence[Span], parts: int) -> Iterator[tuple[Span, Digest]]:
        sums: dict[Span, Digest] = defaultdict(lambda: NOTHING)
        for span, at in self._find(spans):
            part = span.part((self._rows[at][0] - span.low) // span.part_width(parts), parts)
            rows, sum = sums[part]
            sums[part] = Digest(rows + 1, sum + self._hashes[at])
        yield from sums.items()

    def list_entries(self, spans: Sequence[Span]) -> Iterator[Entry]:
        # A table without a key may have a row any number of times.
        counted = Counter(
            Entry(
                self._rows[at][0],
                self._comparison.select(self._rows[at][1], self._comparison.key),
                self._hashes[at],
            )
            for _, at in self._find(spans)
        )
        for entry, copies in counted.items():
            yield entry._replace(copies=copies)

    def _find(self, spans: Sequence[Span]) -> Iterator[tuple[Span, int]]:
        """Yield the places of the rows of spans."""
        lows = [span.low for span in spans]
        for at, (position, _) in enumerate(self._rows):
            number = bisect_right(lows, position) - 1
            if number >= 0 and position < spans[number].high:
                yield spans[number], at

    def read_rows(self, positions: Collection[int]) -> Iterator[tuple[int, Texts]]:
        for position, row in dict.fromkeys(self._rows):
            if position in positions:
                columns = self._comparison.columns
                texts = (shorten(text, c) for text, c in zip(row, columns, strict=True))
                yield position, tuple(texts)
