"""The location of the lake."""

import os
import re

from ticdc_assets.errors import ConfigError
from ticdc_assets.safe_text import betrays_secret

LAKE = "TICDC_LAKE"
# delta-rs decodes an escape in a path; with the other characters it fails, or finds no commits.
_IMPOSSIBLE = re.compile(r"%[0-9A-Fa-f]{2}|[][^|\\#?\x00-\x1f\x7f]")


def get_lake_root(stated: str | None = None) -> str:
    """Return the stated root, else TICDC_LAKE, else `./lake`; make a path absolute."""
    return make_absolute(stated or os.environ.get(LAKE) or "lake", setting=LAKE)


def make_absolute(root: str, *, setting: str) -> str:
    """Make a path absolute, unless it is a URI; raise a `ConfigError` if no lake can be there."""
    if betrays_secret(root):
        # It is part of every asset's metadata.
        reason = "must have no user, password or parameters: set credentials as Spark takes them"
        raise ConfigError(reason, setting=setting)
    path = root if "://" in root else os.path.abspath(root)
    if found := _IMPOSSIBLE.search(path):
        raise ConfigError(f"must have no {found[0]!r}: {path!r}", setting=setting)
    return path
