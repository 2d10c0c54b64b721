"""Work on rows that only Python can do: convert columns, locate partitions, print rows.

Workers receive and return rows as images with member names (`writing.write_images`).  Whatever can
fail without seeing a row fails in a `check_…` function, on the driver, before any job starts.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from ticdc_assets.errors import CONTENT_ERRORS, InvalidValue, describe_content_error
from ticdc_assets.events import ColumnType, Partitioning, TableSchema
from ticdc_assets.events.row_image import dump
from ticdc_assets.lake.store.sql import quote_identifier
from ticdc_assets.rows.columns import list_stored_columns
from ticdc_assets.schema.conversion.convert import backfill, make_converter
from ticdc_assets.schema.ddl_context import DdlContext
from ticdc_assets.schema.effect import (
    ColumnAdded,
    ColumnChange,
    ColumnConverted,
    ColumnDropped,
    ColumnRenamed,
)
from ticdc_assets.schema.partition.locate import make_locator
from ticdc_assets.schema.types.float_text import float32_digits, format_plain
from ticdc_assets.schema.types.mysql_type import describe
from ticdc_assets.schema.types.row import RowReader, RowWriter
from ticdc_assets.schema.types.value import Value
from ticdc_assets.schema.types.value_reader import parse_vector
from ticdc_assets.schema.types.value_writer import make_image_writer

Row = dict[str, Value]
_Batches = Iterator[pa.RecordBatch]
# The result, or the problem, of one image's text.
_Work = Callable[[str], tuple[str | None, str | None]]

PROBLEM = "problem"
PARTITION = "partition"
LINE = "line"


# --- conversions -------------------------------------------------------------


def check_conversion(schema: TableSchema, steps: Iterable[ColumnChange], commit_ts: int) -> None:
    """Raise a `TicdcError` if the steps cannot be applied to any row."""
    _Conversion(schema, tuple(steps), commit_ts)


def convert_rows(
    df: DataFrame,
    image_column: str,
    before: TableSchema,
    steps: tuple[ColumnChange, ...],
    commit_ts: int,
) -> DataFrame:
    """Apply the steps of an ALTER to images; a row with a `problem` has a NULL image.

    Raises what `check_conversion` raises.
    """
    check_conversion(before, steps, commit_ts)
    make = partial(_Conversion, before, steps, commit_ts)
    return _map_images(df, image_column, image_column, make)


class _Conversion:
    """Applies steps to images written under one schema."""

    def __init__(
        self, before: TableSchema, steps: tuple[ColumnChange, ...], commit_ts: int
    ) -> None:
        self._read = RowReader(before, member_names=True)
        self._steps: list[Callable[[Row], Row]] = []
        types = {column.name: column.type for column in list_stored_columns(before)}
        for step in steps:
            self._steps.append(_make_step(step, commit_ts))
            _update_types(types, step)
        self._writers = {name: make_image_writer(type) for name, type in types.items()}

    def __call__(self, text: str) -> tuple[str | None, str | None]:
        row = self._read(text)
        for step in self._steps:
            row = step(row)
        return dump({name: self._write(name, value) for name, value in row.items()}), None

    def _write(self, name: str, value: Value) -> str | None:
        try:
            return self._writers[name](value)
        except InvalidValue as problem:
            raise InvalidValue(problem.reason, column=name) from None


def _make_step(step: ColumnChange, commit_ts: int) -> Callable[[Row], Row]:
    """Make the function that applies one step to a row."""
    match step:
        case ColumnAdded(column, zone):
            added = {column.name: backfill(column, commit_ts, zone)}
            return lambda row: row if column.name in row else {**row, **added}
        case ColumnDropped(name):
            return lambda row: {n: v for n, v in row.items() if n != name}
        case ColumnRenamed(old, new):
            return lambda row: {new if n == old else n: v for n, v in row.items()}
        case ColumnConverted(name, old_type, new_type, zone):
            convert = make_converter(old_type, new_type, zone)

            def convert_column(row: Row) -> Row:
                if name not in row:
                    return row
                try:
                    return {**row, name: convert(row[name])}
                except InvalidValue as problem:
                    raise InvalidValue(problem.reason, column=name) from None

            return convert_column


def _update_types(types: dict[str, ColumnType], step: ColumnChange) -> None:
    """Update the columns' types by one step."""
    match step:
        case ColumnAdded(column):
            types.setdefault(column.name, column.type)
        case ColumnDropped(name):
            types.pop(name, None)
        case ColumnRenamed(old, new):
            if old in types:
                types[new] = types.pop(old)
        case ColumnConverted(name, _, type):
            if name in types:
                types[name] = type


