"""Folders that a storage sink writes to, and claim-check storages: local, S3, GCS or Azure.

All are read through `pyarrow.fs`.  Credentials come from the sink URI, as TiCDC takes them, or from
the environment; they are never part of an error.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from pyarrow import fs

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError


class Folder:
    """A read-only view of everything below one prefix."""

    def __init__(self, filesystem: fs.FileSystem, root: str) -> None:
        self._filesystem = filesystem
        self._root = root.rstrip("/")

    def paths(self) -> list[str]:
        """All files, relative to the prefix, sorted, so that runs repeat."""
        selector = fs.FileSelector(self._root, recursive=True, allow_not_found=True)
        files = (i for i in self._filesystem.get_file_info(selector) if i.type == fs.FileType.File)
        return sorted(info.path.removeprefix(self._root).lstrip("/") for info in files)

    def exists(self) -> bool:
        return bool(self._filesystem.get_file_info(self._root).type != fs.FileType.NotFound)

    def read(self, path: str) -> bytes:
        """Read one file whole."""
        with self._filesystem.open_input_file(f"{self._root}/{path}") as file:
            return bytes(file.read())

    def fetch(self, name: str) -> bytes:
        """Read a claim-check object (a `protocols.payload.PayloadStore` is asked this way)."""
        return self.read(name)


def sink_folder(feed: Changefeed) -> Folder:
    """The folder a storage changefeed writes to."""
    return _folder(feed.location, feed.options)


def claim_check_folder(feed: Changefeed) -> Folder | None:
    """Where the changefeed's claim-check objects are, if it has any."""
    if feed.claim_check_storage is None:
        return None
    return _folder(feed.claim_check_storage, feed.claim_check_options)


def _folder(location: str, options: Mapping[str, str]) -> Folder:
    if location.startswith("/"):
        return Folder(fs.LocalFileSystem(), location)
    parts = urlsplit(location)
    root = parts.netloc + parts.path
    match parts.scheme:
        case "s3":
            return Folder(_s3(options), root)
        case "gcs":
            return Folder(fs.GcsFileSystem(), root)
        case "azure":
            return Folder(_azure(options), root)
    raise ConfigError(f"cannot read from {parts.scheme}://", setting="sink-uri")


def _s3(options: Mapping[str, str]) -> fs.FileSystem:
    endpoint = options.get("endpoint", "")
    scheme, _, host = endpoint.rpartition("://")
    settings = {
        "access_key": options.get("access-key"),
        "secret_key": options.get("secret-access-key"),
        "session_token": options.get("session-token"),
        "region": options.get("region"),
        "role_arn": options.get("role-arn"),
        "external_id": options.get("external-id"),
        "endpoint_override": host or None,
        "scheme": scheme or None,
        "force_virtual_addressing": options.get("force-path-style") == "false" or None,
    }
    return fs.S3FileSystem(**{name: value for name, value in settings.items() if value})


def _azure(options: Mapping[str, str]) -> fs.FileSystem:
    account = options.get("account-name")
    if not account:
        raise ConfigError("azure:// needs account-name", setting="sink-uri")
    settings = {
        "account_key": options.get("account-key"),
        "sas_token": options.get("sas-token"),
    }
    return fs.AzureFileSystem(account, **{n: v for n, v in settings.items() if v})
