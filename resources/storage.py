"""Folders that a storage sink writes to, and claim-check storages: local, S3, GCS or Azure.

All are read through `pyarrow.fs`.  Credentials come from the sink URI, as TiCDC takes them, or from
the environment; they are never part of an error.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import NamedTuple

from pyarrow import ArrowException, fs

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError

# Where TiCDC looks for an Azure account's credentials that the sink URI does not give.
_OF_AZURE = ("AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN")
# Google's library would go on for a quarter of an hour where nothing answers.
_PATIENCE = timedelta(seconds=30)
# A signed URL has its signature behind the question mark.
_PARAMETERS = re.compile(r"\?[^\s'\"]+")
# Colours of a terminal, and arrows from line to line.
_MARKS = re.compile(r"\x1b\[[0-9;]*m|↳")


class FileEntry(NamedTuple):
    """A file of a folder: its path below the prefix, its size, when it was changed (Unix ns)."""

    path: str
    size: int
    modified_ns: int


class Folder:
    """A read-only view of everything below one prefix."""

    def __init__(
        self, filesystem: fs.FileSystem, root: str, secrets: Iterable[str | None] = ()
    ) -> None:
        self._filesystem = filesystem
        self._root = root.rstrip("/")
        self._secrets = [secret for secret in secrets if secret]

    def exists(self) -> bool:
        try:
            info = self._filesystem.get_file_info(self._root or "/")
        except (OSError, ArrowException) as error:
            raise self._error(f"cannot be read: {self._said(error)}") from None
        return bool(info.type == fs.FileType.Directory)

    def paths(self) -> Iterator[str]:
        """All files, relative to the prefix, sorted, so that runs repeat; listed at first use."""
        yield from sorted(entry.path for entry in self.entries())

    def entries(self) -> Iterator[FileEntry]:
        """All files, in no order; listed at first use."""
        selector = fs.FileSelector(self._root or "/", recursive=True, allow_not_found=True)
        try:
            found = self._filesystem.get_file_info(selector)
            files = [
                (info.path, info.size or 0, info.mtime_ns or 0)
                for info in found
                if info.type == fs.FileType.File
            ]
        except (OSError, ArrowException) as error:
            raise self._error(f"cannot be listed: {self._said(error)}") from None
        except UnicodeDecodeError:
            raise self._error("has a file whose name is not UTF-8") from None
        for path, size, modified_ns in files:
            yield FileEntry(path.removeprefix(self._root).lstrip("/"), size, modified_ns)

    def read(self, path: str) -> bytes:
        """Read one file whole; raise OSError, `FileNotFoundError` if there is none."""
        return self.head(path, None)

    def head(self, path: str, size: int | None) -> bytes:
        """Read a file's first bytes, as `read` reads all of them."""
        try:
            with self._filesystem.open_input_file(f"{self._root}/{path}") as file:
                return bytes(file.read(size))
        except FileNotFoundError:
            raise FileNotFoundError("there is no such file") from None
        except (OSError, ArrowException) as error:
            raise OSError(self._said(error)) from None

    def fetch(self, name: str) -> bytes:
        """Read a claim-check object (a `protocols.payload.PayloadStore` is asked this way)."""
        return self.read(name)

    def _error(self, reason: str) -> ConfigError:
        return ConfigError(f"{self._root or '/'} {reason}", setting="sink-uri")

    def _said(self, error: Exception) -> str:
        text = describe_error(error)
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return text


def describe_error(error: Exception) -> str:
    """What went wrong with a store, on one line, without what could be a credential."""
    return _PARAMETERS.sub("?…", " ".join(_MARKS.sub(" ", str(error)).split()))


def open_sink_folder(feed: Changefeed) -> Folder:
    """The folder a storage changefeed writes to."""
    return _folder(feed.location, feed.options, "sink-uri")


def open_claim_check_folder(feed: Changefeed) -> Folder | None:
    """Where the changefeed's claim-check objects are, if it has any."""
    if feed.claim_check_storage is None:
        return None
    return _folder(feed.claim_check_storage, feed.claim_check_options, "claim-check-storage")


