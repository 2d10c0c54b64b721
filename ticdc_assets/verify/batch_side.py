"""A side of a comparison whose rows are Arrow batches: DuckDB computes the sums of hashes.

Positions are hashes of keys, so no order and no index is needed, and memory is bounded by the
number of ranges.  One pass sums up all ranges; of those that differ, a second pass lists the rows.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from ticdc_assets.verify.batches import RowSource
from ticdc_assets.verify.canonical import (
    HASH_DIGITS,
    MD5_MARK,
    MOST_BYTES,
    NULL,
    ComparedColumn,
)
from ticdc_assets.verify.copy_values import MACROS, Reading
from ticdc_assets.verify.narrowing import add_sums
from ticdc_assets.verify.side import ALL_HASHES, Comparison, Digest, Entry, Span, Texts

_HASH = "('0x' || substring(md5({}), 1, {}))::BIGINT"
# In this many ranges, all columns of the rows are kept when their hashes are listed.
_MOST_KEPT_SPANS = 1000
_MEMORY = "2GB"


@dataclass(frozen=True)
class ReadColumn:
    """Where a compared column is in the batches, and how it is read.

    `alias` is what DuckDB calls it, so that no name of a user is in its SQL.  `exact` is a column
    with canonical texts of the values that the other one cannot hold.
    """

    name: str
    alias: str
    reading: Reading
    exact: str | None = None


class BatchSide:
    """The rows of a source by the hashes of their keys."""

    finds_by_index = False

    def __init__(
        self,
        source: RowSource,
        comparison: Comparison,
        read: Mapping[ComparedColumn, ReadColumn],
    ) -> None:
        self.source = source
        self._comparison = comparison
        self._read = [read[column] for column in comparison.columns]
        self._inputs = [*_list_inputs(self._read)]
        self._places = {column: place for place, column in enumerate(comparison.columns)}
        # What does not fit is an error: sums of ranges always do, and nothing goes to a disk.
        self._connection = duckdb.connect(config={"memory_limit": _MEMORY, "temp_directory": ""})
        self._connection.execute("SET preserve_insertion_order = false")
        for macro in MACROS:
            self._connection.execute(macro)
        # Rows that were listed, by position, and the ranges of which all are.
        self._kept: dict[int, set[Texts]] = defaultdict(set)
        self._kept_spans: set[Span] = set()

    @property
    def state(self) -> str | None:
        return self.source.state

    def sum_units(
        self, spans: Sequence[Span], parts: int, first: int = 0
    ) -> Iterator[dict[Span, Digest]]:
        width = spans[0].part_width(parts)
        grouped = f"position // {width}"
        for unit in range(first, self.source.units):
            rows = self._run(unit, [grouped, "count(*)", "sum(hash)"], spans, "GROUP BY 1")
            yield {
                Span(number * width, (number + 1) * width): Digest(count, int(sum))
                for number, count, sum in rows
            }

    def sum_parts(self, spans: Sequence[Span], parts: int) -> Iterator[tuple[Span, Digest]]:
        sums: dict[Span, Digest] = {}
        for found in self.sum_units(spans, parts):
            add_sums(sums, found)
        yield from sums.items()

    def list_entries(self, spans: Sequence[Span]) -> Iterator[Entry]:
        keep = len(spans) <= _MOST_KEPT_SPANS
        key = [self._places[column] for column in self._comparison.key]
        chosen = range(len(self._read)) if keep else key
        texts = [self._write_shown(place) for place in chosen]
        columns = ["position", "hash", "count(*)", *texts]
        for position, hash, copies, *found in self._run_all(columns, spans):
            if keep:
                self._kept[position].add(tuple(found))
                found = [found[place] for place in key]
            yield Entry(position, tuple(found), hash, copies)
        if keep:
            self._kept_spans.update(spans)

    def read_rows(self, positions: Collection[int]) -> Iterator[tuple[int, Texts]]:
        if self._are_kept(positions):
            for position in positions:
                yield from ((position, row) for row in self._kept.get(position, set()))
            return
        texts = [self._write_shown(place) for place in range(len(self._read))]
        listed = ", ".join(map(str, positions))
        for unit in range(self.source.units):
            condition = f"WHERE position IN ({listed}) GROUP BY ALL"
            for position, *row in self._run(unit, ["position", *texts], [ALL_HASHES], condition):
                yield position, tuple(row)

    def _are_kept(self, positions: Collection[int]) -> bool:
        sizes = {span.high - span.low for span in self._kept_spans}
        return all(
            any(Span(p - p % size, p - p % size + size) in self._kept_spans for size in sizes)
            for p in positions
        )

    def _run_all(self, columns: Sequence[str], spans: Sequence[Span]) -> Iterator[tuple[Any, ...]]:
        for unit in range(self.source.units):
            # A table without a key may have a row any number of times.
            yield from self._run(unit, columns, spans, "GROUP BY ALL")

    def _run(
        self, unit: int, columns: Sequence[str], spans: Sequence[Span], end: str = ""
    ) -> list[tuple[Any, ...]]:
        """Select from the rows of a unit in some ranges, which are equal in size."""
        values = ", ".join(f"{self._write(place)} AS v{place}" for place in range(len(self._read)))
        position = _write_hash(self._comparison.identity, self._places)
        hash = _write_hash(self._comparison.columns, self._places)
        if self._comparison.identity == self._comparison.columns:
            hash = "position"
        condition = ""
        if list(spans) != [ALL_HASHES]:
            size = spans[0].high - spans[0].low
            listed = ", ".join(str(span.low // size) for span in spans)
            condition = f"WHERE position // {size} IN ({listed})"
        sql = (
            f"SELECT {', '.join(columns)} FROM (SELECT *, {hash} AS hash FROM"
            f" (SELECT *, {position} AS position FROM (SELECT {values} FROM unit_rows))"
            f" {condition}) {end}"
        )
        failures: list[Exception] = []
        self._connection.register("unit_rows", self._open(unit, failures))
        try:
            return self._connection.execute(sql).fetchall()
        except duckdb.Error as error:
            # DuckDB quotes the traceback of what went wrong where the rows come from.
            raise (failures[0] if failures else error) from None
        finally:
            self._connection.unregister("unit_rows")

    def _open(self, unit: int, failures: list[Exception]) -> pa.RecordBatchReader:
        """Return the batches of a unit by their aliases; add what goes wrong to a list."""
        types = self.source.columns
        names = [given.name for given in self._inputs]
        nothing = [given.prepare_array(pa.array([], types[given.name])) for given in self._inputs]
        fields = zip((given.alias for given in self._inputs), nothing, strict=True)
        schema = pa.schema([(alias, array.type) for alias, array in fields])

        def read() -> Iterator[pa.RecordBatch]:
            try:
                for batch in self.source.read(unit, names):
                    pairs = zip(self._inputs, batch.columns, strict=True)
                    arrays = [given.prepare_array(array) for given, array in pairs]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            except Exception as error:
                failures.append(error)
                raise

        return pa.RecordBatchReader.from_batches(schema, read())

    def _write(self, place: int) -> str:
        """Write the canonical text of a column, a BLOB."""
        column = self._read[place]
        sql = column.reading.sql
        return sql if column.exact is None else f"coalesce(exact_{column.alias}, {sql})"

    def _write_shown(self, place: int) -> str:
        value = f"v{place}"
        if not self._comparison.columns[place].is_long:
            return value
        short = f"encode('{MD5_MARK.decode()}' || md5({value}))"
        return f"CASE WHEN octet_length({value}) <= {MOST_BYTES} THEN {value} ELSE {short} END"


@dataclass(frozen=True)
class _Input:
    """A column of the batches, and what DuckDB calls it."""

    name: str
    alias: str
    prepare: Callable[[pa.Array], pa.Array] | None = None

    def prepare_array(self, array: pa.Array) -> pa.Array:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        return array if self.prepare is None else self.prepare(array)


def _list_inputs(columns: Iterable[ReadColumn]) -> Iterator[_Input]:
    for column in columns:
        yield _Input(column.name, column.alias, column.reading.prepare)
        if column.exact is not None:
            yield _Input(column.exact, f"exact_{column.alias}")


def _write_hash(columns: Sequence[ComparedColumn], places: Mapping[ComparedColumn, int]) -> str:
    parts = [_write_part(column, f"v{places[column]}") for column in columns]
    return _HASH.format(" || ','::BLOB || ".join(parts), HASH_DIGITS)


def _write_part(column: ComparedColumn, value: str) -> str:
    if column.is_long:
        value = f"encode(md5({value}))"
    elif column.has_bytes:
        value = f"encode(octet_length({value}) || ':') || {value}"
    return f"coalesce({value}, '{NULL}'::BLOB)"
