"""The location of the lake."""

import os
import re

from ticdc_assets.errors import ConfigError
from ticdc_assets.safe_text import betrays_secret

LAKE = "TICDC_LAKE"
# delta-rs decodes an escape in a path; with the other characters it fails, or finds no commits.
_S3 = re.compile(r"^s3n?://", re.IGNORECASE)
_IMPOSSIBLE = re.compile(r"%[0-9A-Fa-f]{2}|[][^|\\#?\x00-\x1f\x7f]")


def get_lake_root(stated: str | None = None) -> str:
    """Return the stated root, else TICDC_LAKE, else `./lake`; make a path absolute."""
    if stated:
        return make_absolute(stated, setting="--lake")
    return make_absolute(os.environ.get(LAKE) or "lake", setting=LAKE)


def make_absolute(root: str, *, setting: str) -> str:
    """Make a path absolute, and a URI one of Hadoop's; raise an error if no lake can be there."""
    if betrays_secret(root):
        # It is part of every asset's metadata.
        reason = "must have no user, password or parameters: set credentials as Spark takes them"
        raise ConfigError(reason, setting=setting)
    # Hadoop calls it s3a what everything else calls s3.
    root = _S3.sub("s3a://", root)
    path = root if "://" in root else os.path.abspath(root)
    if found := _IMPOSSIBLE.search(path):
        raise ConfigError(f"must have no {found[0]!r}: {path!r}", setting=setting)
    return path
