"""Read the tables of a lake by name, in Python: for people and programs outside of this project.

Rules of this room: what is opened is pinned, and stays as it is whatever runs meanwhile.  It needs
neither Java nor Spark, except to return a frame of a session that its caller has.  It writes
nothing.  Every error is a `ConfigError`, and names what to do.
"""

from ticdc_assets.reading.description import ColumnDescription, TableDescription
from ticdc_assets.reading.lake import PinnedLake, open_lake
from ticdc_assets.reading.table import DeltaVersion, PinnedTable
from ticdc_assets.reading.versions import PinnedVersions

__all__ = [
    "ColumnDescription",
    "DeltaVersion",
    "PinnedLake",
    "PinnedTable",
    "PinnedVersions",
    "TableDescription",
    "open_lake",
]