# --- partitions --------------------------------------------------------------


def check_partitioning(
    schema: TableSchema, partitioning: Partitioning, context: DdlContext
) -> None:
    """Raise a `TicdcError` if the partition of no row can be located."""
    _Location(schema, partitioning, context)


def locate_partitions(
    df: DataFrame,
    image_column: str,
    schema: TableSchema,
    partitioning: Partitioning,
    context: DdlContext,
) -> DataFrame:
    """Add the name of each row's `partition`: NULL if no partition takes it or on a `problem`.

    Raises what `check_partitioning` raises.
    """
    check_partitioning(schema, partitioning, context)
    make = partial(_Location, schema, partitioning, context)
    return _map_images(df, image_column, PARTITION, make)


class _Location:
    """Locates the partition of images."""

    def __init__(
        self, schema: TableSchema, partitioning: Partitioning, context: DdlContext
    ) -> None:
        self._read = RowReader(schema, member_names=True)
        self._locate = make_locator(partitioning, schema, context)

    def __call__(self, text: str) -> tuple[str | None, str | None]:
        return self._locate(self._read(text)), None


# --- printed lines -----------------------------------------------------------


def format_mysql_lines(images: Iterable[str], schema: TableSchema) -> Iterator[str]:
    """Format images as `reference.row_lines` formats rows, in the order given."""
    format_line = _LineFormat(schema)
    for text in images:
        yield format_line(text)[0]


class _LineFormat:
    """Formats images as MySQL prints rows."""

    def __init__(self, schema: TableSchema) -> None:
        self._read = RowReader(schema, member_names=True)
        self._write = RowWriter(schema)
        columns = list_stored_columns(schema)
        self._vectors = [c.name for c in columns if describe(c.type).kind == "vector"]

    def __call__(self, text: str) -> tuple[str, None]:
        row = self._write(self._read(text))
        for name in self._vectors:
            vector = row.get(name)
            if vector is not None:
                numbers = (format_plain(float32_digits(number)) for number in parse_vector(vector))
                row[name] = f"[{','.join(numbers)}]"
        return dump(row), None


# --- in the workers ----------------------------------------------------------


def _map_images(
    df: DataFrame, image_column: str, result: str, make: Callable[[], _Work]
) -> DataFrame:
    """Put the result of each image into the column `result`, or the reason into `problem`."""
    kept = [field for field in df.schema.fields if field.name not in (result, PROBLEM)]
    columns = StructType([*kept]).add(result, StringType()).add(PROBLEM, StringType())
    read = df.select(
        *(F.col(quote_identifier(field.name)) for field in kept),
        F.col(quote_identifier(image_column)).alias(_IMAGE),
    )
    names = [field.name for field in columns.fields]
    return read.mapInArrow(partial(_map_batches, make, names), columns)


# The image is the last column; no column before it has this name.
_IMAGE = "image!"


def _map_batches(make: Callable[[], _Work], names: list[str], batches: _Batches) -> _Batches:
    work = make()
    for batch in batches:
        *kept, images = batch.columns
        results: list[str | None] = []
        problems: list[str | None] = []
        for text in images.to_pylist():
            result, problem = (None, None) if text is None else _run_guarded(work, text)
            results.append(result)
            problems.append(problem)
        added = [pa.array(results, pa.string()), pa.array(problems, pa.string())]
        yield pa.RecordBatch.from_arrays([*kept, *added], names=names)


def _run_guarded(work: _Work, text: str) -> tuple[str | None, str | None]:
    try:
        return work(text)
    except CONTENT_ERRORS as error:
        # Lone surrogates stand for bytes that are not UTF-8.
        return None, describe_content_error(error).encode(errors="backslashreplace").decode()
