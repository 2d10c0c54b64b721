"""Small JSON files in the folder of a lake, or of an export, on disk or in an object store."""

from typing import TypeVar

import msgspec
from pyarrow import fs

from ticdc_assets.events.written import find_decoder

_T = TypeVar("_T")


def read_json_file(store: fs.FileSystem, name: str, type: type[_T]) -> _T | None:
    """Read a file; None if writing it was interrupted."""
    with store.open_input_file(name) as file:
        try:
            content: _T = find_decoder(type).decode(file.read())
            return content
        except msgspec.MsgspecError:
            return None


def write_json_file(store: fs.FileSystem, name: str, content: object) -> None:
    """Write a file, in place of the one that is there."""
    text = msgspec.json.encode(content)
    # delta-rs writes `bytes` only.  Arrow hands them over when a buffer of the stream is flushed;
    # without one, it hands over its own `Buffer` objects.
    with store.open_output_stream(name, buffer_size=len(text) + 1) as file:
        file.write(text)
