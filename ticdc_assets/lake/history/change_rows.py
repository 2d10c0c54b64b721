"""The changes of a table, from the versions of its rows: each with the row before and after it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.exact_texts import MAP
from ticdc_assets.lake.history.columns import HistoryColumn, store_columns, take_over_columns
from ticdc_assets.lake.history.rows import Block
from ticdc_assets.rows.columns import EXACT_TEXTS, INEXACT, list_delta_columns
from ticdc_assets.rows.identity import are_same, make_comparable
from ticdc_assets.rows.table_rows import Rows, get_time, join_chunks, write_table
from ticdc_assets.rows.versions import StepVersions
from ticdc_assets.store.arrow import arrow_schema
from ticdc_assets.store.contracts import CHANGES, IMAGES
from ticdc_assets.store.sql import quote_identifier

# Returns rows as one column.
MakeImages = Callable[[Rows], pa.StructArray]

_POSITION = ("source", "partition", "number", "index")


@dataclass(frozen=True)
class StepChanges:
    """The changes of one step: rows that came or were changed, and rows that went.

    `before` has the place in `before_rows` of the row before one that came, NULL if there was none;
    `before_rows` is None where there was none at all.  Marks say what made the changes.
    """

    came: Rows
    since: pa.Array
    before: pa.Array
    before_rows: Rows | None
    went: Rows
    until: pa.Array


def find_changes(step: StepVersions) -> StepChanges:
    """Find the changes of a step."""
    versions = step.versions
    came = versions.filter(versions.is_new)
    operation = pc.struct_field(versions.until, "operation")
    went = versions.filter(pc.fill_null(pc.equal(operation, "delete"), False))
    has_before = pc.is_valid(came.before)
    before_rows = came.before_rows
    if before_rows is not None:
        before_rows = before_rows.take(came.before.filter(has_before))
    places = pc.subtract(pc.cumulative_sum(has_before.cast(pa.int64())), 1)
    return StepChanges(
        came.rows,
        came.since,
        pc.if_else(has_before, places, pa.scalar(None, pa.int64())),
        before_rows,
        went.rows,
        went.until,
    )


def write_changes(
    changes: StepChanges, make_before: MakeImages, make_after: MakeImages
) -> pa.Table:
    """Write changes; each function makes images, of rows before and after the step."""
    after = make_after(changes.came)
    before = pa.nulls(len(after), after.type)
    if changes.before_rows is not None:
        before = make_before(changes.before_rows).take(changes.before)
    came = _write(changes.since, before, after)
    # A DDL that changes no value of these columns, such as a RENAME of one, is no change of a row.
    by_ddl = pc.is_valid(came["ddl"])
    if pc.any(by_ddl).as_py():
        came = came.filter(pc.or_(pc.invert(by_ddl), pc.invert(_are_equal(before, after))))
    gone = make_after(changes.went)
    return pa.concat_tables([came, _write(changes.until, gone, pa.nulls(len(gone), gone.type))])


def _write(mark: pa.Array, before: pa.Array, after: pa.Array) -> pa.Table:
    ts, operation, ddl, position = mark.flatten()
    own = [pc.struct_field(position, name) for name in _POSITION]
    arrays = [ts, get_time(ts), operation, before, after, ddl, *own]
    return pa.Table.from_arrays(arrays, list(CHANGES))


def _are_equal(one: pa.StructArray, other: pa.StructArray) -> pa.Array:
    """Return whether images are equal, pair by pair."""
    both = ([pc.is_valid(images), *images.flatten()] for images in (one, other))
    identities = [[_make_comparable(array) for array in arrays] for arrays in both]
    return are_same(*identities)


def _make_comparable(array: pa.Array) -> pa.Array:
    if pa.types.is_map(array.type):
        texts = (None if pairs is None else repr(sorted(pairs)) for pairs in array.to_pylist())
        return pa.array(texts, pa.string())
    return make_comparable(array)


# Images


def make_image_type(types: Iterable[tuple[str, pa.DataType]]) -> pa.StructType:
    """Return the type of an image with columns of some names and types."""
    exact = EXACT_TEXTS
    return pa.struct([*(pa.field(name, type) for name, type in types), exact])


def list_change_fields(image: pa.StructType) -> pa.Schema:
    """List the columns of changes with images of a type."""
    own = {name: type for name, type in CHANGES.items() if name not in IMAGES}
    types = arrow_schema(", ".join(f"{name} {type}" for name, type in own.items()))
    fields = [pa.field(name, image) if name in IMAGES else types.field(name) for name in CHANGES]
    return pa.schema(fields)


def format_types(columns: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Format the types of changes in Spark, with images of columns of some names and types."""
    fields = (f"{quote_identifier(name)}: {type}" for name, type in (*columns, (INEXACT, MAP)))
    return CHANGES | dict.fromkeys(IMAGES, f"struct<{', '.join(fields)}>")


def make_images(rows: Rows, schema: TableSchema) -> pa.StructArray:
    """Return rows as images with the columns of their schema."""
    written = write_table(rows, schema)
    names = [delta.name for delta in list_delta_columns(schema)]
    return _pack([join_chunks(written[name]) for name in (*names, INEXACT)], names)


def store_images(
    rows: Rows, schema: TableSchema, columns: Sequence[HistoryColumn]
) -> pa.StructArray:
    """Return rows of a schema as images with the columns of a table of changes."""
    written = write_table(rows, schema)
    values = store_columns(columns, schema, written)
    return _pack([*values, join_chunks(written[INEXACT])], [column.name for column in columns])


def take_over_images(
    block: Block, columns: Sequence[HistoryColumn], names: Mapping[str, Mapping[str, str]]
) -> pa.Table:
    """Return stored changes with the columns that their images get.

    `names` are those of the images' columns in data files.
    """
    fields = list_change_fields(make_image_type((c.name, c.arrow_type) for c in columns))
    images = {name: _take_over(block[name], columns, names[name]) for name in IMAGES}
    arrays = [images.get(name, block[name]) for name in CHANGES]
    fitting = [array.cast(field.type) for array, field in zip(arrays, fields, strict=True)]
    return pa.Table.from_arrays(fitting, schema=fields)


def _take_over(
    images: pa.Array, columns: Sequence[HistoryColumn], names: Mapping[str, str]
) -> pa.StructArray:
    """A file is older than the columns that it lacks."""
    count = len(images)
    # By place: a name may look like a path.
    places = {field.name: place for place, field in enumerate(images.type)}
    stored = {
        name: pc.struct_field(images, [places[physical]])
        for name, physical in names.items()
        if physical in places
    }
    values = take_over_columns(columns, stored, count)
    exact = stored[INEXACT].cast(EXACT_TEXTS.type)
    return _pack([*values, exact], [c.name for c in columns], pc.is_null(images))


def _pack(
    arrays: Sequence[pa.Array], names: Sequence[str], mask: pa.Array | None = None
) -> pa.StructArray:
    fields = [pa.field(n, a.type) for n, a in zip((*names, INEXACT), arrays, strict=True)]
    return pa.StructArray.from_arrays(list(arrays), fields=fields, mask=mask)
