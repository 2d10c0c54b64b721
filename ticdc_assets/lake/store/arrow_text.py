"""Texts as Arrow holds them: it knows no lone surrogates, which names from outside may have."""

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

_SURROGATE = re.compile("[\ud800-\udfff]")


def array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An Arrow array; lone surrogates in texts become U+FFFD."""
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return pa.array([clean(value) for value in values], kind)


def clean(value: Any) -> Any:
    """A value without lone surrogates in its texts."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list | tuple):
        return [clean(v) for v in value]
    return value
