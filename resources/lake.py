"""The location of the lake."""

import os

from ticdc_assets.errors import ConfigError
from ticdc_assets.safe_text import betrays_secret

LAKE = "TICDC_LAKE"


def get_lake_root(stated: str | None = None) -> str:
    """Return the stated root, else TICDC_LAKE, else `./lake`; make a path absolute."""
    root = stated or os.environ.get(LAKE) or "lake"
    if betrays_secret(root):
        # It is part of every asset's metadata.
        reason = "must have no user, password or parameters: set credentials as Spark takes them"
        raise ConfigError(reason, setting=LAKE)
    return root if "://" in root else os.path.abspath(root)
