"""Write the rows of a load into data files, in whichever process has read them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.changefeed.privacy import Privacy
from ticdc_assets.dumpling.rows import OWN_FIELDS, make_batch_schema
from ticdc_assets.errors import CONTENT_ERRORS, InvalidValue, MalformedMessage
from ticdc_assets.errors import describe_content_error as describe
from ticdc_assets.events import TableSchema, row_image
from ticdc_assets.events.escaped_text import unescape_text
from ticdc_assets.load.erased_rows import ErasedKeys, leave_out_erased
from ticdc_assets.rows.columns import INEXACT, list_stored_columns
from ticdc_assets.rows.loading import RowTyper
from ticdc_assets.rows.table_rows import write_table
from ticdc_assets.schema.types.either_moment import check_identity
from ticdc_assets.schema.types.row import RowReader
from ticdc_assets.store.arrow import arrow_schema
from ticdc_assets.store.contracts import QUARANTINE
from ticdc_assets.store.data_files import WrittenFile, write_data_file
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.texts import replace_surrogates
from ticdc_assets.stream.privacy import is_protected
from ticdc_assets.stream.private_values import LoadedValues, hide_values

STAGE = "load"
# A data file has about as many rows, or bytes in memory.
_ROWS_PER_FILE = 2_000_000
_BYTES_PER_FILE = 256 << 20
_NO_VALUE = "a value that Delta's type of the column cannot hold"


class Reading(Protocol):
    """Reads rows of a table, in any process: batches of `dumpling.rows` with where they are."""

    def read(self) -> Iterator[tuple[str, pa.RecordBatch]]: ...


class LoadedRows(msgspec.Struct, frozen=True):
    """The files that have the rows of a reading: those of the table, and of the quarantine."""

    rows: int
    quarantined: int
    has_map: bool
    files: list[WrittenFile]
    quarantined_files: list[WrittenFile]


@dataclass(frozen=True)
class RowWriter:
    """Types the rows of one table, and writes them into data files."""

    location: Lake
    incarnation: str
    # As the lake has the table.
    schema: TableSchema
    ts: int
    privacy: Privacy | None = None
    erased: tuple[ErasedKeys, ...] = ()

    def write(self, reading: Reading) -> LoadedRows:
        """Write what a reading reads."""
        written = _Files(self.location, f"current/{self.incarnation}")
        quarantined = _Files(self.location, "quarantine")
        for rows, left_out in self._type(reading.read()):
            written.add(rows)
            quarantined.add(left_out)
        written.flush()
        quarantined.flush()
        return LoadedRows(
            written.rows,
            quarantined.rows,
            written.has_map,
            written.files,
            quarantined.files,
        )

    def _type(
        self, batches: Iterable[tuple[str, pa.RecordBatch]]
    ) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Yield rows as their table has them, and those of the quarantine."""
        typer = RowTyper(self.schema, self.ts)
        if self.privacy is not None and is_protected(self.schema):
            batches = _protect(batches, LoadedValues(self.privacy, self.schema))
        batches = leave_out_erased(batches, self.erased)
        for source, batch in batches:
            texts = batch.columns[len(OWN_FIELDS) :]
            escaped = pc.fill_null(batch.column("escaped"), False)
            rows, faults = typer.type(texts, escaped)
            faults = pc.or_(faults, pc.is_valid(batch.column("problem")))
            if not pc.any(faults, min_count=0).as_py():
                yield write_table(rows, self.schema), _NOTHING
                continue
            yield (
                write_table(rows.filter(pc.invert(faults)), self.schema),
                quarantine_rows(batch.filter(faults), self.schema, self.ts, source),
            )


def _protect(
    batches: Iterable[tuple[str, pa.RecordBatch]], values: LoadedValues
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield batches with what is stored of their rows, and without bytes as they came."""
    for source, batch in batches:
        is_escaped = pc.fill_null(batch.column("escaped"), False)
        texts = values.protect(batch.columns[len(OWN_FIELDS) :], is_escaped)
        offset, problem, raw, escaped = batch.columns[: len(OWN_FIELDS)]
        reasons = [reason and hide_values(reason) for reason in problem.to_pylist()]
        own = [offset, pa.array(reasons, problem.type), pa.nulls(len(raw), raw.type), escaped]
        columns = make_batch_schema(len(texts))
        yield (
            values.protect_source(source),
            pa.RecordBatch.from_arrays([*own, *texts], schema=columns),
        )


class _Files:
    """Collects rows in files of about one size."""

    def __init__(self, location: Lake, table: str) -> None:
        self._location = location
        self._table = table
        self._held: list[pa.Table] = []
        self._count = self._bytes = 0
        self.files: list[WrittenFile] = []
        self.rows = 0
        self.has_map = False

    def add(self, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        self._held.append(rows)
        self.rows += rows.num_rows
        self._count += rows.num_rows
        self._bytes += rows.nbytes
        if self._count >= _ROWS_PER_FILE or self._bytes >= _BYTES_PER_FILE:
            self.flush()

    def flush(self) -> None:
        if not self._held:
            return
        rows = pa.concat_tables(self._held)
        if INEXACT in rows.column_names:
            if rows[INEXACT].null_count < rows.num_rows:
                self.has_map = True
            else:
                rows = rows.drop_columns([INEXACT])
        self.files.append(write_data_file(self._location, self._table, rows))
        self._held, self._count, self._bytes = [], 0, 0


def quarantine_rows(batch: pa.RecordBatch, schema: TableSchema, ts: int, source: str) -> pa.Table:
    """Return quarantine rows of invalid rows: where each is, and why it is invalid."""
    names = [column.name for column in list_stored_columns(schema)]
    read = RowReader(schema, member_names=True)
    kept = []
    for row in batch.to_pylist():
        error, reason, raw = MalformedMessage.__name__, row["problem"], row["raw"]
        if reason is None:
            texts = [row[f"c{place}"] for place in range(len(names))]
            if row["escaped"]:
                texts = [None if text is None else unescape_text(text) for text in texts]
            image = row_image.dump(dict(zip(names, texts, strict=True)))
            error, reason = _explain(image, read, schema)
            raw = image.encode()
        kept.append(
            {
                "stage": STAGE,
                "database": schema.database,
                "table": schema.table,
                "commit_ts": ts,
                "source": source,
                "number": row["offset"],
                "error": error,
                "reason": reason,
                "raw": raw,
            }
        )
    fields = arrow_schema(QUARANTINE)
    columns = [
        pa.array([replace_surrogates(row.get(field.name)) for row in kept], field.type)
        for field in fields
    ]
    return pa.Table.from_arrays(columns, schema=fields)


def _explain(image: str, read: RowReader, schema: TableSchema) -> tuple[str, str]:
    try:
        row = read(image)
        check_identity(schema, image)
    except CONTENT_ERRORS as error:
        kind = type(error) if isinstance(error, MalformedMessage | InvalidValue) else ValueError
        return kind.__name__, describe(error)
    lacking = [name for name in schema.key if row.get(name) is None]
    if lacking:
        return MalformedMessage.__name__, f"the row lacks its key: {', '.join(lacking)}"
    return InvalidValue.__name__, _NO_VALUE


_NOTHING = arrow_schema(QUARANTINE).empty_table()
