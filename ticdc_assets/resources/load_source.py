"""Open what a load reads: an export of Dumpling's, on disk or in a bucket, or the database."""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.changefeed.sink_uri import Options, parse_sink_uri
from ticdc_assets.dumpling.dialect import Dialect
from ticdc_assets.dumpling.export import list_export
from ticdc_assets.errors import ConfigError
from ticdc_assets.load.export_source import ExportSource
from ticdc_assets.load.upstream_source import UpstreamSource, open_upstream_source
from ticdc_assets.resources.storage import open_export_folder
from ticdc_assets.resources.upstream import UpstreamDatabase

_SETTING = "DIR"


def open_export(place: str, dialect: Dialect) -> ExportSource:
    """Open the export in a folder, or at a URI written like a sink URI, and list its files."""
    if "://" in place:
        uri = parse_sink_uri(place, setting=_SETTING)
        if uri.transport != "storage":
            raise uri.error("must be a folder or a bucket, such as s3://bucket/prefix")
        location, options = uri.location, uri.options
    else:
        location, options = os.path.abspath(place), Options()
    open_folder = partial(open_export_folder, location, options)
    folder = open_folder()
    if not folder.exists():
        raise ConfigError(f"no such folder: {location}", setting=_SETTING)
    export = list_export((entry.path, entry.size, entry.problem) for entry in folder.entries())
    return ExportSource(folder, open_folder, export, location, dialect)


def open_database(
    database: UpstreamDatabase, feed: Changefeed, ts: int | None, names: Sequence[str] = ()
) -> AbstractContextManager[UpstreamSource]:
    """Open the tables of a changefeed as of a TSO, by default the newest that will do for them."""
    address = database.upstream.address
    return open_upstream_source(database.open_snapshot, address, feed, ts, names)
