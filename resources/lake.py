"""The location of the lake."""

import os

LAKE = "TICDC_LAKE"


def get_lake_root(stated: str | None = None) -> str:
    """Return the stated root, else TICDC_LAKE, else `./lake`; make a path absolute."""
    root = stated or os.environ.get(LAKE) or "lake"
    return root if "://" in root else os.path.abspath(root)
