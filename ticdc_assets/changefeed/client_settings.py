"""The table `[changefeed.kafka]`: settings of the Kafka client that TiCDC has no name for.

Names are those of librdkafka.  A value may be somewhere else, so that no secret has to stand in
the file: `{env = "NAME"}` is an environment variable, `{file = "path"}` the first line of a file.
It is read when a client connects.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ticdc_assets.changefeed.sink_uri import Options

_NAME = re.compile(r"[a-z0-9._]{1,100}")
# What reading depends on, or comes from the sink URI.
_RESERVED = """
    auto.offset.reset bootstrap.servers check.crcs enable.auto.commit enable.auto.offset.store
    enable.partition.eof group.id group.instance.id group.protocol isolation.level log_level
    plugin.library.paths
"""
RESERVED = frozenset(_RESERVED.split())


@dataclass(frozen=True, slots=True)
class Reference:
    """Where a value is: in a variable of the environment, or in a file."""

    kind: Literal["env", "file"]
    place: str


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Values by librdkafka's names, and where the others are."""

    values: Options
    references: Mapping[str, Reference]


def read_client_settings(table: Mapping[str, Any], folder: Path) -> ClientSettings:
    """Read the table; raise a ValueError that begins with the name and quotes no value."""
    values: dict[str, str] = {}
    references: dict[str, Reference] = {}
    for name, value in table.items():
        if not _NAME.fullmatch(name):
            raise ValueError(
                "has a name that no setting of librdkafka can have; quote names with dots"
            )
        if name in RESERVED:
            raise ValueError(f"{name} cannot be set here")
        match value:
            case bool():
                values[name] = str(value).lower()
            case str() | int():
                values[name] = str(value)
            case {"env": str(place), **rest} if place and not rest:
                references[name] = Reference("env", place)
            case {"file": str(place), **rest} if place and not rest:
                path = os.path.abspath(folder / os.path.expanduser(place))
                references[name] = Reference("file", path)
            case _:
                reason = 'must be a text, a number, true, false, {env = "NAME"} or {file = "path"}'
                raise ValueError(f"{name} {reason}")
    return ClientSettings(Options(values), references)
