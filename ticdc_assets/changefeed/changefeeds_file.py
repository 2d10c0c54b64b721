"""Which changefeeds.toml a deployment declares its changefeeds in."""

import os
from pathlib import Path
from typing import Any

from ticdc_assets.changefeed.declaration import Changefeed, load_changefeeds
from ticdc_assets.changefeed.toml import read_toml
from ticdc_assets.errors import ConfigError

# The setting that names the file, and the file where it is not set.
CHANGEFEEDS = "TICDC_CHANGEFEEDS"
_DEFAULT = "changefeeds.toml"
_EMPTY: tuple[dict[str, Any], ...] = ({}, {"changefeed": []})


def find_changefeeds_file(explicit: Path | None) -> Path:
    """Find the changefeeds.toml: the given one, else TICDC_CHANGEFEEDS, else ./changefeeds.toml."""
    stated = os.environ.get(CHANGEFEEDS)
    path = explicit or Path(stated or _DEFAULT)
    if os.path.isfile(path):
        return path
    if explicit is None and stated:
        reason = f"no such file: {stated}; name a changefeeds.toml that exists"
        raise ConfigError(reason, setting=CHANGEFEEDS)
    hint = f"no such file; name one with --changefeeds or {CHANGEFEEDS}"
    raise ConfigError(hint, file=str(path))


def find_declared_changefeeds() -> dict[str, Changefeed]:
    """Load the changefeeds that this deployment declares; empty if none is declared yet."""
    if not os.environ.get(CHANGEFEEDS) and not os.path.exists(_DEFAULT):
        return {}
    path = find_changefeeds_file(None)
    return {} if read_toml(path) in _EMPTY else load_changefeeds(path)
