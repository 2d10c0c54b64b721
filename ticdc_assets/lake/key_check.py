"""Whether the key of `[changefeed.privacy]` is there, and the one that the lake's hashes are of.

`privacy.json` has what a key makes of a fixed text: it shows that a key is another one, and not
what the key is.
"""

import hmac

import msgspec
from pyarrow import fs

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError
from ticdc_assets.store.json_files import read_json_file, write_json_file
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import create_folder

_FILE = "privacy.json"
_TEXT = b"ticdc-assets key"
_BYTES = 8


class _KeyCheck(msgspec.Struct, frozen=True):
    key: str


def require_key(feed: Changefeed, location: Lake) -> None:
    """Raise `ConfigError` without the key that rules need, or with another one than before."""
    privacy = feed.privacy
    if privacy is None or not privacy.needs_key:
        return
    check = hmac.digest(privacy.read_key(), _TEXT, "sha256")[:_BYTES].hex()
    folder = create_folder(location.path(""))
    is_there = folder.get_file_info(_FILE).type is fs.FileType.File
    known = read_json_file(folder, _FILE, _KeyCheck) if is_there else None
    if known is None:
        write_json_file(folder, _FILE, _KeyCheck(check))
    elif known.key != check:
        reason = (
            f"the key in {privacy.key_env} is not the one that this lake was written with, so equal"
            " values would have different hashes: restore that key, or begin a lake in another"
            " folder"
        )
        raise ConfigError(reason, setting="changefeed.privacy.key-env")
