"""Inspect the output of a changefeed: it can be read, and is what the declaration says."""

from collections.abc import Collection, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError, MissingPayload
from ticdc_assets.events import (
    Event,
    FilePosition,
    Ordering,
    Position,
    Quarantined,
    RowChange,
)
from ticdc_assets.events.tso import to_datetime
from ticdc_assets.resources.dump import read_dump
from ticdc_assets.resources.finding import Finding, blame, note
from ticdc_assets.resources.folder_sample import find_sample
from ticdc_assets.resources.source import read_checkpoint, read_records, require_folder
from ticdc_assets.resources.storage import open_claim_check_folder
from ticdc_assets.stream.folder_files import is_named_like_data
from ticdc_assets.stream.limits import describe_limits
from ticdc_assets.stream.offsets import ReadOffsets
from ticdc_assets.stream.reading import read_folder_events, read_topic_events
from ticdc_assets.stream.recognition import (
    describe_protocol,
    recognize_folder,
    recognize_topic,
)

_TOPICS = "docs/kafka.md says what each message means"
_FOLDER = (
    "correct sink-uri, and let this user list and read it; credentials come from the URI or the"
    " environment"
)
_NOTHING_YET = "start the changefeed, or correct sink-uri"
_PROTOCOL = "declare the protocol, and the config, that the changefeed was created with"
_MOST_NAMED = 3
# Of a dump, from its beginning.
_RECORDS = 100
_CLAIM_CHECKS = "correct claim-check-storage, and let this user read it"
_ACCEPT = "remove it from the changefeed, there and here, or accept that: see docs/settings.md"
_CHANGE = "change the changefeed, there and here, or accept that: see docs/limits.md"


class _Sample(NamedTuple):
    """What was read of a source: how it is, and events of its newest or first input."""

    finding: Finding
    events: Sequence[Event] = ()


def inspect_source(feed: Changefeed) -> list[Finding]:
    """Read a little of a changefeed's output; say what that cannot hold, too."""
    seen: set[Ordering] = set()
    try:
        match feed.transport:
            case "kafka":
                sample = _read_topics(feed)
            case "storage":
                sample = _read_folder(feed)
            case _:
                sample = _read_dump(feed)
        seen = {event.ordering for event in sample.events if isinstance(event, RowChange)}
        found = _find_fault(feed, sample.events) or sample.finding
    except ConfigError as error:
        fix = _TOPICS if feed.transport == "kafka" else _FOLDER
        found = blame("failure", "source", error, fix, feed.id)
    return [*_inspect_stream(feed, seen), found]


def _inspect_stream(feed: Changefeed, seen: Collection[Ordering]) -> list[Finding]:
    """Say what the stream of a changefeed cannot hold."""
    findings = []
    for omission in feed.omissions:
        error = ConfigError(omission.what, setting=omission.setting)
        findings.append(blame("warning", "stream", error, _ACCEPT, feed.id))
    described = {omission.describe() for omission in feed.omissions}
    others = (ConfigError(each) for each in describe_limits(feed, seen) if each not in described)
    return findings + [blame("warning", "stream", error, _CHANGE, feed.id) for error in others]


def _read_topics(feed: Changefeed) -> _Sample:
    # Who reads folders has not installed Kafka's client.
    from ticdc_assets.resources.kafka import Brokers
    from ticdc_assets.resources.topic_tail import read_tail

    brokers = Brokers(feed)
    brokers.find_starts(brokers.read_ends())
    tail = read_tail(feed)
    names = sorted({name for name, _ in tail.partitions})
    topics = ", ".join(names[:_MOST_NAMED])
    if len(names) > _MOST_NAMED:
        topics += f" and {len(names) - _MOST_NAMED:,} more"
    place = f"{feed.location}: {topics} (partitions: {len(tail.partitions):,})"
    if not tail.events:
        return _Sample(_warn(feed, f"{place} has no record"))
    if tail.newest_at is not None:
        place += f"; the newest record is of {tail.newest_at:%Y-%m-%d %H:%M:%S} UTC"
    return _Sample(note("source", place, feed.id), tail.events)


def _read_folder(feed: Changefeed) -> _Sample:
    folder = require_folder(feed)
    # To list it is one right, and to read a file another.
    directories, files = folder.list_directory()
    ts = read_checkpoint(feed)
    if ts is None:
        is_empty = not (directories or files)
        has = "is empty" if is_empty else "has no readable file metadata, which TiCDC writes"
        return _Sample(_warn(feed, f"{feed.location} {has}"))
    checkpoint = f"its checkpoint is of {to_datetime(ts):%Y-%m-%d %H:%M:%S} UTC"
    events = [
        event
        for event in read_folder_events(feed, find_sample(folder), folder.read)
        # Schema files are the same in every protocol.
        if isinstance(event, RowChange | Quarantined) and _is_of_data_file(event.position)
    ]
    return _Sample(note("source", f"{feed.location}; {checkpoint}", feed.id), events)


def _is_of_data_file(position: Position) -> bool:
    return isinstance(position, FilePosition) and is_named_like_data(position.path)


def _read_dump(feed: Changefeed) -> _Sample:
    records = list(islice(read_dump(Path(feed.location)), _RECORDS))
    if not records:
        return _Sample(_warn(feed, f"{feed.location} is empty"))
    if isinstance(records[0], Quarantined):
        raise ConfigError(f"{records[0].position}: {records[0].reason}", setting="sink-uri")
    events = list(read_topic_events(feed, records, None))
    return _Sample(note("source", feed.location, feed.id), events)


def _warn(feed: Changefeed, reason: str) -> Finding:
    error = ConfigError(reason, setting="sink-uri")
    return blame("warning", "source", error, _NOTHING_YET, feed.id)


def _find_fault(feed: Changefeed, events: Sequence[Event]) -> Finding | None:
    """Say if what was read is not what the declaration says."""
    faults = [
        event
        for event in events
        # Claim-check objects are not fetched here.
        if isinstance(event, Quarantined) and event.error != MissingPayload.__name__
    ]
    if not faults:
        return None
    first = f"decoded as {feed.protocol}: {faults[0].position}: {faults[0].reason}"
    if len(faults) < len(events):
        count = f"{len(faults):,} of {len(events):,} events that were read"
        some = ConfigError(f"{count} cannot be {first}", setting="protocol")
        return blame("warning", "source", some, _PROTOCOL, feed.id)
    error = ConfigError(f"nothing that was read can be {first}", setting="protocol")
    found = _recognize(feed, faults)
    is_other = found not in (None, describe_protocol(feed))
    fix = f"the output is written with {found}: declare that" if is_other else _PROTOCOL
    return blame("failure", "source", error, fix, feed.id)


def _recognize(feed: Changefeed, faults: Sequence[Quarantined]) -> str | None:
    """Return the settings that declare the protocol of the output, if it is certain."""
    files = [each.position.path for each in faults if isinstance(each.position, FilePosition)]
    if files:
        return recognize_folder(files)
    return recognize_topic(feed, read_records(feed, ReadOffsets()))


def inspect_claim_checks(feed: Changefeed) -> list[Finding]:
    """Open the storage of claim-check objects, where a changefeed has one."""
    try:
        folder = open_claim_check_folder(feed)
        if folder is None:
            return []
        if not folder.exists():
            reason = f"no such folder: {feed.claim_check_storage}"
            raise ConfigError(reason, setting="claim-check-storage")
        folder.list_directory()
    except ConfigError as error:
        return [blame("failure", "claim check", error, _CLAIM_CHECKS, feed.id)]
    return [note("claim check", str(feed.claim_check_storage), feed.id)]
