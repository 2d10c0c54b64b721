"""Load one table: type its rows, write them, and quarantine those that are invalid."""

import dataclasses
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from threading import Lock

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from ticdc_assets.dumpling.rows import list_stored, unescape_text
from ticdc_assets.errors import CONTENT_ERRORS, InvalidValue, MalformedMessage
from ticdc_assets.errors import describe_content_error as describe
from ticdc_assets.events import TableSchema, row_image
from ticdc_assets.events.written import read_json, write_json
from ticdc_assets.lake.apply.current_table import CurrentTable, InexactRows
from ticdc_assets.lake.apply.typed_rows import find_key_faults, spell_key
from ticdc_assets.lake.columns.expressions import any_of
from ticdc_assets.lake.columns.reading import TypedColumn, name_fields, name_values, type_columns
from ticdc_assets.lake.load.batches import SOURCE, UNTYPED
from ticdc_assets.lake.load.read_ahead import read_ahead
from ticdc_assets.lake.load.source import Portion, TableSource
from ticdc_assets.lake.store.arrow import arrow_schema, replace_surrogates
from ticdc_assets.lake.store.contracts import QUARANTINE
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.observed import read_metrics
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.lake.store.sql import quote_literal
from ticdc_assets.lake.store.work_size import expect_many_rows
from ticdc_assets.plan.load import name_loaded_incarnation
from ticdc_assets.rows.columns import COMMIT_TS, choose_delta_names
from ticdc_assets.schema.types.either_moment import check_identity, list_identifying_timestamps
from ticdc_assets.schema.types.row import RowReader

STAGE = "load"
# No column of a table has such a name.
_INVALID, _SOURCE = "⌗invalid", "⌗source"
# This process holds the rows of a table that is smaller.
_FEW_BYTES = 1 << 20
MANY_BYTES = 16 << 20
_NO_VALUE = "a value that Delta's type of the column cannot hold"

# A DELETE from `quarantine` fails if rows of another table are written there meanwhile.
_QUARANTINE_LOCK = Lock()


@dataclass(frozen=True)
class WrittenTable:
    """What was written: the Delta version that has all rows, and how many these are."""

    version: int
    rows: int
    quarantined: int


@dataclass(frozen=True)
class _Counts:
    """The rows of a portion."""

    rows: int
    quarantined: int
    # The numbers of sources with invalid rows.
    sources: frozenset[int]


