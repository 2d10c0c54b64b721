"""How many rows people may see of a table."""

import os

from ticdc_assets.errors import ConfigError

PREVIEW_ROWS = "TICDC_PREVIEW_ROWS"


def read_preview_rows() -> int:
    """Return how many rows a preview shows; with 0, no value is shown anywhere."""
    text = os.environ.get(PREVIEW_ROWS) or "5"
    if not text.isdecimal():
        reason = f"must be a whole number of rows, not {text!r}"
        raise ConfigError(reason, setting=PREVIEW_ROWS)
    return int(text)
