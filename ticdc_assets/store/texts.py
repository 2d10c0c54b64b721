"""Texts as tables store them: UTF-8, in which no surrogate stands alone."""

import re
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")


def replace_surrogates(value: Any) -> Any:
    """Return a value, or a list of values, with U+FFFD for lone surrogates in texts."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list | tuple):
        return type(value)(replace_surrogates(item) for item in value)
    return value
