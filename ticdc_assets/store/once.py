"""Files that are written once, whole, and never replaced: commits of logs that we write."""

import os
import secrets

from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import create_folder, write_content
from ticdc_assets.store.writer import ConcurrentCommit


def write_once(location: Lake, path: str, name: str, content: bytes) -> None:
    """Write a file of a folder of the lake; raise `ConcurrentCommit` if it is there.

    In an object store, where no lock keeps two runs apart, the later one replaces the file.
    """
    folder = create_folder(path)
    written = f".{name}.{secrets.token_hex(8)}.tmp" if location.is_on_disk else name
    write_content(folder, written, content)
    if location.is_on_disk:
        try:
            os.link(f"{path}/{written}", f"{path}/{name}")
        except FileExistsError:
            raise ConcurrentCommit("another run is at work here", file=path) from None
        finally:
            folder.delete_file(written)
