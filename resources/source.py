"""Where a changefeed's output is: whether it is there, and how far it has got.

A topic is read from a dump of it; brokers are not read yet.
"""

import os
from collections.abc import Callable
from pathlib import Path

from resources.dump import read_dump
from resources.storage import Folder, open_claim_check_folder, open_sink_folder
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError, MalformedMessage
from ticdc_assets.storage_sink.metadata import read_metadata

NO_BROKERS = (
    "reading from a broker is not there yet: dump the topic to a file"
    " (kcat -C -J) and declare it as dump:///path/records.jsonl"
)


def require_folder(feed: Changefeed) -> Folder:
    """The folder a storage changefeed writes to, which must be there."""
    folder = open_sink_folder(feed)
    if not folder.exists():
        raise ConfigError(f"no such folder: {feed.location}", setting="sink-uri")
    return folder


def require_readable(feed: Changefeed) -> None:
    """See that the changefeed's output is there, before anything is begun."""
    match feed.transport:
        case "dump":
            # What cannot be opened is said here, and not by Spark.
            next(iter(read_dump(Path(feed.location))), None)
        case "storage":
            require_folder(feed)
        case _:
            raise ConfigError(NO_BROKERS, setting="sink-uri")


def open_claim_checks(feed: Changefeed) -> Folder:
    """Where claim-check objects are; called in the workers."""
    folder = open_claim_check_folder(feed)
    if folder is None:
        raise ConfigError("is not declared", setting="claim-check-storage")
    return folder


def read_checkpoint(feed: Changefeed, read: Callable[[str], bytes] | None = None) -> int | None:
    """The checkpoint that a folder's `metadata` states; None if there is none yet.

    A half-written file is none either: it is read again soon.  `read` may be another way to read a
    file of the folder.
    """
    try:
        return read_metadata((read or open_sink_folder(feed).read)("metadata"))
    except (FileNotFoundError, MalformedMessage):
        return None
    except OSError as error:
        raise ConfigError(f"metadata cannot be read: {error}", setting="sink-uri") from None


def get_dump_size(feed: Changefeed) -> int | None:
    """How large the dump of a topic is by now; None if there is none yet."""
    try:
        return os.stat(feed.location).st_size
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = error.strerror or "cannot be read"
        raise ConfigError(reason, file=feed.location, setting="sink-uri") from None
