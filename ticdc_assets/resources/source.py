"""Check that a changefeed's output exists, and read how far it has got.

Kafka's client is imported for topics alone: who reads folders has not installed it.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError, MalformedMessage
from ticdc_assets.events import Quarantined
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources.dump import read_dump
from ticdc_assets.resources.storage import Folder, open_claim_check_folder, open_sink_folder
from ticdc_assets.storage_sink.metadata import read_metadata
from ticdc_assets.stream.offsets import ReadOffsets


def require_folder(feed: Changefeed) -> Folder:
    """Open the folder a storage changefeed writes to; raise an error if it does not exist."""
    folder = open_sink_folder(feed)
    if not folder.exists():
        raise ConfigError(f"no such folder: {feed.location}", setting="sink-uri")
    return folder


def require_readable(feed: Changefeed) -> None:
    """Raise a `ConfigError` unless the changefeed's output can be read."""
    match feed.transport:
        case "dump":
            # Opening it here gives a better error than Spark's.
            next(iter(read_dump(Path(feed.location))), None)
        case "storage":
            require_folder(feed)
        case "kafka":
            from ticdc_assets.resources.kafka import require_topics

            require_topics(feed)


def read_records(
    feed: Changefeed, known: ReadOffsets, *, accept_gaps: bool = False
) -> Iterable[Message | Quarantined]:
    """Read the topics of a changefeed on its brokers, from where it was read, or their dump."""
    if feed.transport == "kafka":
        from ticdc_assets.resources.kafka import read_topics

        return read_topics(feed, known, accept_gaps=accept_gaps)
    return read_dump(Path(feed.location))


def open_claim_checks(feed: Changefeed) -> Folder:
    """Open the storage of the claim-check objects; called in the workers."""
    folder = open_claim_check_folder(feed)
    if folder is None:
        raise ConfigError("must be declared", setting="claim-check-storage")
    return folder


def read_checkpoint(feed: Changefeed, read: Callable[[str], bytes] | None = None) -> int | None:
    """Read the checkpoint from a folder's `metadata` file; return None if there is none yet.

    A half-written file counts as none: the next poll reads it again.  `read` replaces the default
    way to read a file of the folder.
    """
    try:
        return read_metadata((read or open_sink_folder(feed).read)("metadata"))
    except (FileNotFoundError, MalformedMessage):
        return None
    except OSError as error:
        raise ConfigError(
            f"cannot read the folder's metadata file: {error}", setting="sink-uri"
        ) from None


def explain_no_data(
    feed: Changefeed, *, had_data: bool, read: Callable[[str], bytes] | None = None
) -> str:
    """Return why a source has nothing to read; raise an error if its folder has disappeared."""
    try:
        if feed.transport == "storage":
            read_metadata((read or open_sink_folder(feed).read)("metadata"))
        elif had_data:
            return "all records have disappeared"
    except MalformedMessage as error:
        return f"cannot read the file {error.reason}"
    except FileNotFoundError:
        if had_data:
            require_folder(feed)
            return "the file metadata has disappeared"
    return "the source has no data yet"


def read_topic_ends(feed: Changefeed) -> dict[str, int]:
    """Return the offset after the newest record of every partition, by `topic-partition`."""
    from ticdc_assets.resources.kafka import Brokers

    return {
        f"{name}-{number}": ends.end
        for name, topic in Brokers(feed).read_ends().items()
        for number, ends in topic.partitions.items()
    }


def get_dump_size(feed: Changefeed) -> int | None:
    """Return the size of a topic's dump in bytes; None if there is none yet."""
    try:
        return os.stat(feed.location).st_size
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = f"cannot read the dump: {error.strerror or type(error).__name__}"
        raise ConfigError(reason, file=feed.location, setting="sink-uri") from None