class TableLoader:
    """Writes the rows of one table."""

    def __init__(self, lake: LakeSession, table: TableSource, schema: TableSchema, ts: int) -> None:
        """`ts`: when upstream had the rows."""
        self._lake = lake
        self._table = table
        self._schema = schema
        self._ts = ts
        # Another load of the table may be running, and even take effect before this one ends.
        self.incarnation = f"{name_loaded_incarnation(schema, ts)}-{secrets.token_hex(4)}"
        self._delta = CurrentTable(lake, self.incarnation)

    def write(self, done: Callable[[int, int], None]) -> WrittenTable:
        """Write all rows; `done` gets rows and bytes."""
        self._forget_quarantined()
        rows = quarantined = 0
        # The size of a table may be an estimate.
        remaining = self._table.size
        with closing(read_ahead(self._table.read_portions(self._schema))) as portions:
            for number, portion in enumerate(portions):
                if number == 0:
                    few = max(portion.size, self._table.size) < _FEW_BYTES
                    self._delta = CurrentTable(self._lake, self.incarnation, writes_few=few)
                if portion.size >= MANY_BYTES:
                    expect_many_rows(self._lake)
                counts = self._write_exactly(portion, is_new=number == 0)
                if counts.quarantined:
                    self._quarantine(portion.keep(counts.sources))
                rows += counts.rows
                quarantined += counts.quarantined
                size = min(portion.size, remaining)
                remaining -= size
                done(counts.rows, size)
        if remaining:
            done(0, remaining)
        return WrittenTable(self._delta.version, rows, quarantined)

    def _write_exactly(self, portion: Portion, *, is_new: bool) -> _Counts:
        """Write rows, again with the map of inexact values if they have the first ones."""
        version = 0 if is_new else self._delta.version
        try:
            return self._write(portion, is_new=is_new, with_map=False)
        except InexactRows:
            if not is_new:
                self._delta.restore(version)
                self._delta.add_map()
            return self._write(portion, is_new=is_new, with_map=True)

    def _write(self, portion: Portion, *, is_new: bool, with_map: bool) -> _Counts:
        seen = Observation()
        typed = self._read(portion).observe(
            seen,
            F.count_if(~F.col(_INVALID)).alias("rows"),
            F.count_if(_INVALID).alias("invalid"),
            F.collect_set(F.when(F.col(_INVALID), F.col(_SOURCE))).alias("sources"),
        )
        valid = typed.where(~F.col(_INVALID)).drop(_INVALID, _SOURCE)
        if is_new:
            self._delta.create(valid, self._schema, with_map=with_map)
        else:
            self._delta.append(valid)
        found = read_metrics(seen)
        return _Counts(
            found.get("rows", 0), found.get("invalid", 0), frozenset(found.get("sources", ()))
        )

    def _read(self, portion: Portion) -> DataFrame:
        rows = portion.read(self._lake, typed=True)
        columns = _type_columns(self._schema)
        return rows.select(
            F.col(SOURCE).alias(_SOURCE),
            _find_invalid(self._schema, columns).alias(_INVALID),
            *name_values(columns),
            F.lit(self._ts).cast("bigint").alias(COMMIT_TS),
        )

    # Quarantine

    def _forget_quarantined(self) -> None:
        """Remove the rows that a killed load kept."""
        schema, ts = self._schema, self._ts
        database, name = (replace_surrogates(text) for text in (schema.database, schema.table))
        mine = (
            (pc.field("stage") == STAGE)
            & (pc.field("commit_ts") == ts)
            & (pc.field("database") == database)
            & (pc.field("table") == name)
        )
        reader = LakeReader(self._lake.location)
        if reader.read(reader.open("quarantine"), ["stage"], mine).num_rows:
            with _QUARANTINE_LOCK:
                self._lake.spark.sql(
                    f"DELETE FROM {self._lake.sql('quarantine')} WHERE stage = '{STAGE}'"
                    f" AND commit_ts = {ts} AND database = {quote_literal(database)}"
                    f" AND `table` = {quote_literal(name)}"
                ).collect()

    def _quarantine(self, portion: Portion) -> None:
        """Keep the invalid rows of a portion."""
        schema, ts, sources = self._schema, self._ts, list(portion.sources)
        texts = portion.read(self._lake, typed=False)
        invalid = texts.where(_find_invalid(schema, _type_columns(schema)))
        schema_json = write_json(schema)

        def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            read_as = read_json(schema_json, TableSchema)
            for batch in batches:
                yield quarantine_batch(batch, read_as, ts, sources)

        rows = invalid.select(SOURCE, f"{UNTYPED}.*").mapInArrow(work, QUARANTINE).coalesce(1)
        with _QUARANTINE_LOCK:
            rows.write.format("delta").mode("append").save(self._lake.path("quarantine"))


def _type_columns(schema: TableSchema) -> list[TypedColumn]:
    """Type the rows of a portion: what Arrow did not."""
    untyped = F.col(UNTYPED)
    texts = [
        untyped.getField(f"c{place}").alias(name) for place, name in enumerate(name_fields(schema))
    ]
    escaped = F.coalesce(untyped.getField("escaped"), F.lit(False))
    columns = type_columns(schema, F.struct(*texts), escaped, member_names=True)
    return [
        dataclasses.replace(
            column,
            value=F.coalesce(F.col(f"v{place}"), column.value),
            # What Arrow typed has no text, and is exact.
            inexact=_is_true(column.inexact),
        )
        for place, column in enumerate(columns)
    ]


def _is_true(condition: Column | None) -> Column | None:
    return None if condition is None else F.coalesce(condition, F.lit(False))


def _find_invalid(schema: TableSchema, columns: Sequence[TypedColumn]) -> Column:
    names = choose_delta_names(schema)
    key = {names[column] for column in spell_key(schema)}
    moments = {names[column] for column in list_identifying_timestamps(schema)}
    is_problem = F.col(UNTYPED).getField("problem").isNotNull()
    faults = [is_problem, *(column.invalid for column in columns)]
    return F.coalesce(any_of([*faults, *find_key_faults(columns, key, moments)]), F.lit(True))


def quarantine_batch(
    batch: pa.RecordBatch, schema: TableSchema, ts: int, sources: Sequence[str]
) -> pa.RecordBatch:
    """Return quarantine rows of invalid rows: where each is, and why it is invalid."""
    names = [column.name for column in list_stored(schema)]
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
                "source": sources[row[SOURCE]],
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
    return pa.RecordBatch.from_arrays(columns, schema=fields)


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
