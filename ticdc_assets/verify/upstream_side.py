"""Upstream's side of a comparison, by SQL."""

import threading
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from ticdc_assets.upstream.snapshot import UpstreamSnapshot
from ticdc_assets.upstream.sql import quote, quote_text
from ticdc_assets.verify.side import (
    ALL_HASHES,
    Comparison,
    Digest,
    Entry,
    Measure,
    Span,
    Texts,
)
from ticdc_assets.verify.upstream_sql import HashSql

# Spans, and positions, that one query names at most: by an index each is a look-up of its own.
_SPANS_PER_QUERY = 100
_POSITIONS_PER_QUERY = 500


def estimate_rows(snapshot: UpstreamSnapshot, comparison: Comparison) -> Measure:
    """Estimate the rows of a table, and find its first and last position."""
    lead = comparison.lead
    assert lead is not None
    name = f"{quote(comparison.database)}.{quote(comparison.table)}"
    (ends,) = snapshot.query(f"SELECT MIN({quote(lead.name)}), MAX({quote(lead.name)}) FROM {name}")
    found = snapshot.query(
        "SELECT TABLE_ROWS FROM information_schema.TABLES"
        f" WHERE TABLE_SCHEMA = {quote_text(comparison.database)}"
        f" AND TABLE_NAME = {quote_text(comparison.table)}"
    )
    rows = sum(int(row[0] or 0) for row in found)
    return Measure(rows, rows, tuple(int(end) for end in ends if end is not None))


class UpstreamSide:
    """A table upstream; counts the rows that the server read for sums, and those that it sent."""

    def __init__(self, snapshot: UpstreamSnapshot, comparison: Comparison) -> None:
        self._snapshot = snapshot
        self._comparison = comparison
        self._sql = HashSql(is_tidb=snapshot.is_tidb)
        self._table = f"{quote(comparison.database)}.{quote(comparison.table)}"
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
            yield from self._sum_hashed(spans, parts)
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

    def _sum_hashed(self, spans: Sequence[Span], parts: int) -> Iterator[tuple[Span, Digest]]:
        """Sum up ranges of hashes in one pass over the table."""
        size = spans[0].high - spans[0].low
        width = spans[0].part_width(parts)
        rows = self._group(f"{self._position} DIV {width}", self._is_in_any(spans, size))
        for number, digest in rows:
            yield Span(number * width, (number + 1) * width), digest

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
        columns = [self._position, self._hash, count, *map(self._sql.write_canonical, key)]
        for condition in self._find_conditions(spans):
            for position, hash, copies, *texts in self._select(columns, condition + end):
                yield Entry(int(position or 0), tuple(texts), int(hash or 0), int(copies or 0))

    def _find_conditions(self, spans: Sequence[Span]) -> Iterator[str]:
        if self._comparison.lead is None:
            yield self._is_in_any(spans, spans[0].high - spans[0].low)
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
            condition = f"{self._position} IN ({listed})"
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

    def _is_in_any(self, spans: Sequence[Span], size: int) -> str:
        """Write that a hash is in one of some spans of the same size."""
        if spans[0] == ALL_HASHES:
            return "1 = 1"
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
