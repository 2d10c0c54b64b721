"""Row images to the columns of rows, typed by the schema under which they were written.

`events.row_image.load` defines what an image is.  `pyarrow.json` reads many at once where it cannot
read anything else: images that are one object each, without the escapes that stand for bytes which
are not UTF-8.  It raises for what is no text, and a name that is there twice or unknown; then, and
where an old row may leave out what did not change, the definition reads the images one by one.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from ticdc_assets.errors import InvalidValue, MalformedMessage
from ticdc_assets.events import TableSchema
from ticdc_assets.events.row_image import load
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.protocols.csv.written_rows import get_content
from ticdc_assets.rows.columns import list_stored_columns
from ticdc_assets.rows.stored import Stored, concat_stored
from ticdc_assets.rows.typing import TextTyper
from ticdc_assets.schema.types.either_moment import list_identifying_timestamps

# Escapes of surrogates: only a pair of them is a character.
_SURROGATE = r"\\u[dD][89a-fA-F]"
_MAY_BE_SURROGATES = (b"\\ud", b"\\uD")


class SideRows(NamedTuple):
    """Rows of one side of changes, by the upstream names of their columns.

    `invalid`: the image is none of the schema; its values do not count.
    """

    columns: dict[str, Stored]
    invalid: pa.Array

    def take(self, places: pa.Array) -> "SideRows":
        columns = {name: stored.take(places) for name, stored in self.columns.items()}
        return SideRows(columns, self.invalid.take(places))


class Images(NamedTuple):
    """The images of changes: NULL where a side has none."""

    before: pa.Array
    after: pa.Array

    def filter(self, chosen: pa.Array) -> "Images":
        return Images(self.before.filter(chosen), self.after.filter(chosen))


class _Texts(NamedTuple):
    """The texts of plain images; `is_unsure`: of an old row, the definition has to say which."""

    old: dict[str, pa.Array]
    new: dict[str, pa.Array]
    is_unsure: pa.Array

    def filter_sure(self) -> "_Texts":
        sure = pc.invert(self.is_unsure)
        old, new = (
            {name: array.filter(sure) for name, array in side.items()}
            for side in (self.old, self.new)
        )
        return _Texts(old, new, self.is_unsure.filter(sure))


class ImageReader:
    """Reads the images of changes that were written under one schema."""

    def __init__(
        self,
        schema: TableSchema,
        old_columns: Sequence[str] | None,
        new_columns: Sequence[str] | None = None,
        *,
        member_names: bool,
    ) -> None:
        """`old_columns` are those that are needed of an old row, and so on; None if all are.

        Raise `InvalidValue` for a schema that no table can have.
        """
        self._known = {column.name for column in schema.columns}
        self._typers: dict[str, TextTyper] = {}
        self._takes_all = new_columns is None
        for column in list_stored_columns(schema):
            if new_columns is not None and column.name not in new_columns:
                continue
            try:
                self._typers[column.name] = TextTyper(column.type, member_names=member_names)
            except InvalidValue as problem:
                raise InvalidValue(problem.reason, column=column.name) from None
        self._old_names = [*self._typers] if old_columns is None else list(old_columns)

    def read(self, images: Images) -> tuple[SideRows, SideRows]:
        """Return the old and the new rows of changes.

        An old row has the new row's values where its image leaves a column out.
        """
        is_plain = pc.and_(_is_plain(images.before), _is_plain(images.after))
        # Mostly all are, and a copy of them takes time.
        texts = self._parse(images if pc.all(is_plain).as_py() else images.filter(is_plain))
        if texts is None:
            return self._read_one_by_one(images)
        if pc.any(texts.is_unsure).as_py():
            texts, is_plain = texts.filter_sure(), _and_not_among(is_plain, texts.is_unsure)
        fast = self._type(texts)
        if pc.all(is_plain).as_py():
            return fast
        is_left = pc.invert(is_plain)
        slow = self._read_one_by_one(images.filter(is_left))
        numbers = pa.array(range(len(is_plain)), pa.int64())
        came = pa.concat_arrays([numbers.filter(is_plain), numbers.filter(is_left)])
        places = pc.sort_indices(came)
        old, new = (_concat(one, two).take(places) for one, two in zip(fast, slow, strict=True))
        return old, new

    # With Arrow

    def _parse(self, images: Images) -> "_Texts | None":
        """Parse plain images; None if Arrow takes one for something else."""
        # An old row may state more than is needed of it.
        names, takes_all = list(self._typers), self._takes_all
        before, after = (_parse(side, names, takes_all=takes_all) for side in images)
        if before is None or after is None:
            return None
        lacks_some = pa.repeat(pa.scalar(False), len(images.before))
        for name in self._old_names:
            lacks_some = pc.or_(lacks_some, pc.is_null(before[name]))
        # NULL and a column that was left out look alike.
        is_both = pc.and_(pc.is_valid(images.before), pc.is_valid(images.after))
        has_null = pc.fill_null(pc.match_substring(images.before, "null"), False)
        old = {name: pc.coalesce(before[name], after[name]) for name in self._old_names}
        return _Texts(old, after, pc.and_(pc.and_(is_both, has_null), lacks_some))

    def _type(self, texts: "_Texts") -> tuple[SideRows, SideRows]:
        count = len(texts.is_unsure)
        old, new = (self._type_side(side, count) for side in (texts.old, texts.new))
        return old, new

    def _type_side(self, texts: Mapping[str, pa.Array], count: int) -> SideRows:
        invalid = pa.repeat(pa.scalar(False), count)
        columns = {}
        for name, array in texts.items():
            columns[name], is_wrong = self._typers[name].type_array(array)
            if is_wrong is not None:
                invalid = pc.or_(invalid, is_wrong)
        return SideRows(columns, invalid)

    # By the definition

    def _read_one_by_one(self, images: Images) -> tuple[SideRows, SideRows]:
        new = [self._load(image) for image in images.after.to_pylist()]
        old = [self._load(image) for image in images.before.to_pylist()]
        # An old row that states nothing is there, too: it is the new one.
        are_both = pc.and_(pc.is_valid(images.before), pc.is_valid(images.after)).to_pylist()
        completed = [
            {**after, **before} if is_both and after is not None and before is not None else before
            for is_both, after, before in zip(are_both, new, old, strict=True)
        ]
        return self._type_loaded(completed, self._old_names), self._type_loaded(
            new, [*self._typers]
        )

    def _load(self, image: str | None) -> dict[str, str | None] | None:
        """Load an image: empty if there is none, None if it is none of the schema."""
        if image is None:
            return {}
        try:
            texts = load(image)
        except MalformedMessage:
            return None
        return texts if self._known.issuperset(texts) else None

    def _type_loaded(
        self, rows: Sequence[dict[str, str | None] | None], names: Sequence[str]
    ) -> SideRows:
        invalid = pa.array([row is None for row in rows], pa.bool_())
        columns = {}
        for name in names:
            texts = [None if row is None else row.get(name) for row in rows]
            columns[name], is_wrong = self._typers[name].type_list(texts)
            if is_wrong is not None:
                invalid = pc.or_(invalid, is_wrong)
        return SideRows(columns, invalid)


def _is_plain(images: pa.Array) -> pa.Array:
    """Whether an image is one object, if it is any JSON at all, and has no odd escape."""
    is_plain = pc.and_(pc.starts_with(images, "{"), pc.ends_with(images, "}"))
    content = get_content(images).to_pybytes()
    if any(escape in content for escape in _MAY_BE_SURROGATES):
        is_plain = pc.and_not(is_plain, pc.match_substring_regex(images, _SURROGATE))
    return pc.fill_null(is_plain, True)


def _and_not_among(chosen: pa.Array, unsure: pa.Array) -> pa.Array:
    """Return which rows are chosen, without those of the chosen ones that are unsure."""
    places = pc.subtract(pc.cumulative_sum(chosen.cast(pa.int64())), 1)
    return pc.and_not(chosen, unsure.take(pc.if_else(chosen, places, 0)))


def _parse(
    images: pa.Array, names: Sequence[str], *, takes_all: bool
) -> dict[str, pa.Array] | None:
    """Parse images as texts, column by column; None if Arrow takes one for something else.

    With `takes_all`, an image with any other name is none of the schema.
    """
    count = len(images)
    if images.null_count == count:
        return {name: pa.nulls(count, pa.string()) for name in names}
    lines = _join_lines(pc.fill_null(images, "{}"))
    fields = [(name, pa.string()) for name in names]
    try:
        parsed = arrow_json.read_json(
            pa.BufferReader(lines),
            arrow_json.ReadOptions(use_threads=False, block_size=lines.size + 1),
            arrow_json.ParseOptions(
                explicit_schema=pa.schema(fields),
                unexpected_field_behavior="error" if takes_all else "ignore",
            ),
        )
    except pa.ArrowInvalid:
        return None
    if parsed.num_rows != count:
        return None
    return {name: parsed[name].combine_chunks() for name in names}


def _join_lines(images: pa.Array) -> pa.Buffer:
    # One list of all of them; its texts may be longer together than those of an array.
    images = images.cast(pa.large_string())
    together = pa.ListArray.from_arrays(pa.array([0, len(images)], pa.int32()), images)
    return pc.binary_join(together, pa.scalar("\n", pa.large_string()))[0].as_buffer()


def _concat(one: SideRows, other: SideRows) -> SideRows:
    columns = {
        name: concat_stored([stored, other.columns[name]]) for name, stored in one.columns.items()
    }
    return SideRows(columns, pa.concat_arrays([one.invalid, other.invalid]))


def find_faults(rows: SideRows, table: TableSchema) -> pa.Array:
    """Return which rows are none of their table, or cannot be found again by their key."""
    faults = rows.invalid
    by_name = {fold_name(name): stored for name, stored in rows.columns.items()}
    for name in table.key:
        stored = by_name.get(fold_name(name))
        is_lacking = pa.repeat(pa.scalar(True), len(faults)) if stored is None else _is_null(stored)
        faults = pc.or_(faults, is_lacking)
    for name in list_identifying_timestamps(table):
        stored = by_name.get(fold_name(name))
        if stored is not None and stored.exact is not None:
            # It is one of two moments, and the value is the first of them.
            is_either = pc.and_(pc.is_valid(stored.values), pc.is_valid(stored.exact))
            faults = pc.or_(faults, is_either)
    return faults


def _is_null(stored: Stored) -> pa.Array:
    """Return which values are NULL upstream; a date that is none is not."""
    is_null = pc.is_null(stored.values)
    return is_null if stored.exact is None else pc.and_(is_null, pc.is_null(stored.exact))
