"""A changefeed as its owner declared it: the sink URI and TOML given to TiCDC, and a little more.

Rules of this room: files are read, nothing else is opened; whatever cannot work is one
`ConfigError` that names file and setting; no credential is ever part of a text.
"""

from ticdc_assets.changefeed.declaration import (
    Changefeed,
    CsvDialect,
    Dispatcher,
    ProtocolName,
    changefeed_from_uri,
    find_changefeeds_file,
    load_changefeeds,
)

__all__ = [
    "Changefeed",
    "CsvDialect",
    "Dispatcher",
    "ProtocolName",
    "changefeed_from_uri",
    "find_changefeeds_file",
    "load_changefeeds",
]
