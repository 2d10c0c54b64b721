"""Open a changefeed's output for the lake's stages."""

from functools import partial

from resources.source import open_claim_checks, read_records, require_readable
from resources.storage import open_sink_folder
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.lake.advance import FolderSource, RecordSource, Source


def open_source(feed: Changefeed, *, accept_gaps: bool = False) -> Source:
    """Open a changefeed's output; raise a `ConfigError` if it cannot be read.

    `accept_gaps`: go on where records of topics are gone that were not read.
    """
    require_readable(feed)
    if feed.transport == "storage":
        open_folder = partial(open_sink_folder, feed)
        return FolderSource(open_folder(), open_folder)
    claims = None if feed.claim_check_storage is None else partial(open_claim_checks, feed)
    return RecordSource(partial(read_records, feed, accept_gaps=accept_gaps), claims)
