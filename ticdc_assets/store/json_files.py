"""Small JSON files in the folder of a lake, or of an export, on disk or in an object store."""

from typing import TypeVar

import msgspec
from pyarrow import fs

from ticdc_assets.events.written import find_decoder
from ticdc_assets.store.reader import write_content

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
    write_content(store, name, msgspec.json.encode(content))
