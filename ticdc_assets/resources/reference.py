"""Values that a declaration keeps out of its file: in the environment, or in another file."""

import os

from ticdc_assets.changefeed.client_settings import Reference
from ticdc_assets.errors import ConfigError
from ticdc_assets.safe_text import remember_secret


def read_reference(reference: Reference, *, setting: str) -> str:
    """Read a value, which is a secret from now on; a file counts by its first line."""
    if reference.kind == "env":
        value = os.environ.get(reference.place)
        missing = f"there is no environment variable {reference.place}"
    else:
        value = _read_first_line(reference.place)
        missing = f"the file cannot be read, or is empty: {reference.place}"
    if not value:
        raise ConfigError(missing, setting=setting)
    remember_secret(value)
    return value


def _read_first_line(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().rstrip("\r\n")
    except (OSError, ValueError):
        return None
