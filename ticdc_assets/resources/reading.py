"""Open a changefeed's output for the lake's stages, and the lake itself."""

from functools import partial
from typing import TYPE_CHECKING

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.lake.advance import FolderSource, RecordSource, Source
from ticdc_assets.resources.lake import get_lake_root
from ticdc_assets.resources.source import open_claim_checks, read_records, require_readable
from ticdc_assets.resources.storage import open_sink_folder
from ticdc_assets.store.lake import Lake, LakeSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_source(feed: Changefeed, *, accept_gaps: bool = False) -> Source:
    """Open a changefeed's output; raise a `ConfigError` if it cannot be read.

    `accept_gaps`: go on where records of topics are gone that were not read.
    """
    require_readable(feed)
    upstream = None
    if feed.upstream is not None:
        # Its client takes a twentieth of a second to import, and most lakes have none.
        from ticdc_assets.resources.upstream import find_upstream

        upstream = find_upstream(feed).open_rows
    if feed.transport == "storage":
        open_folder = partial(open_sink_folder, feed)
        return FolderSource(open_folder(), open_folder, upstream)
    claims = None if feed.claim_check_storage is None else partial(open_claim_checks, feed)
    return RecordSource(partial(read_records, feed, accept_gaps=accept_gaps), claims, upstream)


def open_lake(feed: Changefeed, root: str | None = None) -> LakeSession:
    """Open the lake of a changefeed, by default at TICDC_LAKE or `./lake`."""
    location = Lake(get_lake_root(root), feed.id)
    return LakeSession(partial(get_session, location.root), location, feed)


def get_session(root: str) -> "SparkSession":
    """Return the Spark session of this process; who only reads a lake has not installed Spark."""
    from ticdc_assets.resources import spark

    return spark.get_session(root)
