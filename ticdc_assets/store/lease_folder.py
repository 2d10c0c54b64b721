"""Where the lease of a lake in an object store is: a folder with one small Delta table per claim.

A claim is the first commit of a table.  delta-rs writes a commit only if there is none of its
version, on every store, so of two runs that claim a number one succeeds.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pyarrow as pa
from deltalake import Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import create_table_with_add_actions
from pyarrow import fs

from ticdc_assets.errors import ConfigError
from ticdc_assets.safe_text import describe_error
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.lease import Look
from ticdc_assets.store.open_table import open_table
from ticdc_assets.store.reader import LakeReader, write_content
from ticdc_assets.store.uris import choose_storage_options, format_uri
from ticdc_assets.store.writer import NO_RETRY

FOLDER = "run.lease"
_WANTED, _NOTE, _RENEWED, _RELEASED = "wanted", "note", "renewed", "released"
_NUMBER = re.compile(r"[1-9]\d{0,17}")
_COLUMNS = Schema.from_arrow(pa.schema([("claim", pa.int64())]))
_EXISTS = "already exists"
# Some stores keep folders without files: they must not cost requests for ever.
_MOST_REMOVED = 8


@dataclass
class LeaseFolder:
    """The claims of a lake's runs."""

    lake: Lake
    # The text that names the run that claims.
    holder: str
    _folder: fs.FileSystem = field(init=False)
    # What `find_newest` saw last, beside the newest claim.
    _older: list[int] = field(init=False, default_factory=list)
    _notes: dict[str, float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._folder = LakeReader(self.lake).open_folder(FOLDER)

    def find_newest(self) -> int:
        # This is one request, and the newest claim is never removed.
        files = self._list("")
        self._older = sorted(int(path) for path in files if _NUMBER.fullmatch(path))
        newest = self._older.pop() if self._older else 0
        self._notes = {path: files[path] for path in (_WANTED, _NOTE) if path in files}
        return newest

    def look(self) -> Look:
        newest = self.find_newest()
        files = self._list(f"{newest}", recursive=True) if newest else {}
        return read_look(newest, self._notes, files)

    def _list(self, folder: str, *, recursive: bool = False) -> dict[str, float]:
        """List what is in a folder, with the times at which files were written."""
        selected = fs.FileSelector(folder, recursive=recursive, allow_not_found=True)
        with self._reader.explained(self._path):
            found = self._folder.get_file_info(selected)
        return {each.path: (each.mtime_ns or 0) / 1e9 for each in found}

    def claim(self, number: int) -> bool:
        path = self._locate(number)
        with self._written(path):
            try:
                create_table_with_add_actions(
                    format_uri(path),
                    _COLUMNS,
                    [],
                    description=self.holder,
                    storage_options=choose_storage_options(path),
                    # Or else a claim would be added to the one that is there.
                    commit_properties=NO_RETRY,
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
        # Someone else may remove them, too.
        with self._reader.explained(self._path), suppress(FileNotFoundError):
            for path in self._notes:
                self._folder.delete_file(path)
            for older in self._older[-_MOST_REMOVED:]:
                if older < number:
                    self._folder.delete_dir(f"{older}")

    def read_holder(self) -> str:
        """Read what names the run that has the newest claim."""
        path = self._locate(self.find_newest())
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
        with self._written(f"{self._path}/{path}"):
            write_content(self._folder, path, b"\n")

    @contextmanager
    def _written(self, path: str) -> Iterator[None]:
        try:
            yield
        except (OSError, DeltaError) as error:
            reason = f"cannot be written: {describe_error(error)}"
            raise ConfigError(reason, file=path, setting="--lake") from None


def read_look(number: int, notes: Mapping[str, float], files: Mapping[str, float]) -> Look:
    """Read what notes, and the files of the newest claim, say by when they were written."""
    return Look(
        number,
        is_released=f"{number}/{_RELEASED}" in files,
        renewed_at=max(files.values(), default=0.0),
        wanted_at=notes.get(_WANTED),
        now=max([*notes.values(), *files.values()], default=0.0),
    )
