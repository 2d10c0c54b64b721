"""Find the changefeed of a command, read its output, and open its lake for reading."""

import argparse
import hashlib
from collections.abc import Iterator
from itertools import chain

from ticdc_assets.changefeed import (
    Changefeed,
    changefeed_from_uri,
    find_changefeeds_file,
    load_changefeeds,
)
from ticdc_assets.changefeed.sink_uri import nearest
from ticdc_assets.cli.output import warn
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import Event
from ticdc_assets.log.folds import read_fold
from ticdc_assets.resources.lake import get_lake_root
from ticdc_assets.resources.source import read_records, require_folder
from ticdc_assets.resources.storage import open_claim_check_folder
from ticdc_assets.safe_text import join_for_shell, quote_given
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.stream.offsets import ReadOffsets
from ticdc_assets.stream.reading import read_folder_events, read_topic_events
from ticdc_assets.stream.recognition import recognize_folder, recognize_topic
from ticdc_assets.views.names import LakeNames

NOT_DECLARED = "declares no changefeed: add each as [[changefeed]]"


def find_changefeed(options: argparse.Namespace) -> Changefeed:
    """Return the changefeed that the options name."""
    if options.sink_uri is not None:
        if options.changefeeds is not None or options.changefeed is not None:
            raise ConfigError(
                "cannot be combined with --changefeeds or --changefeed", setting="--sink-uri"
            )
        feed = changefeed_from_uri(options.sink_uri)
        # Two sink URIs must never share a folder of a lake.
        place = " ".join(filter(None, (feed.transport, feed.location, feed.topic)))
        digest = hashlib.sha256(place.encode()).hexdigest()[:8]
        return changefeed_from_uri(options.sink_uri, id=f"adhoc-{digest}")
    file = find_changefeeds_file(options.changefeeds)
    feeds = load_changefeeds(file)
    if options.changefeed is None:
        if len(feeds) != 1:
            raise ConfigError(
                f"declares {', '.join(feeds)}: choose one with --changefeed", file=str(file)
            )
        return next(iter(feeds.values()))
    if options.changefeed not in feeds:
        given, hint = quote_given(options.changefeed), nearest(options.changefeed, feeds)
        reason = f"declares no changefeed {given}, only {', '.join(feeds)}{hint}"
        raise ConfigError(reason, file=str(file), setting="--changefeed")
    return feeds[options.changefeed]


def find_changefeeds(options: argparse.Namespace) -> list[Changefeed]:
    """Return the changefeed that the options name, or else all that are declared."""
    if options.sink_uri is not None or options.changefeed is not None:
        return [find_changefeed(options)]
    file = find_changefeeds_file(options.changefeeds)
    feeds = list(load_changefeeds(file).values())
    if not feeds:
        raise ConfigError(NOT_DECLARED, file=str(file))
    return feeds


def format_command(
    options: argparse.Namespace, command: str, *flags: str, table: str | None = None
) -> str:
    """Format the command line of another command on the same changefeed and lake."""
    words = ["ticdc-assets", command]
    if options.lake is not None:
        words += ["--lake", options.lake]
    if options.changefeeds is not None:
        words += ["--changefeeds", str(options.changefeeds)]
    if options.changefeed is not None:
        words += ["--changefeed", options.changefeed]
    # A sink URI may hold credentials.
    uri = [] if options.sink_uri is None else ["--sink-uri", "URI"]
    return join_for_shell(words, [*flags, *uri], table)


def read_events(feed: Changefeed) -> Iterator[Event]:
    """Open the output of a changefeed and decode all of it."""
    if feed.transport == "storage":
        folder = require_folder(feed)
        events = read_folder_events(feed, folder.paths(), folder.read)
        return chain(folder.quarantined(), events)
    records = read_records(feed, ReadOffsets())
    return read_topic_events(feed, records, open_claim_check_folder(feed))


def recognize_protocol(feed: Changefeed) -> str | None:
    """Return the settings that declare the protocol of a changefeed's output, if it is certain."""
    if feed.transport == "storage":
        return recognize_folder(require_folder(feed).paths())
    return recognize_topic(feed, read_records(feed, ReadOffsets()))


def open_reader(options: argparse.Namespace) -> LakeReader:
    """Open the lake that a command reads, without Spark."""
    return LakeReader(Lake(get_lake_root(options.lake), find_changefeed(options).id))


def open_names(options: argparse.Namespace) -> LakeNames:
    """Open the names of the tables in the lake, without Spark; raise `LakeNotFound` without one."""
    return LakeNames.open(open_reader(options), find_changefeed(options))


def note_fold(reader: LakeReader) -> None:
    """Say from where on the lake has row events, if some have been folded."""
    fold = read_fold(reader)
    if fold.snapshot_id:
        warn(f"note: row events up to {fold.describe()} are gone", "info")
