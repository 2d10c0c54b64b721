"""From the text of row images to typed Delta columns, by native expressions.

Equal, text for text, to what `schema.types.value.reader` makes of them; nothing here raises at run
time, whatever the texts are.  `parsed` gives the image as a struct of texts, `typed` its values.
"""

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.columns.text_values import reading
from ticdc_assets.lake.columns.types import alike, delta_names, stored
from ticdc_assets.lake.store.sql import quote_identifier

# No MySQL column has such a name.
_BROKEN = "\0broken"
_OPTIONS = {
    "columnNameOfCorruptRecord": _BROKEN,
    "allowSingleQuotes": "false",
    "maxStringLen": str((1 << 31) - 1),
}

# Where one of these is, the image may be something else than one object of texts and NULLs: another
# root, a value that is neither, something behind the end.  Texts may look like it as well.
_SUSPICIOUS = r'\A\s*[^\s{]|"\s*:\s*[^"n\s]|["l{]\s*\}\s*\S'
# What is left of an image, all its strings taken for a quote.
_FLAT = r'\A\s*\{[\s",:nul]*\}\s*\z'


@dataclass(frozen=True)
class Typed:
    """A column of Delta, and where its text was wrong or has no Delta value: both give NULL."""

    name: str
    value: Column
    invalid: Column
    inexact: Column


def image_struct(schema: TableSchema) -> str:
    """The DDL of the struct of texts that an image is read as; its last field marks broken JSON."""
    names = [*(column.name for column in stored(schema)), _BROKEN]
    return f"struct<{', '.join(f'{quote_identifier(name)}: string' for name in names)}>"


def parsed(schema: TableSchema, image_text: Column) -> Column:
    """Read images as a struct of texts.

    Names count by exact spelling, as servers write them; the last of equal ones counts.
    """
    texts = F.from_json(image_text, image_struct(schema), _OPTIONS)
    spelt = fields(schema)
    if spelt == [column.name for column in stored(schema)]:
        return texts
    return texts.cast(
        f"struct<{', '.join(f'{quote_identifier(f)}: string' for f in [*spelt, _BROKEN])}>"
    )


def typed(schema: TableSchema, image: Column, *, member_names: bool) -> list[Typed]:
    """Type the columns of a parsed image, in table order."""
    columns = []
    names = delta_names(schema)
    for column, field in zip(stored(schema), fields(schema), strict=True):
        try:
            read = reading(image.getField(field), column.type, member_names=member_names)
        except InvalidValue as problem:
            raise InvalidValue(problem.reason, column=column.name) from None
        columns.append(Typed(names[column.name], read.value, read.invalid, read.inexact))
    return columns


def broken(image_text: Column, image: Column) -> Column:
    """Whether a text that is there is no JSON; `image` is what `parsed` made of it."""
    return image_text.isNotNull() & (image.isNull() | image.getField(_BROKEN).isNotNull())


def malformed(image_text: Column, image: Column) -> Column:
    """Whether a text that is there is no image: no JSON object, or with values that are no texts.

    `image` is what `parsed` made of it.
    """
    # Without its escapes a text has no quotes left inside of its strings.
    bare = F.regexp_replace(image_text, r"(?s)\\.", "")
    flat = F.regexp_replace(bare, r'"[^"]*"', '"').rlike(_FLAT)
    strange = image_text.isNotNull() & image_text.rlike(_SUSPICIOUS) & ~flat
    return broken(image_text, image) | strange


def unknown_columns(schema: TableSchema, image_text: Column) -> Column:
    """Whether an image has a column that the schema lacks, or spells otherwise."""
    names = F.array(*(F.lit(name) for name in sorted({c.name for c in schema.columns})))
    strange = F.array_except(F.json_object_keys(image_text), names)
    return F.coalesce(F.size(strange) > 0, F.lit(False))


def undecodable(image_text: Column) -> Column:
    """Whether an image holds bytes that are no UTF-8: a Delta string has a question mark instead.

    They travel as lone surrogates, which JSON writes as escapes.
    """
    bare = F.regexp_replace(image_text, r"\\\\", "")
    pair = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    alone = F.regexp_replace(bare, pair, "").rlike(r"\\u[dD][89a-fA-F]")
    return (image_text.contains("\\ud") | image_text.contains("\\uD")) & alone


def fields(schema: TableSchema) -> list[str]:
    """The fields of `parsed`: names of columns, unless Spark takes two of them for the same."""
    names = [column.name for column in stored(schema)]
    if len({alike(name) for name in names}) == len(names):
        return names
    return [f"c{at}" for at in range(len(names))]
