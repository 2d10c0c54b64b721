"""Read storage-sink folders and claim-check storages on local disk, S3, GCS or Azure.

All are read through `pyarrow.fs`.  Credentials come from the sink URI, as TiCDC takes them, or from
the environment.  They go to one folder's own client and never into the environment, which other
changefeeds of the process share; no error contains them.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from pyarrow import ArrowException, NativeFile, fs

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError, MalformedMessage
from ticdc_assets.events import FilePosition, Quarantined
from ticdc_assets.resources.credentials import fetch_google_token, read_aws_profile
from ticdc_assets.resources.local_files import (
    FileEntry,
    list_directory,
    list_files,
    open_file,
    read_file,
)
from ticdc_assets.safe_text import describe_error

# Where TiCDC looks for an Azure account's credentials if the sink URI has none.
_AZURE_VARIABLES = ("AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN")
# Google's library retries for 15 minutes by default.
_GCS_RETRY_LIMIT = timedelta(seconds=30)


# Tokens that a folder's credentials were exchanged for last an hour.
_REOPEN_AFTER = 1800.0


class Folder:
    """A read-only view of all files below one prefix.

    `reopen` opens the file system anew after half an hour, with new tokens; `setting` names the
    folder for people.
    """

    def __init__(
        self,
        filesystem: fs.FileSystem,
        root: str,
        reopen: Callable[[], fs.FileSystem] | None = None,
        setting: str = "sink-uri",
    ) -> None:
        self._opened = filesystem
        self._opened_at = time.monotonic()
        self._reopen = reopen
        self._root = root.rstrip("/")
        self._setting = setting

    @property
    def _filesystem(self) -> fs.FileSystem:
        if self._reopen is not None and time.monotonic() - self._opened_at > _REOPEN_AFTER:
            try:
                self._opened = self._reopen()
            except ValueError as error:
                raise OSError(str(error)) from None
            self._opened_at = time.monotonic()
        return self._opened

    def exists(self) -> bool:
        try:
            info = self._filesystem.get_file_info(self._root or "/")
        except (OSError, ArrowException) as error:
            raise self._error(f"cannot be read: {describe_error(error)}") from None
        return bool(info.type == fs.FileType.Directory)

    def paths(self) -> Iterator[str]:
        """Yield the paths of all files below the prefix, sorted so that runs are repeatable.

        The listing happens at first use.
        """
        yield from sorted(entry.path for entry in self.entries() if entry.problem is None)

    def quarantined(self) -> Iterator[Quarantined]:
        """Yield an event for each entry below the prefix that is not read."""
        problems = ((entry.path, entry.problem) for entry in self.entries() if entry.problem)
        for path, problem in sorted(problems):
            yield Quarantined.from_error(MalformedMessage(problem), FilePosition(path))

    def entries(self) -> Iterator[FileEntry]:
        """Yield all files in no order; the listing happens at first use."""
        if isinstance(self._opened, fs.LocalFileSystem):
            try:
                yield from list_files(self._root)
            except OSError as error:
                raise self._error(f"cannot be listed: {describe_error(error)}") from None
            return
        selector = fs.FileSelector(self._root or "/", recursive=True, allow_not_found=True)
        try:
            files = [
                (info.path, info.size or 0, info.mtime_ns or 0)
                for info in self._filesystem.get_file_info(selector)
                if info.type == fs.FileType.File
            ]
        except (OSError, ArrowException) as error:
            raise self._error(f"cannot be listed: {describe_error(error)}") from None
        for path, size, modified_ns in files:
            yield FileEntry(self._relative(path), size, modified_ns)

    def read(self, path: str) -> bytes:
        """Read a whole file; raise `FileNotFoundError` or another `OSError`."""
        return self.head(path, None)

    def head(self, path: str, size: int | None) -> bytes:
        """Read a file's first `size` bytes; raise as `read` does."""
        try:
            if isinstance(self._filesystem, fs.LocalFileSystem):
                return read_file(f"{self._root}/{path}", size)
            with self._filesystem.open_input_file(f"{self._root}/{path}") as file:
                return bytes(file.read(size))
        except FileNotFoundError:
            raise FileNotFoundError("the file does not exist") from None
        except (OSError, ArrowException) as error:
            raise OSError(describe_error(error)) from None

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO | NativeFile]:
        """Open a file for reading piece by piece; raise as `read` does, also while it is open."""
        try:
            if isinstance(self._filesystem, fs.LocalFileSystem):
                with open_file(f"{self._root}/{path}") as local:
                    yield local
            else:
                with self._filesystem.open_input_file(f"{self._root}/{path}") as file:
                    yield file
        except FileNotFoundError:
            raise FileNotFoundError("the file does not exist") from None
        except (OSError, ArrowException) as error:
            raise OSError(describe_error(error)) from None

    def list_directory(self, directory: str = "") -> tuple[list[str], list[FileEntry]]:
        """Return the directories and files directly in a directory, by their paths.

        Their number does not grow with that of all files.
        """
        try:
            if isinstance(self._opened, fs.LocalFileSystem):
                return list_directory(self._root, directory)
            place = "/".join(filter(None, (self._root, directory)))
            selector = fs.FileSelector(place or "/", allow_not_found=True)
            found = self._filesystem.get_file_info(selector)
        except (OSError, ArrowException) as error:
            raise self._error(f"cannot be listed: {describe_error(error)}") from None
        directories = [self._relative(i.path) for i in found if i.type == fs.FileType.Directory]
        return directories, [
            FileEntry(self._relative(info.path), info.size or 0, info.mtime_ns or 0)
            for info in found
            if info.type == fs.FileType.File
        ]

    def _relative(self, path: str) -> str:
        return path.removeprefix(self._root).lstrip("/")

    def modified_at(self, path: str) -> datetime | None:
        """Return when a file was last written; None if there is none, or the store does not say."""
        try:
            modified: datetime | None = self._filesystem.get_file_info(f"{self._root}/{path}").mtime
        except (OSError, ArrowException) as error:
            raise self._error(f"cannot be read: {describe_error(error)}") from None
        return modified

    def fetch(self, name: str) -> bytes:
        """Read a claim-check object: this makes a folder a `protocols.payload.PayloadStore`."""
        return self.read(name)

    def _error(self, reason: str) -> ConfigError:
        return ConfigError(f"{self._root or '/'} {reason}", setting=self._setting)


