"""The CSV protocol: data files of the storage sink, one row per record.

    op, table, schema [, commit ts] [, is-update] [, handle key], columns of the table...

`op` is I, U or D.  A file states no types, so it can only be decoded with its table's schema.  With
`output-old-value` an UPDATE is two records, D and I, both with is-update.  The format follows
TiCDC's document "Storage sink: CSV Protocol" and `pkg/sink/codec/csv`.  This module does not check
that a value fits its type.
"""

from collections.abc import Iterator
from dataclasses import replace
from zoneinfo import ZoneInfo

import pyarrow as pa

from ticdc_assets.changefeed import CsvDialect
from ticdc_assets.errors import DecodeError, MalformedMessage, UnknownMessage
from ticdc_assets.events import Event, FilePosition, Op, Ordering, Quarantined, RowChange
from ticdc_assets.protocols.csv.batch import RowCollector, UpdatePairs, numbered
from ticdc_assets.protocols.csv.columnar import ColumnarReader
from ticdc_assets.protocols.csv.scanner import Record, Scanner
from ticdc_assets.protocols.csv.shape import Row, Shapes, find_shapes, read_names
from ticdc_assets.protocols.message import DataFile

_OPS = {op.value: op for op in Op}

# The bytes that the scanner reads before the columnar reader is tried again: first and at most.
_SHORT_STRETCH = 1 << 20
_LONG_STRETCH = 1 << 25
# For fewer bytes the set-up of the columnar reader takes longer than the whole scan.
_WORTHWHILE = 1 << 13
# The error for a record with too many fields counts at most this many more.
_FIELDS_TOO_MANY = 1000
# More than a table of TiDB can have columns, with TiCDC's own fields.
_MOST_FIELDS = 5000


class CsvDecoder:
    """Decode CSV data files.

    Records are counted from 1, without the header; the position of an update with old values is
    the first of its two records.  `updates_are_inserts` says that the server does not distinguish
    the two.
    """

    def __init__(
        self, *, dialect: CsvDialect, tz: ZoneInfo, updates_are_inserts: bool = False
    ) -> None:
        # TiCDC replaces an empty terminator with the default one.
        self._dialect = replace(dialect, terminator=dialect.terminator or "\r\n")
        self._tz = tz
        self._insert = Op.UPSERT if updates_are_inserts else Op.INSERT

    def decode_file(self, file: DataFile) -> Iterator[Event]:
        """Decode a data file."""
        try:
            shapes = self._shapes(file)
        except DecodeError as error:
            yield Quarantined.from_error(error, FilePosition(file.path, 0))
            return
        ordering: Ordering = "commit_ts" if shapes.has_commit_ts else "table_version"
        for item in self._events(file, shapes):
            if isinstance(item, Quarantined):
                yield item
                continue
            columns = [column.to_pylist() for column in item.columns]
            for op, commit_ts, database, table, before, after, record in zip(*columns, strict=True):
                yield RowChange(
                    op=_OPS[op],
                    commit_ts=commit_ts,
                    database=database,
                    table=table,
                    position=FilePosition(file.path, record),
                    before=before,
                    after=after,
                    ordering=ordering,
                    table_id=file.table_id,
                    schema_version=file.version,
                    member_names=True,
                )

    def decode_batches(self, file: DataFile) -> Iterator[pa.RecordBatch | Quarantined]:
        """Decode a data file to batches of `batch.EVENTS`: columns instead of single events."""
        try:
            shapes = self._shapes(file)
        except DecodeError as error:
            return iter((Quarantined.from_error(error, FilePosition(file.path, 0)),))
        return self._events(file, shapes)

    def table_of(self, data: bytes) -> tuple[str, str] | None:
        """Return database and table of the first valid record of a file.

        With `use-table-id-as-path` the path does not name them, and no schema file has the id of a
        partition.
        """
        for record in Scanner(self._dialect, _MOST_FIELDS).records(data, 0):
            names = read_names(record.fields)
            if names is not None:
                return names
        return None

    def _shapes(self, file: DataFile) -> Shapes:
        if file.schema is None:
            raise UnknownMessage(f"the schema of table version {file.version} is unknown")
        return find_shapes(file.data, file.schema, self._dialect, self._tz)

    def _events(self, file: DataFile, shapes: Shapes) -> Iterator[pa.RecordBatch | Quarantined]:
        pairs = UpdatePairs(self._insert)
        for item in _FileReader(file, self._dialect, shapes).rows():
            broken = isinstance(item, Quarantined)
            events = pairs.flush() if broken else pairs.add(item)
            if events is not None:
                yield events
            if broken:
                yield item
        events = pairs.flush()
        if events is not None:
            yield events


class _FileReader:
    """Reads one file, by columns where that is proven exact and by records elsewhere."""

    def __init__(self, file: DataFile, dialect: CsvDialect, shapes: Shapes) -> None:
        self._file = file
        self._dialect = dialect
        self._shapes = shapes
        self._scanner = Scanner(dialect, max(shapes.by_width) + _FIELDS_TOO_MANY)
        self._position = shapes.start
        self._record = 1

    def rows(self) -> Iterator[pa.RecordBatch | Quarantined]:
        """Yield the records as batches of `batch.ROWS`."""
        stretch = _SHORT_STRETCH
        size = len(self._file.data)
        while self._position < size:
            start = self._position
            if size - start >= _WORTHWHILE and ColumnarReader.serves(self._dialect):
                yield from self._columnar_rows()
            # Each time the columnar reader fails at once, it is tried again later.
            stretch = _SHORT_STRETCH if self._position > start else min(2 * stretch, _LONG_STRETCH)
            yield from self._scanned_rows(self._position + stretch)

    def _columnar_rows(self) -> Iterator[pa.RecordBatch]:
        data = self._file.data
        first = next(self._scanner.records(data, self._position))
        shape = self._shapes.by_width.get(len(first.fields))
        if shape is None:
            return
        reader = ColumnarReader(self._dialect, shape, self._file.version)
        for block in reader.blocks(data, self._position):
            rows = numbered(block.columns, self._record)
            self._position = block.end
            self._record += rows.num_rows
            yield rows

    def _scanned_rows(self, until: int) -> Iterator[pa.RecordBatch | Quarantined]:
        """Read records one by one, at least up to an offset in the data."""
        rows = RowCollector()
        if self._position >= len(self._file.data):
            return
        for record in self._scanner.records(self._file.data, self._position):
            number = self._record
            self._position = record.end
            self._record += 1
            try:
                batch = rows.add(self._read(record), number)
            except MalformedMessage as error:
                batch = rows.flush()
                if batch is not None:
                    yield batch
                yield Quarantined.from_error(error, FilePosition(self._file.path, number))
            else:
                if batch is not None:
                    yield batch
            if self._position >= until:
                break
        batch = rows.flush()
        if batch is not None:
            yield batch

    def _read(self, record: Record) -> Row:
        if record.problem is not None:
            raise MalformedMessage(record.problem)
        shapes = self._shapes.by_width
        shape = shapes.get(len(record.fields))
        if shape is None:
            raise MalformedMessage(self._describe_width(len(record.fields)))
        return shape.read(record.fields, self._file.version)

    def _describe_width(self, width: int) -> str:
        shapes = self._shapes.by_width
        expected = " or ".join(str(width) for width in sorted(shapes))
        reason = f"{width} fields; {expected} are expected"
        if self._dialect.handle_key and width + 1 in shapes:
            reason += "; the new architecture writes no handle key: remove output-handle-key"
        return reason
