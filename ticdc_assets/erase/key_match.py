"""Find the rows of a key in tables of any kind, by the text that `show` prints of each value.

Values are compared by the types that columns have in Arrow, so whole columns are compared at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.events.escaped_text import escape_text
from ticdc_assets.rows.columns import INEXACT, fold_case
from ticdc_assets.store.file_rewrites import RowChoice

# Behind a name in a history: the type that the column had once.
_ASIDE = "@"


@dataclass(frozen=True)
class KeyColumns:
    """The texts of a key, and the columns that had it at any time, by their names in Delta."""

    texts: tuple[str, ...]
    # One for each set of names.
    names: frozenset[tuple[str, ...]]
    inexact: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "inexact", tuple(map(escape_text, self.texts)))

    def list_stored(self, physical: Mapping[str, str]) -> list[str]:
        """List the columns to read, by their names in the files of a table."""
        wanted = {fold_case(name) for names in self.names for name in names} | {INEXACT}
        return [stored for name, stored in physical.items() if fold_case(_find_own(name)) in wanted]

    def choose(self, rows: pa.Table | pa.StructArray, physical: Mapping[str, str]) -> pa.Array:
        """Return which rows have the key; the names in the files are `physical`."""
        columns = _read_columns(rows, physical)
        found = [
            reduce(pc.and_, (self._equals(columns, n, i) for i, n in enumerate(names)))
            for names in sorted(self.names)
            if all(_list_named(columns, name) for name in names)
        ]
        return reduce(pc.or_, found) if found else pa.repeat(False, len(rows))

    def _equals(self, columns: Mapping[str, pa.Array], name: str, place: int) -> pa.Array:
        """Return where a column, or one that had its name, has the text of a place of the key."""
        exact = columns.get(INEXACT)
        tests = [
            _equals(columns[each], self.texts[place], exact, each, self.inexact[place])
            for each in _list_named(columns, name)
        ]
        return reduce(pc.or_, tests)

    def as_number(self) -> int | None:
        """Return the key as a number; None if it is no single number."""
        text = self.texts[0]
        is_number = text.isascii() and text.removeprefix("-").isdigit()
        return int(text) if len(self.texts) == 1 and is_number else None


def make_choice(key: KeyColumns, physical: Mapping[str, str]) -> RowChoice:
    """Choose the rows of a key in a current table or a history."""
    number = key.as_number()
    names = {fold_case(name) for (name,) in key.names} if number is not None else set()
    stored = [physical[name] for name in physical if fold_case(name) in names]
    # Of several columns, any may have it.
    values = {} if number is None or len(names) != 1 else dict.fromkeys(stored, (number,))
    return RowChoice(
        key.list_stored(physical), lambda rows: key.choose(rows, physical), values=values
    )


def make_image_choice(
    key: KeyColumns, images: Mapping[str, Mapping[str, str]], physical: Mapping[str, str]
) -> RowChoice:
    """Choose the rows of a key in a table of changes, whose images are struct columns.

    A change from one row to another keeps the side that is of another row.
    """
    before, after = (physical[name] for name in images)
    names = dict(zip((before, after), images.values(), strict=True))

    def find(rows: pa.Table, side: str) -> pa.Array:
        column = rows[side].combine_chunks()
        return pc.and_(column.is_valid(), key.choose(column, names[side]))

    def choose(rows: pa.Table) -> pa.Array:
        return pc.or_(find(rows, before), find(rows, after))

    def change(rows: pa.Table, chosen: pa.Array) -> pa.Table:
        others = {
            side: pc.and_not(rows[side].combine_chunks().is_valid(), find(rows, side))
            for side in (before, after)
        }
        operations = rows[physical["operation"]].combine_chunks()
        for side, operation in ((before, "delete"), (after, "insert")):
            is_changed = pc.and_(chosen, others[side])
            operations = pc.if_else(is_changed, operation, operations)
        rows = _put(rows, physical["operation"], operations)
        for side in (before, after):
            # Of rows that stay, only the other side is left.
            is_gone = pc.and_(chosen, pc.invert(others[side]))
            column = rows[side].combine_chunks()
            rows = _put(rows, side, _take_valid(column, pc.invert(is_gone)))
        kept = pc.or_(pc.invert(chosen), pc.or_(others[before], others[after]))
        return rows.filter(kept)

    return RowChoice((before, after), choose, change)


def _put(rows: pa.Table, name: str, column: pa.Array) -> pa.Table:
    place = rows.schema.get_field_index(name)
    return rows.set_column(place, rows.schema.field(place), column)


def _take_valid(column: pa.Array, kept: pa.Array) -> pa.Array:
    """Return a column with NULL where it is not kept, and nothing of the values below."""
    return column.take(pc.if_else(kept, pa.array(range(len(column))), pa.scalar(None, pa.int64())))


def _read_columns(
    rows: pa.Table | pa.StructArray, physical: Mapping[str, str]
) -> dict[str, pa.Array]:
    if isinstance(rows, pa.StructArray):
        fields = [rows.type.field(i).name for i in range(rows.type.num_fields)]
        found = {name: pc.struct_field(rows, name) for name in fields}
    else:
        found = {name: rows[name].combine_chunks() for name in rows.column_names}
    return {name: found[stored] for name, stored in physical.items() if stored in found}


def _find_own(name: str) -> str:
    """Return the name of a column of a history without the type behind it."""
    own, mark, _ = name.replace("@@", "\0").partition(_ASIDE)
    return own.replace("\0", "@@") if mark else name


def _list_named(columns: Iterable[str], name: str) -> list[str]:
    folded = fold_case(name)
    return [c for c in columns if folded in (fold_case(c), fold_case(_find_own(c)))]


# Parameters: a column and the text, and where else its text may be.
def _equals(
    column: pa.Array, text: str, exact: pa.Array | None, name: str, escaped: str
) -> pa.Array:
    found = _equals_value(column, text)
    if exact is None:
        return found
    texts = pc.map_lookup(exact, name, "first")
    return pc.if_else(texts.is_valid(), pc.fill_null(pc.equal(texts, escaped), False), found)


def _equals_value(column: pa.Array, text: str) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        # A TIMESTAMP is printed in UTC.
        column = column.cast(pa.timestamp("us"))
    try:
        value = pa.scalar(_read_value(column.type, text)).cast(column.type)
    except (ValueError, UnicodeEncodeError, pa.ArrowException):
        # No value of the type.
        return pa.repeat(False, len(column))
    return pc.fill_null(pc.equal(column, value), False)


def _read_value(type: pa.DataType, text: str) -> str | bytes | float:
    if pa.types.is_binary(type):
        return bytes.fromhex(text)
    return float(text) if pa.types.is_floating(type) else text


def list_names(sets: Iterable[Sequence[str]]) -> frozenset[tuple[str, ...]]:
    """Make sets of names comparable."""
    return frozenset(tuple(names) for names in sets)
