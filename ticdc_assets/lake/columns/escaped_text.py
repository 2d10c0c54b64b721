"""Texts with bytes that are not UTF-8, which neither JSON in Spark nor Delta can hold: escape them.

In a row image such bytes are lone surrogates, written as JSON escapes.  An escaped text has `\\x`
and two hexadecimal digits for each of these bytes, and `\\x5c` for a backslash; a lone surrogate
that stands for no byte has `\\u` and four digits.  No two texts have the same escaped text.
"""

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

# JSON escapes of surrogates, after `_unify_escapes`.
_HIGH, _LOW = r"\\ud[89ab][0-9a-f]{2}", r"\\ud[c-f][0-9a-f]{2}"
_BACKSLASH = "\\x5c"


def has_undecodable_text(image_text: Column) -> Column:
    """Return whether an image has bytes that are not UTF-8."""
    unescaped = F.regexp_replace(image_text, r"\\\\", "")
    pair = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    alone = F.regexp_replace(unescaped, pair, "").rlike(r"\\u[dD][89a-fA-F]")
    return (image_text.contains("\\ud") | image_text.contains("\\uD")) & alone


def may_be_undecodable(image_texts: pa.ChunkedArray) -> bool:
    """Return whether any of some images may have such bytes."""
    found = pc.match_substring(image_texts, "\\ud", ignore_case=True)
    return bool(pc.any(found).as_py())


def escape_image(image_text: Column) -> Column:
    """Escape the texts of an image, and the names in it."""
    text = _unify_escapes(image_text)
    text = F.regexp_replace(text, rf"(?<!{_HIGH})\\udc([89a-f][0-9a-f])", r"\\\\x$1")
    text = F.regexp_replace(text, rf"(?<!{_HIGH})\\u(d[c-f][0-9a-f]{{2}})", r"\\\\u$1")
    text = F.regexp_replace(text, rf"\\u(d[89ab][0-9a-f]{{2}})(?!{_LOW})", r"\\\\u$1")
    return F.regexp_replace(text, r"\\u005[cC]", r"\\\\x5c")


def _unify_escapes(image_text: Column) -> Column:
    """Write every backslash as `\\u005c`, and the escapes of surrogates in lower case."""
    text = F.replace(image_text, F.lit("\\\\"), F.lit("\\u005c"))
    parts = F.split(text, r"(?=\\u[dD][89a-fA-F][0-9a-fA-F]{2})", -1)
    lower = F.transform(
        parts,
        lambda part: F.when(
            part.startswith("\\u"),
            F.concat(F.lower(F.substring(part, 1, 6)), F.substr(part, F.lit(7))),
        ).otherwise(part),
    )
    return F.array_join(lower, "")


def unescape_image(escaped_image: Column) -> Column:
    """Write an image of escaped texts and names as the image that it stands for."""
    # JSON doubles backslashes, and an escaped text has none but those of its escapes.
    text = F.regexp_replace(escaped_image, r"\\\\x([89a-f][0-9a-f])", r"\\udc$1")
    text = F.regexp_replace(text, r"\\\\u(d[0-9a-f]{3})", r"\\u$1")
    return F.replace(text, F.lit("\\" + _BACKSLASH), F.lit("\\\\"))


def escape_name(name: str) -> str:
    """Escape the name of a column as `escape_image` does."""
    return name.replace("\\", _BACKSLASH)


def escape_text(text: Column) -> Column:
    """Escape a text of which every byte is UTF-8."""
    return F.replace(text, F.lit("\\"), F.lit(_BACKSLASH))


def has_escaped_bytes(escaped_text: Column) -> Column:
    """Return whether a text that is escaped has bytes that are not UTF-8."""
    return escaped_text.rlike(r"\\u|\\x[^5]")


def to_utf8(escaped_text: Column) -> Column:
    """Unescape a text, with a question mark for each byte that is not UTF-8."""
    text = F.regexp_replace(escaped_text, r"\\(?:x[89a-f][0-9a-f]|u[0-9a-f]{4})", "?")
    return F.replace(text, F.lit(_BACKSLASH), F.lit("\\"))
