"""Where the lease of a lake in an object store is: a folder with one small Delta table per claim.

A claim is the first commit of a table.  delta-rs writes a commit only if there is none of its
version, on every store, so of two runs that claim a number one succeeds.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa
from deltalake import CommitProperties, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import create_table_with_add_actions
from pyarrow import fs

from ticdc_assets.errors import ConfigError
from ticdc_assets.safe_text import describe_error
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.lease import Look
from ticdc_assets.store.reader import (
    LakeReader,
    choose_storage_options,
    format_uri,
    open_table,
    write_content,
)

FOLDER = "run.lease"
_WANTED, _NOTE, _RENEWED, _RELEASED = "wanted", "note", "renewed", "released"
_FILE = re.compile(r"(\d{1,18})/(.+)")
_COLUMNS = Schema.from_arrow(pa.schema([("claim", pa.int64())]))
# Or else a claim would be added to the one that is there.
_ONLY_COMMIT = CommitProperties(max_commit_retries=0)
_EXISTS = "already exists"


@dataclass
class LeaseFolder:
    """The claims of a lake's runs."""

    lake: Lake
    # The text that names the run that claims.
    holder: str
    _folder: fs.FileSystem = field(init=False)
    _files: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._folder = LakeReader(self.lake).open_folder(FOLDER)

    def look(self) -> Look:
        with self._reader.explained(self._path):
            found = self._folder.get_file_info(
                fs.FileSelector("", recursive=True, allow_not_found=True)
            )
        files = {e.path: e.mtime_ns / 1e9 for e in found if e.type is fs.FileType.File}
        self._files = list(files)
        return read_look(files)

    def claim(self, number: int) -> bool:
        path = self._locate(number)
        with self._reader.explained(path):
            try:
                create_table_with_add_actions(
                    format_uri(path),
                    _COLUMNS,
                    [],
                    description=self.holder,
                    storage_options=choose_storage_options(path),
                    commit_properties=_ONLY_COMMIT,
                )
            except CommitFailedError:
                return False
            except DeltaError as error:
                if _EXISTS not in str(error):
                    raise
                return False
        return True

    def renew(self, number: int) -> None:
        self._write(f"{number}/{_RENEWED}")

    def release(self, number: int) -> None:
        self._write(f"{number}/{_RELEASED}")

    def note(self, *, is_waiting: bool) -> None:
        self._write(_WANTED if is_waiting else _NOTE)

    def remove_before(self, number: int) -> None:
        for path in self._files:
            file = _FILE.fullmatch(path)
            if file is None or int(file[1]) < number:
                # Someone else may remove it, too.
                with self._reader.explained(self._path), suppress(FileNotFoundError):
                    self._folder.delete_file(path)

    def read_holder(self) -> str:
        """Read what names the run that has the newest claim."""
        path = self._locate(self.look().number)
        with self._reader.explained(path):
            return open_table(path).metadata().description or ""

    @property
    def _reader(self) -> LakeReader:
        return LakeReader(self.lake)

    @property
    def _path(self) -> str:
        return self.lake.path(FOLDER)

    def _locate(self, number: int) -> str:
        return f"{self._path}/{number}"

    def _write(self, path: str) -> None:
        try:
            write_content(self._folder, path, b"\n")
        except (OSError, DeltaError) as error:
            reason = f"cannot be written: {describe_error(error)}"
            raise ConfigError(reason, file=f"{self._path}/{path}", setting="--lake") from None


def read_look(files: Mapping[str, float]) -> Look:
    """Read what files say by their names and the times at which they were written."""
    claims = {path: int(file[1]) for path in files if (file := _FILE.fullmatch(path))}
    number = max(claims.values(), default=0)
    return Look(
        number,
        is_released=f"{number}/{_RELEASED}" in files,
        renewed_at=max((files[path] for path, n in claims.items() if n == number), default=0.0),
        wanted_at=files.get(_WANTED),
        now=max(files.values(), default=0.0),
    )
