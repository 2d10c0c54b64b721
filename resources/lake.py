"""Where the lake is."""

import os

LAKE = "TICDC_LAKE"


def get_lake_root(stated: str | None = None) -> str:
    """As stated, by the environment, or `./lake`: a URI as it stands, a path from the root on."""
    root = stated or os.environ.get(LAKE) or "lake"
    return root if "://" in root else os.path.abspath(root)
