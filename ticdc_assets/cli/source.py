"""Which changefeed and which lake a command is about, and how the changefeed's output is read."""

import argparse
import hashlib
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from resources.dump import read_dump
from resources.storage import Folder, claim_check_folder, sink_folder
from ticdc_assets.changefeed import (
    Changefeed,
    changefeed_from_uri,
    find_changefeeds_file,
    load_changefeeds,
)
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import Event
from ticdc_assets.reference.reading import folder_events, topic_events

LAKE = "TICDC_LAKE"
_NO_BROKERS = (
    "reading from a broker is not there yet: dump the topic to a file"
    " (kcat -C -J) and declare it as dump:///path/records.jsonl"
)


def changefeed(options: argparse.Namespace) -> Changefeed:
    """The changefeed that the options name."""
    if options.sink_uri is not None:
        if options.changefeeds is not None or options.changefeed is not None:
            raise ConfigError("goes without --changefeeds and --changefeed", setting="--sink-uri")
        feed = changefeed_from_uri(options.sink_uri)
        # In a lake, two sink URIs never share a folder.
        where = hashlib.sha256(f"{feed.transport} {feed.location}".encode()).hexdigest()[:8]
        return changefeed_from_uri(options.sink_uri, id=f"adhoc-{where}")
    file = find_changefeeds_file(options.changefeeds)
    feeds = load_changefeeds(file)
    if options.changefeed is None:
        if len(feeds) != 1:
            raise ConfigError(
                f"declares {', '.join(feeds)}: name one with --changefeed", file=str(file)
            )
        return next(iter(feeds.values()))
    if options.changefeed not in feeds:
        raise ConfigError(f"declares no changefeed {options.changefeed!r}", file=str(file))
    return feeds[options.changefeed]


def lake_root(options: argparse.Namespace) -> str:
    """Where the lake is: a URI as it stands, a path from the root on."""
    root: str = options.lake or os.environ.get(LAKE) or "lake"
    return root if "://" in root else os.path.abspath(root)


def again(options: argparse.Namespace, command: str, *arguments: str) -> str:
    """The command line of another command on the same changefeed and lake."""
    words = ["ticdc-assets", command]
    if options.lake is not None:
        words += ["--lake", options.lake]
    if options.changefeeds is not None:
        words += ["--changefeeds", str(options.changefeeds)]
    if options.changefeed is not None:
        words += ["--changefeed", options.changefeed]
    line = shlex.join([*words, *arguments])
    # A sink URI may hold credentials.
    return line if options.sink_uri is None else f"{line} --sink-uri URI"


def events(feed: Changefeed) -> Iterator[Event]:
    """Open a changefeed's output and decode all of it."""
    match feed.transport:
        case "dump":
            return topic_events(feed, read_dump(Path(feed.location)), claim_check_folder(feed))
        case "storage":
            folder = existing_folder(feed)
            return folder_events(feed, folder.paths(), folder.read)
        case _:
            raise ConfigError(_NO_BROKERS, setting="sink-uri")


def existing_folder(feed: Changefeed) -> Folder:
    """The folder a storage changefeed writes to, which must be there."""
    folder = sink_folder(feed)
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
            existing_folder(feed)
        case _:
            raise ConfigError(_NO_BROKERS, setting="sink-uri")


def open_claims(feed: Changefeed) -> Folder:
    """Where claim-check objects are; called in the workers."""
    folder = claim_check_folder(feed)
    if folder is None:
        raise ConfigError("is not declared", setting="claim-check-storage")
    return folder