def _folder(location: str, options: Mapping[str, str], setting: str) -> Folder:
    scheme, _, root = location.rpartition("://")
    bucket = root.partition("/")[0]
    try:
        match scheme:
            case "s3":
                return Folder(_s3(options, bucket), root, _secrets(options))
            case "gcs":
                return Folder(_gcs(options), root, _secrets(options))
            case "azure":
                return Folder(_azure(options), root, _secrets(options))
    except ValueError as error:
        # Parameters that do not go together; the library names them and quotes no value.
        raise ConfigError(str(error), setting=setting) from None
    return Folder(fs.LocalFileSystem(), os.path.normpath(root))


def _secrets(options: Mapping[str, str]) -> list[str | None]:
    names = ("access-key", "secret-access-key", "session-token", "account-key", "sas-token")
    return [options.get(name) for name in names] + [os.environ.get(name) for name in _OF_AZURE]


def _s3(options: Mapping[str, str], bucket: str) -> fs.FileSystem:
    scheme, host = _endpoint(options)
    if "profile" in options:
        # The library takes the profile's name from nowhere else.
        os.environ.setdefault("AWS_PROFILE", options["profile"])
    # Where a server of one's own is named, AWS's machines are not asked for the region.
    region = options.get("region") or ("us-east-1" if host else _region_of(bucket))
    settings = {
        "access_key": options.get("access-key"),
        "secret_key": options.get("secret-access-key"),
        "session_token": options.get("session-token"),
        "region": region,
        "role_arn": options.get("role-arn"),
        "external_id": options.get("external-id"),
        "endpoint_override": host,
        "scheme": scheme,
        "force_virtual_addressing": _virtual_hosts(options),
    }
    return fs.S3FileSystem(**{name: value for name, value in settings.items() if value})


def _region_of(bucket: str) -> str | None:
    try:
        return str(fs.resolve_s3_region(bucket))
    except (OSError, ValueError):
        return None


def _virtual_hosts(options: Mapping[str, str]) -> bool:
    """Whether the bucket is part of the host name (AWS itself apart, where it always is)."""
    return options.get("force-path-style", "true").lower() in ("false", "0", "f") or options.get(
        "provider"
    ) in ("alibaba", "netease")


def _gcs(options: Mapping[str, str]) -> fs.FileSystem:
    scheme, host = _endpoint(options)
    if os.path.isfile(options.get("credentials-file", "")):
        # The library takes the file's name from nowhere else.
        os.environ.setdefault("GOOGLE_APPLICATION_CREDENTIALS", options["credentials-file"])
    # Without encryption it is an emulator, which asks for no credentials.
    settings = {"endpoint_override": host, "scheme": scheme, "anonymous": scheme == "http"}
    chosen = {name: value for name, value in settings.items() if value}
    return fs.GcsFileSystem(retry_time_limit=_PATIENCE, **chosen)


def _azure(options: Mapping[str, str]) -> fs.FileSystem:
    account = options.get("account-name") or os.environ.get("AZURE_STORAGE_ACCOUNT")
    if not account:
        raise ValueError("azure:// needs account-name, or AZURE_STORAGE_ACCOUNT set")
    scheme, host = _endpoint(options)
    # An endpoint names the account in its host, or (an emulator) in its path.
    blob = (host or "").partition("/")[0].removeprefix(account)
    key, sas_token = options.get("account-key"), options.get("sas-token")
    if not key and not sas_token:
        key, sas_token = (os.environ.get(name) for name in _OF_AZURE)
    settings = {
        "account_key": key,
        # The library puts it behind the account's URL as it is.
        "sas_token": sas_token and "?" + sas_token.removeprefix("?"),
        "blob_storage_authority": blob,
        "blob_storage_scheme": scheme,
        "dfs_storage_authority": blob.replace(".blob.", ".dfs."),
        "dfs_storage_scheme": scheme,
    }
    return fs.AzureFileSystem(account, **{n: v for n, v in settings.items() if v})


def _endpoint(options: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The scheme and the host of an endpoint, where one is given."""
    scheme, _, host = options.get("endpoint", "").rpartition("://")
    return scheme.lower() or None, host.rstrip("/") or None
