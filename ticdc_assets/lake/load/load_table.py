"""Load one table: type its rows, write them, and quarantine those that are invalid."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from ticdc_assets.dumpling.dialect import Dialect
from ticdc_assets.dumpling.export import ExportedTable
from ticdc_assets.dumpling.rows import list_stored, unescape_text
from ticdc_assets.errors import CONTENT_ERRORS, InvalidValue, MalformedMessage
from ticdc_assets.errors import describe_content_error as describe
from ticdc_assets.events import TableSchema, row_image
from ticdc_assets.events.written import read_json, write_json
from ticdc_assets.lake.apply.current_table import CurrentTable, InexactRows
from ticdc_assets.lake.apply.typed_rows import find_key_faults, spell_key
from ticdc_assets.lake.columns.expressions import any_of
from ticdc_assets.lake.columns.reading import TypedColumn, name_fields, name_values, type_columns
from ticdc_assets.lake.columns.types import choose_delta_names
from ticdc_assets.lake.load.parts import FILE, ExportFolder, Part, read_parts, split_into_commits
from ticdc_assets.lake.store.arrow import arrow_schema, replace_surrogates
from ticdc_assets.lake.store.contracts import COMMIT_TS, QUARANTINE
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.observed import read_metrics
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.lake.store.sql import quote_literal
from ticdc_assets.plan.load import name_loaded_incarnation
from ticdc_assets.schema.types.either_moment import check_identity, list_identifying_timestamps
from ticdc_assets.schema.types.row import RowReader

STAGE = "load"
# No column of a table has such a name.
_INVALID, _FILE = "⌗invalid", "⌗file"
# This process holds the rows of a table that is smaller.
_FEW_BYTES = 1 << 20
_NO_VALUE = "a value that Delta's type of the column cannot hold"


@dataclass(frozen=True)
class TableToLoad:
    """A table of an export, its schema, and the ts at which upstream had its rows."""

    files: ExportedTable
    schema: TableSchema
    ts: int
    dialect: Dialect

    @property
    def incarnation(self) -> str:
        return name_loaded_incarnation(self.schema, self.ts)


@dataclass(frozen=True)
class WrittenTable:
    """What was written: the Delta version that has all rows, and how many these are."""

    version: int
    rows: int
    quarantined: int


@dataclass
class _Counts:
    rows: int = 0
    quarantined: int = 0
    # The numbers of files with invalid rows.
    files: frozenset[int] = frozenset()


class TableLoader:
    """Writes the rows of one table of an export."""

    def __init__(
        self, lake: LakeSession, table: TableToLoad, open_folder: Callable[[], ExportFolder]
    ) -> None:
        self._lake = lake
        self._table = table
        self._open_folder = open_folder
        self._delta = CurrentTable(
            lake, table.incarnation, writes_few=table.files.size < _FEW_BYTES
        )
        self._counts = _Counts()

    def write(self, done: Callable[[int, int], None]) -> WrittenTable:
        """Write all rows, in place of what a killed load left; `done` gets rows and bytes."""
        is_new = True
        for parts in split_into_commits(self._table.files, self._table.dialect):
            before = self._counts.rows
            self._write_exactly(parts, is_new)
            is_new = False
            done(self._counts.rows - before, sum(part.size for part in parts))
        self._quarantine()
        return WrittenTable(self._delta.version, self._counts.rows, self._counts.quarantined)

    def _write_exactly(self, parts: Sequence[Part], is_new: bool) -> None:
        """Write parts, again with the map of inexact values if they have the first ones."""
        version = 0 if is_new else self._delta.version
        try:
            self._write(parts, is_new, with_map=False)
        except InexactRows:
            if is_new:
                self._write(parts, is_new, with_map=True)
                return
            self._delta.restore(version)
            self._delta.add_map()
            self._write(parts, is_new, with_map=True)

    def _write(self, parts: Sequence[Part], is_new: bool, *, with_map: bool) -> None:
        schema, seen = self._table.schema, Observation()
        typed = self._read(parts).observe(
            seen,
            F.count_if(~F.col(_INVALID)).alias("rows"),
            F.count_if(_INVALID).alias("invalid"),
            F.collect_set(F.when(F.col(_INVALID), F.col(_FILE))).alias("files"),
        )
        valid = typed.where(~F.col(_INVALID)).drop(_INVALID, _FILE)
        if is_new:
            self._delta.create(valid, schema, with_map=with_map)
        else:
            self._delta.append(valid)
        found = read_metrics(seen)
        counts = self._counts
        self._counts = _Counts(
            counts.rows + found.get("rows", 0),
            counts.quarantined + found.get("invalid", 0),
            counts.files.union(found.get("files", ())),
        )

    def _read(self, parts: Sequence[Part]) -> DataFrame:
        table = self._table
        rows = self._read_parts(parts, typed=True)
        columns = _type_columns(table.schema)
        return rows.select(
            F.col(FILE).alias(_FILE),
            _find_invalid(table.schema, columns).alias(_INVALID),
            *name_values(columns),
            F.lit(table.ts).cast("bigint").alias(COMMIT_TS),
        )

    def _read_parts(self, parts: Sequence[Part], *, typed: bool) -> DataFrame:
        table, lake = self._table, self._lake
        return read_parts(lake, parts, table.schema, table.dialect, self._open_folder, typed=typed)

    # Quarantine

    def _quarantine(self) -> None:
        """Keep the invalid rows, in place of those that a killed load kept."""
        schema, ts = self._table.schema, self._table.ts
        database, name = (replace_surrogates(text) for text in (schema.database, schema.table))
        mine = (
            (pc.field("stage") == STAGE)
            & (pc.field("commit_ts") == ts)
            & (pc.field("database") == database)
            & (pc.field("table") == name)
        )
        reader = LakeReader(self._lake.location)
        has_old = reader.read(reader.open("quarantine"), ["stage"], mine).num_rows > 0
        if not has_old and not self._counts.quarantined:
            return
        rows = self._select_invalid().coalesce(1).write.format("delta")
        if has_old:
            condition = (
                f"stage = '{STAGE}' AND commit_ts = {ts} AND database = {quote_literal(database)}"
                f" AND `table` = {quote_literal(name)}"
            )
            rows = rows.mode("overwrite").option("replaceWhere", condition)
        else:
            rows = rows.mode("append")
        rows.save(self._lake.path("quarantine"))

    def _select_invalid(self) -> DataFrame:
        table = self._table
        files = self._counts.files
        parts = [
            part
            for commit in split_into_commits(table.files, table.dialect)
            for part in commit
            if part.number in files
        ]
        texts = self._read_parts(parts, typed=False)
        invalid = texts.where(_find_invalid(table.schema, _type_columns(table.schema)))
        schema_json, ts = write_json(table.schema), table.ts
        paths = [data.file.path for data in table.files.data]

        def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            schema = read_json(schema_json, TableSchema)
            for batch in batches:
                yield quarantine_batch(batch, schema, ts, paths)

        return invalid.mapInArrow(work, QUARANTINE)


def _type_columns(schema: TableSchema) -> list[TypedColumn]:
    """Type the rows of `read_parts`: what the workers did not."""
    texts = [F.col(f"c{place}").alias(name) for place, name in enumerate(name_fields(schema))]
    columns = type_columns(schema, F.struct(*texts), F.col("escaped"), member_names=True)
    return [
        dataclasses.replace(column, value=F.coalesce(F.col(f"v{place}"), column.value))
        for place, column in enumerate(columns)
    ]


def _find_invalid(schema: TableSchema, columns: Sequence[TypedColumn]) -> Column:
    names = choose_delta_names(schema)
    key = {names[column] for column in spell_key(schema)}
    moments = {names[column] for column in list_identifying_timestamps(schema)}
    faults = [F.col("problem").isNotNull(), *(column.invalid for column in columns)]
    return F.coalesce(any_of([*faults, *find_key_faults(columns, key, moments)]), F.lit(True))


def quarantine_batch(
    batch: pa.RecordBatch, schema: TableSchema, ts: int, paths: Sequence[str]
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
                "source": paths[row[FILE]],
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
