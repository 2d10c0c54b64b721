"""Work on rows that only Python can do, in the workers: conversions, partitions, printed lines.

Rows come and go as images with member names (`row_writing.image`).  Everything the workers need
is found by importing this package there.  What can be refused without seeing a row, is refused by
the `check_…` functions, on the driver and before any job.
"""

import base64
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from ticdc_assets.errors import InvalidValue, TicdcError
from ticdc_assets.events import ColumnType, Partitioning, TableSchema
from ticdc_assets.events.row_image import dump
from ticdc_assets.lake.columns.types import stored
from ticdc_assets.lake.columns.writing import image
from ticdc_assets.lake.store.sql import quote_identifier
from ticdc_assets.schema.conversion.convert import backfill, make_converter
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
from ticdc_assets.schema.types.value import Value, Writer, make_writer, vector_elements

Row = dict[str, Value]
_Batches = Iterator[pa.RecordBatch]
# A result and what was wrong, for the text of one image.
_Work = Callable[[str], tuple[str | None, str | None]]

PROBLEM = "problem"
PARTITION = "partition"
LINE = "line"


# --- conversions -------------------------------------------------------------


def check_steps(schema: TableSchema, steps: Iterable[ColumnChange], commit_ts: int) -> None:
    """Raise the `TicdcError` that says why no row could be taken through the steps."""
    _Conversion(schema, tuple(steps), commit_ts)


def converted(
    df: DataFrame,
    image_column: str,
    before: TableSchema,
    steps: tuple[ColumnChange, ...],
    commit_ts: int,
) -> DataFrame:
    """Take images through the steps of an ALTER; `problem` says why a row could not be (NULL then).

    Raises what `check_steps` raises.
    """
    check_steps(before, steps, commit_ts)
    make = partial(_Conversion, before, steps, commit_ts)
    return _worked(df, image_column, image_column, make)


class _Conversion:
    """Takes images written by one schema through steps."""

    def __init__(
        self, before: TableSchema, steps: tuple[ColumnChange, ...], commit_ts: int
    ) -> None:
        self._read = RowReader(before, member_names=True)
        self._steps: list[Callable[[Row], Row]] = []
        types = {column.name: column.type for column in stored(before)}
        for step in steps:
            self._steps.append(_stepper(step, commit_ts))
            _retype(types, step)
        self._writers = {name: image_writer(type) for name, type in types.items()}

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


def _stepper(step: ColumnChange, commit_ts: int) -> Callable[[Row], Row]:
    """Make the function that takes a row through one step."""
    match step:
        case ColumnAdded(column):
            added = {column.name: backfill(column, commit_ts)}
            return lambda row: row if column.name in row else {**row, **added}
        case ColumnDropped(name):
            return lambda row: {n: v for n, v in row.items() if n != name}
        case ColumnRenamed(old, new):
            return lambda row: {new if n == old else n: v for n, v in row.items()}
        case ColumnConverted(name, old_type, new_type):
            convert = make_converter(old_type, new_type)

            def changed(row: Row) -> Row:
                if name not in row:
                    return row
                try:
                    return {**row, name: convert(row[name])}
                except InvalidValue as problem:
                    raise InvalidValue(problem.reason, column=name) from None

            return changed


def _retype(types: dict[str, ColumnType], step: ColumnChange) -> None:
    """Follow the columns' types through a step."""
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


def image_writer(type: ColumnType) -> Writer:
    """Make the writer of a type's values as texts of row images, members by name."""
    if describe(type).kind == "binary":
        return _write_base64
    return make_writer(type)


def _write_base64(value: Value) -> str | None:
    if value is None:
        return None
    if not isinstance(value, bytes):
        raise InvalidValue(f"the value is of another type, {type(value).__name__}")
    return base64.b64encode(value).decode()


# --- partitions --------------------------------------------------------------


def check_partitioning(schema: TableSchema, partitioning: Partitioning) -> None:
    """Raise the `TicdcError` that says why the partitions of no row could be told."""
    _Location(schema, partitioning)


def located(
    df: DataFrame, image_column: str, schema: TableSchema, partitioning: Partitioning
) -> DataFrame:
    """Add the name of each row's `partition`: NULL if none takes it, or there is a `problem`.

    Raises what `check_partitioning` raises.
    """
    check_partitioning(schema, partitioning)
    return _worked(df, image_column, PARTITION, partial(_Location, schema, partitioning))


class _Location:
    """Finds the partitions of images."""

    def __init__(self, schema: TableSchema, partitioning: Partitioning) -> None:
        self._read = RowReader(schema, member_names=True)
        self._locate = make_locator(partitioning, schema)

    def __call__(self, text: str) -> tuple[str | None, str | None]:
        return self._locate(self._read(text)), None


# --- printed lines -----------------------------------------------------------


def mysql_lines(images: Iterable[str], schema: TableSchema) -> Iterator[str]:
    """Print images as `reference.row_lines` prints rows, in the order given."""
    line = _Line(schema)
    for text in images:
        yield line(text)[0]


def shown(df: DataFrame, schema: TableSchema) -> DataFrame:
    """The rows of a current table as JSON lines, in one column `line`, sorted as bytes."""
    lines = _worked(df.select(image(schema).alias(LINE)), LINE, LINE, partial(_Line, schema))
    # Sorting over several partitions would do all the work twice, first for a sample.
    return lines.select(LINE).repartition(1).sortWithinPartitions(LINE)


class _Line:
    """Prints images as MySQL prints rows."""

    def __init__(self, schema: TableSchema) -> None:
        self._read = RowReader(schema, member_names=True)
        self._write = RowWriter(schema)
        columns = stored(schema)
        self._vectors = [c.name for c in columns if describe(c.type).kind == "vector"]

    def __call__(self, text: str) -> tuple[str, None]:
        row = self._write(self._read(text))
        for name in self._vectors:
            vector = row.get(name)
            if vector is not None:
                numbers = (
                    format_plain(float32_digits(number)) for number in vector_elements(vector)
                )
                row[name] = f"[{','.join(numbers)}]"
        return dump(row), None


# --- the workers' side -------------------------------------------------------


def _worked(df: DataFrame, image_column: str, result: str, make: Callable[[], _Work]) -> DataFrame:
    """Put what is made of each image into the column `result`, and why not into `problem`."""
    kept = [field for field in df.schema.fields if field.name not in (result, PROBLEM)]
    columns = StructType([*kept]).add(result, StringType()).add(PROBLEM, StringType())
    read = df.select(
        *(F.col(quote_identifier(field.name)) for field in kept),
        F.col(quote_identifier(image_column)).alias(_IMAGE),
    )
    names = [field.name for field in columns.fields]
    return read.mapInArrow(partial(_work_through, make, names), columns)


# The image stands last, whatever it is called: user columns are named before it.
_IMAGE = "image!"


def _work_through(make: Callable[[], _Work], names: list[str], batches: _Batches) -> _Batches:
    work = make()
    for batch in batches:
        *kept, images = batch.columns
        results: list[str | None] = []
        problems: list[str | None] = []
        for text in images.to_pylist():
            result, problem = (None, None) if text is None else _guarded(work, text)
            results.append(result)
            problems.append(problem)
        made = [pa.array(results, pa.string()), pa.array(problems, pa.string())]
        yield pa.RecordBatch.from_arrays([*kept, *made], names=names)


def _guarded(work: _Work, text: str) -> tuple[str | None, str | None]:
    try:
        return work(text)
    except TicdcError as error:
        # Lone surrogates stand for bytes that are no text.
        return None, str(error).encode(errors="backslashreplace").decode()
