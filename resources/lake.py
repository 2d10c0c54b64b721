"""The location of the lake."""

import os
import re

from ticdc_assets.errors import ConfigError
from ticdc_assets.safe_text import betrays_secret

LAKE = "TICDC_LAKE"
# delta-rs takes it for the character that it stands for in a URI.
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")


def get_lake_root(stated: str | None = None) -> str:
    """Return the stated root, else TICDC_LAKE, else `./lake`; make a path absolute."""
    return make_absolute(stated or os.environ.get(LAKE) or "lake", setting=LAKE)


def make_absolute(root: str, *, setting: str) -> str:
    """Make a path absolute, unless it is a URI; raise a `ConfigError` if no lake can be there."""
    if betrays_secret(root):
        # It is part of every asset's metadata.
        reason = "must have no user, password or parameters: set credentials as Spark takes them"
        raise ConfigError(reason, setting=setting)
    if "://" in root:
        return root
    path = os.path.abspath(root)
    if _ESCAPE.search(path):
        reason = f"must have no % before two hexadecimal digits, which {path} has"
        raise ConfigError(reason, setting=setting)
    return path
