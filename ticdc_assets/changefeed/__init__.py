"""A changefeed as its owner declared it: sink URI, changefeed TOML, and our own settings.

Rules of this room: it reads the declared files and opens nothing else.  A declaration that cannot
work raises one `ConfigError` that names file and setting.  No text contains a credential.
"""

from ticdc_assets.changefeed.changefeeds_file import (
    find_changefeeds_file,
    find_declared_changefeeds,
)
from ticdc_assets.changefeed.csv_dialect import CsvDialect
from ticdc_assets.changefeed.declaration import (
    Changefeed,
    ProtocolName,
    changefeed_from_uri,
    declare_changefeeds,
    load_changefeeds,
)
from ticdc_assets.changefeed.dispatcher import Dispatcher

__all__ = [
    "Changefeed",
    "CsvDialect",
    "Dispatcher",
    "ProtocolName",
    "changefeed_from_uri",
    "declare_changefeeds",
    "find_changefeeds_file",
    "find_declared_changefeeds",
    "load_changefeeds",
]
