"""The kinds of input.  A target makes one input from a random source and returns its faults."""

import struct
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from msgspec.structs import replace

from tests.fuzz import corpus
from tests.fuzz.ddl_streams import FEED, make_ddl_stream
from tests.fuzz.mutation import (
    STATEMENTS,
    damage_bytes,
    damage_statement,
    damage_tree,
    list_scalars,
    read_json,
    write_json,
)
from tests.fuzz.pipeline import run_stream
from ticdc_assets.changefeed import changefeed_from_uri, load_changefeeds
from ticdc_assets.errors import ConfigError, DecodeError
from ticdc_assets.events import Event, Quarantined, RowChange
from ticdc_assets.protocols.message import Message
from ticdc_assets.protocols.open_protocol import framing
from ticdc_assets.protocols.registry import make_topic_decoder
from ticdc_assets.stream.reading import read_folder_events, read_schema_events, read_topic_events

_EXAMPLES = Path(__file__).parents[2] / "examples"


def damage_topic(random: Random) -> list[str]:
    """Records of a table or two, some of them damaged, doubled, lost or moved."""
    seeds = corpus.topic_seeds(random.choice(corpus.TOPICS))
    seed = random.choice(seeds)
    records = list(seed.records)
    if random.random() < 0.3:
        records += random.choice(seeds).records
        records.sort(key=lambda record: (record.partition, record.offset))
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(records))
        match random.randrange(12):
            case 0 if len(records) > 1:
                del records[at]
            case 1:
                records.insert(random.randrange(len(records)), records[at])
            case 2:
                records[at], records[0] = records[0], records[at]
            case _:
                records[at] = _damage_record(records[at], random)
    records = [replace(record, offset=offset) for offset, record in enumerate(records)]
    decoder = make_topic_decoder(seed.feed)
    faults = [
        f"silent loss: no event of {record}"[:500]
        for record in records
        if not list(decoder.decode(record))
    ]
    events = list(read_topic_events(seed.feed, records, None))
    return [*faults, *run_stream(seed.feed, events, _choose_middle(events, random))]


def damage_folder(random: Random) -> list[str]:
    """The files of a table, some of them damaged, lost or under another name."""
    seed = random.choice(corpus.folder_seeds(random.choice(corpus.FOLDERS)))
    files = dict(seed.files)
    for _ in range(random.choice((1, 1, 2))):
        path = random.choice(sorted(files))
        match random.randrange(8):
            case 0 if len(files) > 1:
                del files[path]
            case 1:
                files[_damage_text(path, random)] = files.pop(path)
            case 2:
                files[path] = files[random.choice(sorted(files))]
            case _:
                files[path] = _damage_content(files[path], random)
    events = list(read_folder_events(seed.feed, sorted(files), files.__getitem__))
    return run_stream(seed.feed, events, _choose_middle(events, random))


def damage_ddl(random: Random) -> list[str]:
    """Rows of one table between statements on it."""
    events = list(read_topic_events(FEED, make_ddl_stream(random), None))
    return run_stream(FEED, events, _choose_middle(events, random))


def damage_schema_file(random: Random) -> list[str]:
    """A schema file alone."""
    content = _damage_content(random.choice(corpus.schema_files()), random)
    events = list(read_schema_events("f", 0, lambda path: content))
    return [] if events else ["silent loss: a schema file without an event"]


def damage_declaration(random: Random) -> list[str]:
    """A sink URI, its configuration file and a file of declarations."""
    uri, config = random.choice(corpus.declarations())
    if random.random() < 0.5:
        uri = _damage_text(uri, random)
    if random.random() < 0.5:
        config = damage_bytes(config, random)
    folder = _scratch()
    (folder / "changefeed.toml").write_bytes(config)
    declared = random.choice(_examples())
    (folder / "changefeeds.toml").write_bytes(damage_bytes(declared, random))
    try:
        changefeed_from_uri(uri, config=folder / "changefeed.toml")
    except ConfigError as error:
        if not (error.setting or error.file):
            return [f"an error that names no place: {error}"]
    try:
        load_changefeeds(folder / "changefeeds.toml")
    except ConfigError as error:
        if not (error.setting or error.file):
            return [f"an error that names no place: {error}"]
    return []


Target = Callable[[Random], list[str]]
TARGETS: dict[str, Target] = {
    "topic": damage_topic,
    "ddl": damage_ddl,
    "folder": damage_folder,
    "schema-file": damage_schema_file,
    "declaration": damage_declaration,
}


@cache
def _scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix="ticdc-fuzz-"))


@cache
def _examples() -> list[bytes]:
    return [path.read_bytes() for path in sorted(_EXAMPLES.glob("*/changefeeds.toml"))]


def _choose_middle(events: list[Event], random: Random) -> int | None:
    """Choose a ts within the stream, which makes two windows of it."""
    times = [event.commit_ts for event in events if isinstance(event, RowChange)]
    if not times or random.random() < 0.5 or any(isinstance(e, Quarantined) for e in events):
        return None
    return random.choice(times)


def _damage_record(record: Message, random: Random) -> Message:
    value = record.value or b""
    if value.startswith(b"{"):
        return replace(record, value=_damage_content(value, random))
    if random.random() < 0.8:
        try:
            batch = framing.split(record.key, value)
        except DecodeError:
            return replace(record, value=damage_bytes(value, random))
        at = random.randrange(len(batch))
        part = random.choice((0, 1, 1, 1))
        pair = list(batch[at])
        pair[part] = _damage_content(pair[part], random)
        batch[at] = pair[0], pair[1]
        keys = b"".join(struct.pack(">Q", len(key)) + key for key, _ in batch)
        values = b"".join(struct.pack(">Q", len(each)) + each for _, each in batch)
        return replace(record, key=struct.pack(">Q", 1) + keys, value=values)
    if record.key and random.random() < 0.3:
        return replace(record, key=damage_bytes(record.key, random))
    return replace(record, value=damage_bytes(value, random))


def _damage_content(data: bytes, random: Random) -> bytes:
    """Damage JSON as a tree most of the time, its statement if it has one, or any bytes."""
    if random.random() < 0.15:
        return damage_bytes(data, random)
    try:
        tree: Any = read_json(data)
    except (ValueError, RecursionError):
        return damage_bytes(data, random)
    if isinstance(tree, list) and random.random() < 0.3:
        for at, member in enumerate(tree):
            name, value = member if isinstance(member, tuple) else ("", None)
            if name in ("sql", "q", "Query") and isinstance(value, str) and value:
                tree[at] = name, damage_statement(value, random, corpus.statements())
                return write_json(tree)
    return write_json(damage_tree(tree, random, list_scalars(tree)))


def _damage_text(text: str, random: Random) -> str:
    if random.random() < 0.5:
        return damage_statement(text, random, STATEMENTS)
    return damage_bytes(text.encode(), random).decode(errors="replace")
