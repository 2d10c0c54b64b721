"""Upstream's side of a comparison, by SQL."""

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ticdc_assets.upstream.snapshot import UpstreamSnapshot
from ticdc_assets.upstream.sql import TypedName, quote, quote_text
from ticdc_assets.verify.canonical import ComparedColumn
from ticdc_assets.verify.narrowing import add_sums
from ticdc_assets.verify.side import (
    ALL_HASHES,
    Comparison,
    Digest,
    Entry,
    Measure,
    Span,
    Texts,
)
from ticdc_assets.verify.upstream_sql import HashSql, ServerColumn

# Spans, and positions, that one query names at most: by an index each is a look-up of its own.
_SPANS_PER_QUERY = 100
_POSITIONS_PER_QUERY = 500


def estimate_rows(
    snapshot: UpstreamSnapshot, database: str, table: str, lead: TypedName | None
) -> Measure:
    """Estimate the rows of a table, and find the first and last value of a column of its key."""
    ends: Sequence[bytes | None] = ()
    if lead is not None:
        name, column = f"{quote(database)}.{quote(table)}", quote(lead.name)
        (ends,) = snapshot.query(f"SELECT MIN({column}), MAX({column}) FROM {name}")
    found = snapshot.query(
        "SELECT TABLE_ROWS FROM information_schema.TABLES"
        f" WHERE TABLE_SCHEMA = {quote_text(database)} AND TABLE_NAME = {quote_text(table)}"
    )
    rows = sum(int(row[0] or 0) for row in found)
    return Measure(rows, rows, tuple(int(end) for end in ends if end is not None))


@dataclass(frozen=True)
class ServerTable:
    """A table whose server names it, or holds its columns, otherwise than the comparison says.

    `units` are conditions by which its rows are read if their positions are hashes; `state` is
    what is equal as long as the units have the same rows.
    """

    database: str
    table: str
    held: Mapping[ComparedColumn, ServerColumn]
    units: Sequence[str] = ("1 = 1",)
    state: str | None = None


