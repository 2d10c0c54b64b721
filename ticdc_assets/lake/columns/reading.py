"""Read row images as typed Delta columns, by native Spark expressions.

`parse_images` reads an image as a struct of texts, `type_columns` reads the texts as values: the
same values as `schema.types.value.make_reader` gives, text for text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.columns.escaped_text import escape_image, escape_name
from ticdc_assets.lake.columns.inexact import make_entries
from ticdc_assets.lake.columns.text_values import read_text_values
from ticdc_assets.lake.store.sql import quote_identifier
from ticdc_assets.rows.columns import INEXACT, choose_delta_names, fold_case, list_stored_columns
from ticdc_assets.schema.types.mysql_type import map_to_delta_type

# No MySQL column can have this name.
_BROKEN = "\0broken"
_OPTIONS = {
    "columnNameOfCorruptRecord": _BROKEN,
    "allowSingleQuotes": "false",
    "maxStringLen": str((1 << 31) - 1),
}

# Signs that an image may not be one object of texts and NULLs: another root, a value that is
# neither, anything after its end.  Texts inside of an image may contain them as well.
_SUSPICIOUS = r'\A\s*[^\s{]|"\s*:\s*[^"n\s]|["l{]\s*\}\s*\S'
# A correct image after every string in it was replaced by one quote.
_FLAT = r'\A\s*\{[\s",:nul]*\}\s*\z'


@dataclass(frozen=True)
class TypedColumn:
    """A Delta column; `text` states a value exactly that is `inexact` in Delta."""

    name: str
    type: str
    value: Column
    invalid: Column
    inexact: Column | None
    text: Column


def parse_images(schema: TableSchema, image_text: Column, escaped: Column | None) -> Column:
    """Parse images as structs of texts; where `escaped` holds, of texts that are `escaped_text`.

    If it is None, none are.  Names match by exact spelling, as servers write them; of equal names
    the last one counts.
    """
    names = [column.name for column in list_stored_columns(schema)]
    fields = name_fields(schema)
    if escaped is None:
        return _parse_texts(image_text, names, fields)
    escaped_names = [escape_name(name) for name in names]
    if escaped_names == names:
        text = F.when(escaped, escape_image(image_text)).otherwise(image_text)
        return _parse_texts(text, names, fields)
    escaped_texts = _parse_texts(escape_image(image_text), escaped_names, fields)
    return F.when(escaped, escaped_texts).otherwise(_parse_texts(image_text, names, fields))


def _parse_texts(image_text: Column, names: list[str], fields: list[str]) -> Column:
    """Parse images as structs of texts, and a last field that marks broken JSON."""
    texts = F.from_json(image_text, _make_struct_type(names), _OPTIONS)
    return texts if fields == names else texts.cast(_make_struct_type(fields))


def _make_struct_type(names: list[str]) -> str:
    fields = (f"{quote_identifier(name)}: string" for name in [*names, _BROKEN])
    return f"struct<{', '.join(fields)}>"


def type_columns(
    schema: TableSchema, image: Column, escaped: Column | None, *, member_names: bool
) -> list[TypedColumn]:
    """Type the columns of a parsed image, in table order; `escaped` as in `parse_images`."""
    columns = []
    names = choose_delta_names(schema)
    for column, field in zip(list_stored_columns(schema), name_fields(schema), strict=True):
        try:
            text = image.getField(field)
            values = read_text_values(text, escaped, column.type, member_names=member_names)
        except InvalidValue as problem:
            raise InvalidValue(problem.reason, column=column.name) from None
        columns.append(
            TypedColumn(
                names[column.name],
                map_to_delta_type(column.type),
                values.value,
                values.invalid,
                values.inexact,
                text,
            )
        )
    return columns


def name_values(columns: Sequence[TypedColumn]) -> list[Column]:
    """Return the values of columns under their names, and the row's entries (`inexact`)."""
    inexact = {c.name: (c.inexact, c.text) for c in columns if c.inexact is not None}
    return [*(c.value.alias(c.name) for c in columns), make_entries(inexact).alias(INEXACT)]


def is_broken(image_text: Column, image: Column) -> Column:
    """Return whether a text is not JSON; `image` is its result of `parse_images`."""
    return image_text.isNotNull() & (image.isNull() | image.getField(_BROKEN).isNotNull())


def is_malformed(image_text: Column, image: Column) -> Column:
    """Return whether a text is not an image: no JSON object, or one with values that are no texts.

    `image` is its result of `parse_images`.
    """
    # Without escapes, no string contains a quote.
    unescaped = F.regexp_replace(image_text, r"(?s)\\.", "")
    is_flat = F.regexp_replace(unescaped, r'"[^"]*"', '"').rlike(_FLAT)
    is_other_json = image_text.isNotNull() & image_text.rlike(_SUSPICIOUS) & ~is_flat
    return is_broken(image_text, image) | is_other_json


def has_unknown_columns(schema: TableSchema, image_text: Column) -> Column:
    """Return whether an image has a column that the schema lacks or spells differently."""
    names = F.array(*(F.lit(name) for name in sorted({c.name for c in schema.columns})))
    unknown = F.array_except(F.json_object_keys(image_text), names)
    return F.coalesce(F.size(unknown) > 0, F.lit(False))


def name_fields(schema: TableSchema) -> list[str]:
    """Name the fields of a parsed image after the columns, or number them if Spark would clash."""
    names = [column.name for column in list_stored_columns(schema)]
    if len({fold_case(name) for name in names}) == len(names):
        return names
    return [f"c{number}" for number in range(len(names))]
