"""The lake's side of a comparison, with Spark."""

import json
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ticdc_assets.verify.canonical import ComparedColumn
from ticdc_assets.verify.lake_hashes import (
    get_value,
    write_canonical,
    write_hash,
    write_shown,
)
from ticdc_assets.verify.narrowing import MOST_SPANS, ROWS_PER_SPAN
from ticdc_assets.verify.side import Comparison, Digest, Entry, Measure, Span, Texts

_MOST = (1 << 63) - 1
# The number of a position's part.  A BIGINT does not hold the difference of every two; DECIMALs,
# which do, take several times as long.
_WIDE = "decimal(22,0)"
_PART = f"""CASE WHEN (low >= 0 OR position < 0) AND width <= {_MOST}
    THEN CAST((position - low) DIV CAST(width AS bigint) AS bigint)
    ELSE CAST((CAST(position AS {_WIDE}) - CAST(low AS {_WIDE})) DIV width AS bigint) END"""
# Bits of half a hash.
_HALF = 30
# `approx_percentile` errs by one row in so many.
_ACCURACY = 100


class SparkLake:
    """The rows of a current table, with their map of inexact values, and their number."""

    def __init__(self, rows: DataFrame, count: int) -> None:
        self._rows = rows
        self._count = count

    def measure(self, lead: ComparedColumn | None) -> Measure:
        if lead is None:
            return Measure(self._count, 0, ())
        spans = min(MOST_SPANS, self._count // ROWS_PER_SPAN + 1)
        value = get_value(lead)
        shares = [number / spans for number in range(1, spans)] or [0.5]
        found = self._rows.agg(
            F.approx_count_distinct(value),
            F.min(value),
            F.max(value),
            F.approx_percentile(value, shares, max(10_000, spans * _ACCURACY)),
        ).first()
        assert found is not None
        distinct, least, most, bounds = found
        if not self._count:
            return Measure(0, 0, ())
        return Measure(
            self._count, distinct, tuple(sorted({int(n) for n in (least, *bounds, most)}))
        )

    def open(self, comparison: Comparison) -> "SparkLakeSide":
        return SparkLakeSide(self._rows, comparison)


class SparkLakeSide:
    """The rows of a current table by their positions."""

    finds_by_index = True

    def __init__(self, rows: DataFrame, comparison: Comparison) -> None:
        self._rows = rows
        self._comparison = comparison
        lead = comparison.lead
        self._position = write_hash(comparison.identity) if lead is None else get_value(lead)
        is_wide = lead is not None and lead.delta.type != "bigint" and lead.type.unsigned
        self._type = "decimal(20,0)" if is_wide else "bigint"

    def sum_parts(self, spans: Sequence[Span], parts: int) -> Iterator[tuple[Span, Digest]]:
        found = self._select(spans, write_hash(self._comparison.columns).alias("hash"))
        widths = _make_array([span.part_width(parts) for span in spans], _WIDE)
        numbered = found.withColumn("width", F.get(widths, F.col("span")))
        part = _PART if parts > 1 else "0"
        sums = numbered.groupBy("span", F.expr(part).alias("part")).agg(
            F.count(F.lit(1)),
            # In halves, as no sum of BIGINTs holds them, and DECIMALs take twice the time.
            F.sum(F.shiftright("hash", _HALF)),
            F.sum(F.col("hash").bitwiseAND(F.lit((1 << _HALF) - 1))),
        )
        for number, place, rows, high, low in _collect(sums):
            yield spans[number].part(int(place), parts), Digest(rows, (high << _HALF) + low)

    def list_entries(self, spans: Sequence[Span]) -> Iterator[Entry]:
        key = [
            write_canonical(column).alias(f"key{number}")
            for number, column in enumerate(self._comparison.key)
        ]
        found = self._select(spans, write_hash(self._comparison.columns).alias("hash"), *key)
        if not key:
            # A table without a key may have a row any number of times.
            counted = found.groupBy("position", "hash").count()
            for position, hash, copies in _collect(counted):
                yield Entry(int(position), (), hash, copies)
            return
        names = ["position", "hash", *(f"key{number}" for number in range(len(key)))]
        for position, hash, *texts in _collect(found.select(*names)):
            yield Entry(int(position), tuple(texts), hash)

    def read_rows(self, positions: Collection[int]) -> Iterator[tuple[int, Texts]]:
        wanted = self._make_array(sorted(positions))
        texts = [
            write_shown(column).alias(f"text{number}")
            for number, column in enumerate(self._comparison.columns)
        ]
        position = self._position.cast(self._type)
        at = F.get(wanted, _search(wanted, len(positions), position))
        rows = self._rows.where(at == position).select(position.alias("position"), *texts)
        if not self._comparison.key:
            rows = rows.distinct()
        for number, *values in _collect(rows):
            yield int(number), tuple(values)

    def _select(self, spans: Sequence[Span], *columns: Column) -> DataFrame:
        """Select rows in some spans: columns, the position, and the span's number and start."""
        lows = self._make_array([span.low for span in spans])
        lasts = self._make_array([span.high - 1 for span in spans])
        position = F.col("position")
        rows = self._rows
        if self._comparison.lead is not None:
            # Files whose statistics exclude these keys are not read.
            low, high = _make_literal(spans[0].low), _make_literal(spans[-1].high)
            rows = rows.where((self._position >= low) & (self._position < high))
        rows = rows.select(self._position.cast(self._type).alias("position"), *columns)
        rows = rows.withColumn("span", _search(lows, len(spans), position))
        # Where there is no span, the bound is NULL.
        found = rows.where(position <= F.get(lasts, F.col("span")))
        return found.withColumn("low", F.get(lows, F.col("span")))

    def _make_array(self, numbers: Sequence[int]) -> Column:
        if self._type == "bigint":
            # Upstream may have other types, and so positions that no row of the lake has.
            numbers = [max(-_MOST - 1, min(number, _MOST)) for number in numbers]
        return _make_array(numbers, self._type)


def _make_array(numbers: Sequence[int], type: str) -> Column:
    """Make a constant: an array expression of thousands of literals would be slow to send."""
    return F.from_json(F.lit(json.dumps(list(numbers))), f"array<{type}>")


def _make_literal(number: int) -> Column:
    """Make a literal of a number that may be beyond BIGINT."""
    return F.lit(number if abs(number) < 1 << 63 else Decimal(number))


def _search(lows: Column, count: int, position: Column) -> Column:
    """Find the last of ascending numbers that is not above a position: its index, or -1."""
    steps = [1 << bit for bit in reversed(range(count.bit_length()))]
    found = F.aggregate(
        F.array(*map(F.lit, steps)),
        F.lit(0),
        lambda place, step: F.when(
            F.coalesce(F.get(lows, place + step - 1) <= position, F.lit(False)), place + step
        ).otherwise(place),
    )
    return found - 1


def _collect(rows: DataFrame) -> Iterator[tuple[Any, ...]]:
    """Yield rows that are few enough for this process: columns are faster to fetch than rows."""
    for batch in rows.toArrow().to_batches():
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