def open_sink_folder(feed: Changefeed) -> Folder:
    """Open the folder a storage changefeed writes to."""
    return _open_folder(feed.location, feed.options, "sink-uri")


def open_claim_check_folder(feed: Changefeed) -> Folder | None:
    """Open the storage of a changefeed's claim-check objects; None if it has none."""
    if feed.claim_check_storage is None:
        return None
    return _open_folder(feed.claim_check_storage, feed.claim_check_options, "claim-check-storage")


def open_export_folder(location: str, options: Mapping[str, str]) -> Folder:
    """Open the folder that an export of Dumpling's lies in."""
    return _open_folder(location, options, "DIR")


def _open_folder(location: str, options: Mapping[str, str], setting: str) -> Folder:
    scheme, _, root = location.rpartition("://")
    match scheme:
        case "s3":
            opens = partial(_open_s3, options, root.partition("/")[0])
        case "gcs":
            opens = partial(_open_gcs, options)
        case "azure":
            opens = partial(_open_azure, options)
        case _:
            return Folder(fs.LocalFileSystem(), os.path.normpath(root), setting=setting)
    try:
        return Folder(opens(), root, opens, setting)
    except ValueError as error:
        # Contradictory parameters: the library names them and quotes no value.
        raise ConfigError(str(error), setting=setting) from None


def _open_s3(options: Mapping[str, str], bucket: str) -> fs.FileSystem:
    scheme, host = _split_endpoint(options)
    # With a custom endpoint, do not query AWS for the bucket's region.
    region = options.get("region") or ("us-east-1" if host else _find_region(bucket))
    settings = {
        **_choose_s3_credentials(options),
        "region": region,
        "endpoint_override": host,
        "scheme": scheme,
        "force_virtual_addressing": _uses_virtual_hosts(options),
    }
    return fs.S3FileSystem(**{name: value for name, value in settings.items() if value})


def _choose_s3_credentials(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the credentials that a sink URI holds or names; without any, pyarrow searches."""
    if "profile" in options and "access-key" not in options:
        return read_aws_profile(options)._asdict()
    return {
        "access_key": options.get("access-key"),
        "secret_key": options.get("secret-access-key"),
        "session_token": options.get("session-token"),
        "role_arn": options.get("role-arn"),
        "external_id": options.get("external-id"),
    }


def _find_region(bucket: str) -> str | None:
    try:
        return str(fs.resolve_s3_region(bucket))
    except (OSError, ValueError):
        return None


def _uses_virtual_hosts(options: Mapping[str, str]) -> bool:
    """Return whether the host name contains the bucket; on AWS itself it always does."""
    return options.get("force-path-style", "true").lower() in ("false", "0", "f") or options.get(
        "provider"
    ) in ("alibaba", "netease")


def _open_gcs(options: Mapping[str, str]) -> fs.FileSystem:
    scheme, host = _split_endpoint(options)
    settings: dict[str, Any] = {"endpoint_override": host, "scheme": scheme}
    if "credentials-file" in options:
        token = fetch_google_token(Path(options["credentials-file"]))
        settings |= {
            "access_token": token.text,
            "credential_token_expiration": token.expires_at,
        }
    elif scheme == "http":
        # An endpoint without encryption is an emulator, which needs no credentials.
        settings["anonymous"] = True
    stated = {name: value for name, value in settings.items() if value}
    return fs.GcsFileSystem(retry_time_limit=_GCS_RETRY_LIMIT, **stated)


def _open_azure(options: Mapping[str, str]) -> fs.FileSystem:
    account = options.get("account-name") or os.environ.get("AZURE_STORAGE_ACCOUNT")
    if not account:
        raise ValueError("azure:// needs account-name, or AZURE_STORAGE_ACCOUNT set")
    scheme, host = _split_endpoint(options)
    # An endpoint names the account in its host, or, for an emulator, in its path.
    blob = (host or "").partition("/")[0].removeprefix(account)
    key, sas_token = options.get("account-key"), options.get("sas-token")
    # The environment's credentials are those of the environment's account.
    if not key and not sas_token and account == os.environ.get("AZURE_STORAGE_ACCOUNT", account):
        key, sas_token = (os.environ.get(name) for name in _AZURE_VARIABLES)
    settings = {
        "account_key": key,
        # pyarrow appends it verbatim to the account's URL.
        "sas_token": sas_token and "?" + sas_token.removeprefix("?"),
        "blob_storage_authority": blob,
        "blob_storage_scheme": scheme,
        "dfs_storage_authority": blob.replace(".blob.", ".dfs."),
        "dfs_storage_scheme": scheme,
    }
    return fs.AzureFileSystem(account, **{n: v for n, v in settings.items() if v})


def _split_endpoint(options: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Split the endpoint, if there is one, into its scheme and its host."""
    scheme, _, host = options.get("endpoint", "").rpartition("://")
    return scheme.lower() or None, host.rstrip("/") or None