class UpstreamSide:
    """A table upstream; counts the rows that the server read for sums, and those that it sent."""

    def __init__(
        self, snapshot: UpstreamSnapshot, comparison: Comparison, place: ServerTable | None = None
    ) -> None:
        if place is None:
            place = ServerTable(comparison.database, comparison.table, {})
        self._snapshot = snapshot
        self._comparison = comparison
        self._sql = HashSql(is_tidb=snapshot.is_tidb, held=place.held)
        self._table = f"{quote(place.database)}.{quote(place.table)}"
        self._units = place.units
        self.state = place.state
        lead = comparison.lead
        self._position = quote(lead.name) if lead else self._sql.write_hash(comparison.identity)
        self._hash = self._sql.write_hash(comparison.columns)
        self._lock = threading.Lock()
        self.summed = 0
        self.sent = 0

    @property
    def finds_by_index(self) -> bool:
        return self._comparison.lead is not None

    def sum_parts(self, spans: Sequence[Span], parts: int) -> Iterator[tuple[Span, Digest]]:
        if self._comparison.lead is None:
            sums: dict[Span, Digest] = {}
            for unit in self.sum_units(spans, parts):
                add_sums(sums, unit)
            yield from sums.items()
            return
        with ThreadPoolExecutor(self._snapshot.connections) as pool:
            for found in pool.map(lambda span: self._sum_span(span, parts), spans):
                yield from found

    def _sum_span(self, span: Span, parts: int) -> list[tuple[Span, Digest]]:
        """Sum up one range of keys, which the server finds by its index."""
        number = f"({self._position} - ({span.low}))"
        if span.high - span.low >= 1 << 63:
            # Beyond BIGINT.
            number = f"(CAST({self._position} AS DECIMAL(22)) - ({span.low}))"
        part = f"{number} DIV {span.part_width(parts)}" if parts > 1 else "0"
        rows = self._group(part, self._is_in(span))
        return [(span.part(number, parts), digest) for number, digest in rows]

    def sum_units(
        self, spans: Sequence[Span], parts: int, first: int = 0
    ) -> Iterator[Mapping[Span, Digest]]:
        """Sum up ranges of hashes in one pass over the table, some units at a time."""
        with ThreadPoolExecutor(self._snapshot.connections) as pool:
            yield from pool.map(
                lambda unit: self._sum_unit(spans, parts, unit), self._units[first:]
            )

    def _sum_unit(self, spans: Sequence[Span], parts: int, unit: str) -> dict[Span, Digest]:
        width = spans[0].part_width(parts)
        condition = f"{self._is_in_any(spans)} AND {unit}"
        return {
            Span(number * width, (number + 1) * width): digest
            for number, digest in self._group(f"{self._position} DIV {width}", condition)
        }

    def _group(self, part: str, condition: str) -> list[tuple[int, Digest]]:
        found = self._snapshot.query(
            f"SELECT {part}, COUNT(*), SUM({self._hash}) FROM {self._table}"
            f" WHERE {condition} GROUP BY 1 ORDER BY NULL"
        )
        digests = [(int(n or 0), Digest(int(rows or 0), int(sum or 0))) for n, rows, sum in found]
        self._spend(summed=sum(digest.rows for _, digest in digests))
        return [(number, digest) for number, digest in sorted(digests) if digest.rows]

    def list_entries(self, spans: Sequence[Span]) -> Iterator[Entry]:
        key = self._comparison.key
        # A table without a key may have a row any number of times.
        count, end = ("1", "") if key else ("COUNT(*)", " GROUP BY 1, 2")
        columns = [self._position, self._hash, count, *map(self._sql.write_text, key)]
        for condition in self._find_conditions(spans):
            for position, hash, copies, *texts in self._select(columns, condition + end):
                yield Entry(int(position or 0), tuple(texts), int(hash or 0), int(copies or 0))

    def _find_conditions(self, spans: Sequence[Span]) -> Iterator[str]:
        if self._comparison.lead is None:
            yield from (f"{self._is_in_any(spans)} AND {unit}" for unit in self._units)
            return
        for start in range(0, len(spans), _SPANS_PER_QUERY):
            chosen = _join_adjacent(spans[start : start + _SPANS_PER_QUERY])
            yield " OR ".join(f"({self._is_in(span)})" for span in chosen)

    def read_rows(self, positions: Collection[int]) -> Iterator[tuple[int, Texts]]:
        ordered = sorted(positions)
        # Where an index finds a row, few at a time; else all in one pass over the table.
        step = len(ordered) if self._comparison.lead is None else _POSITIONS_PER_QUERY
        shown = [self._sql.write_shown(column) for column in self._comparison.columns]
        for start in range(0, len(ordered), step or 1):
            listed = ", ".join(map(str, ordered[start : start + step]))
            for unit in self._units:
                condition = f"{self._position} IN ({listed}) AND {unit}"
                for position, *texts in self._select([self._position, *shown], condition):
                    yield int(position or 0), tuple(texts)

    def _select(self, columns: Sequence[str], condition: str) -> Sequence[Texts]:
        listed = ", ".join(columns)
        if not self._comparison.key:
            listed = f"DISTINCT {listed}"
        rows = self._snapshot.query(f"SELECT {listed} FROM {self._table} WHERE {condition}")
        self._spend(sent=len(rows))
        return rows

    def _is_in(self, span: Span) -> str:
        return f"{self._position} >= {span.low} AND {self._position} < {span.high}"

    def _is_in_any(self, spans: Sequence[Span]) -> str:
        """Write that a hash is in one of some spans of the same size."""
        if spans[0] == ALL_HASHES:
            return "1 = 1"
        size = spans[0].high - spans[0].low
        listed = ", ".join(str(span.low // size) for span in spans)
        return f"{self._position} DIV {size} IN ({listed})"

    def _spend(self, *, summed: int = 0, sent: int = 0) -> None:
        with self._lock:
            self.summed += summed
            self.sent += sent
        self._snapshot.pace.spend(summed + sent)


def _join_adjacent(spans: Sequence[Span]) -> list[Span]:
    """Join spans of which one begins where the other ends."""
    joined: list[Span] = []
    for span in spans:
        if joined and joined[-1].high == span.low:
            joined[-1] = Span(joined[-1].low, span.high)
        else:
            joined.append(span)
    return joined
