"""Messages of Simple that tests make, and how they read them."""

import json
from base64 import b64decode
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from ticdc_assets.events import Event, row_image
from ticdc_assets.protocols.compression import Compression
from ticdc_assets.protocols.message import Message
from ticdc_assets.protocols.simple.json import SimpleJsonDecoder

# Thousands of messages that differ from another dataset's in order only: every n-th is compared.
REPEATS = ("-replayed", "-restart", "-unpatched")
# An INSERT but for its images.
INSERT: dict[str, Any] = {
    "version": 1,
    "database": "d",
    "table": "t",
    "tableID": 9,
    "type": "INSERT",
    "commitTs": 5,
    "buildTs": 6,
    "schemaVersion": 7,
}


class Folder:
    """A claim-check storage that is a folder."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def fetch(self, name: str) -> bytes:
        return (self._path / name).read_bytes()


def step_of(dataset: str) -> int:
    return 10 if dataset.startswith("random_") and dataset.endswith(REPEATS) else 1


def compression_of(dataset: str) -> Compression:
    return "lz4" if "lz4" in dataset else "snappy" if "snappy" in dataset else "none"


def decode(value: bytes | str | None, **settings: Any) -> Event:
    raw = value.encode() if isinstance(value, str) else value
    settings = {"tz": ZoneInfo("UTC")} | settings
    (event,) = SimpleJsonDecoder(**settings).decode(Message("topic", 1, 7, None, raw))
    return event


def row(data: str = '{"id":"1"}', **fields: Any) -> str:
    """An INSERT with these images; fields of value None are left out."""
    envelope = INSERT | fields
    head = json.dumps({name: value for name, value in envelope.items() if value is not None})
    return f'{head[:-1]},"data":{data}}}'


def in_utc(stamp: dict[str, str]) -> str:
    seconds, dot, fraction = stamp["value"].partition(".")
    if seconds.startswith("0000"):
        return stamp["value"]
    local = datetime.strptime(seconds, "%Y-%m-%d %H:%M:%S")
    utc = local.replace(tzinfo=ZoneInfo(stamp["location"])).astimezone(UTC)
    return utc.strftime("%Y-%m-%d %H:%M:%S") + dot + fraction


def loaded(image: str | None) -> dict[str, str | None] | None:
    return None if image is None else row_image.load(image)


def unwrapped(path: Path) -> bytes:
    return b64decode(json.loads(path.read_bytes())["value"])
