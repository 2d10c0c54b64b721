"""Read row images as typed Delta columns, by native Spark expressions.

`parse_images` reads an image as a struct of texts, `type_columns` reads the texts as values: the
same values as `schema.types.value.make_reader` gives, text for text.
"""

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.columns.text_values import read_text_values
from ticdc_assets.lake.columns.types import choose_delta_names, fold_case, list_stored_columns
from ticdc_assets.lake.store.sql import quote_identifier

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
    """A Delta column; its value is NULL where the text is invalid or has no Delta value."""

    name: str
    value: Column
    invalid: Column
    inexact: Column


def make_image_type(schema: TableSchema) -> str:
    """Make the Spark type of a parsed image: texts, and a last field that marks broken JSON."""
    names = [*(column.name for column in list_stored_columns(schema)), _BROKEN]
    return f"struct<{', '.join(f'{quote_identifier(name)}: string' for name in names)}>"


def parse_images(schema: TableSchema, image_text: Column) -> Column:
    """Parse images as structs of texts.

    Names match by exact spelling, as servers write them; of equal names the last one counts.
    """
    texts = F.from_json(image_text, make_image_type(schema), _OPTIONS)
    fields = name_fields(schema)
    if fields == [column.name for column in list_stored_columns(schema)]:
        return texts
    return texts.cast(
        f"struct<{', '.join(f'{quote_identifier(f)}: string' for f in [*fields, _BROKEN])}>"
    )


def type_columns(schema: TableSchema, image: Column, *, member_names: bool) -> list[TypedColumn]:
    """Type the columns of a parsed image, in table order."""
    columns = []
    names = choose_delta_names(schema)
    for column, field in zip(list_stored_columns(schema), name_fields(schema), strict=True):
        try:
            values = read_text_values(image.getField(field), column.type, member_names=member_names)
        except InvalidValue as problem:
            raise InvalidValue(problem.reason, column=column.name) from None
        columns.append(
            TypedColumn(names[column.name], values.value, values.invalid, values.inexact)
        )
    return columns


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


def has_undecodable_text(image_text: Column) -> Column:
    """Return whether an image has bytes that are not UTF-8; Delta stores a question mark for them.

    In an image they are lone surrogates, written as JSON escapes.
    """
    unescaped = F.regexp_replace(image_text, r"\\\\", "")
    pair = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    alone = F.regexp_replace(unescaped, pair, "").rlike(r"\\u[dD][89a-fA-F]")
    return (image_text.contains("\\ud") | image_text.contains("\\uD")) & alone


def name_fields(schema: TableSchema) -> list[str]:
    """Name the fields of a parsed image after the columns, or number them if Spark would clash."""
    names = [column.name for column in list_stored_columns(schema)]
    if len({fold_case(name) for name in names}) == len(names):
        return names
    return [f"c{number}" for number in range(len(names))]
