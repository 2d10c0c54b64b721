"""The Delta log at an address: a table whose files are those of a current table below it.

Its commits are written here and not by a library: they only name files, with deletion vectors and
whatever else the current table has, and delta-rs writes no such commit.
"""

import errno
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from ticdc_assets.store.commits import write_ts
from ticdc_assets.store.deletion_vector import move_vector
from ticdc_assets.store.delta_log import (
    DataFile,
    Protocol,
    TableState,
    identify,
    read_named_files,
    read_newest_state,
)
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.log_actions import (
    add_file,
    describe_commit,
    describe_table,
    encode_action,
    list_paths,
    remove_file,
)
from ticdc_assets.store.once import write_once
from ticdc_assets.store.open_table import open_table
from ticdc_assets.store.reader import LakeReader, open_folder
from ticdc_assets.store.tables import CHECKPOINT_INTERVAL, CHECKPOINTS

# Nobody reads old versions here: snapshots name those of the current tables.
_OWN_PROPERTIES = {**CHECKPOINTS, "delta.logRetentionDuration": "interval 7 days"}
_LOG = "_delta_log"
# Folders of what lies outside of an address begin so.
COPIES = "copies-of-"
_IN_A_FILE = "u"
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)
# The properties without which readers do not read the files.
_NEEDED = ("delta.columnMapping.", "delta.enableDeletionVectors", "delta.enableTypeWidening")
_NOTHING = TableState((), "", Protocol(0, 0), {}, "")


@dataclass(frozen=True)
class AddressCommit:
    """The next commit at an address."""

    address: str
    version: int
    # Lines of JSON.
    actions: tuple[bytes, ...]
    # Whether it leaves no rows.
    is_end: bool


class AddressLog:
    """The log at an address as it is now; there is none at a new address."""

    def __init__(self, location: Lake, address: str) -> None:
        self._location = location
        self._address = address
        found = read_newest_state(LakeReader(location), address)
        self._version, self._state = (-1, _NOTHING) if found is None else found

    @property
    def properties(self) -> Mapping[str, str]:
        return self._state.properties

    @property
    def description(self) -> str | None:
        return self._state.description

    def list_named_files(self) -> set[str]:
        """List the files that the address shows, or has shown in the last week."""
        named = read_named_files(LakeReader(self._location), self._address)
        return self._list_files() | {path for file in named for path in list_paths(file)}

    def _list_files(self) -> set[str]:
        """List the data files, and the files of deletion vectors, that are shown."""
        return {path for file in self._state.files for path in list_paths(file)}

    def prepare(
        self, table: str, state: TableState, properties: Mapping[str, str]
    ) -> AddressCommit:
        """Prepare a commit that shows a table of the lake in a state of it.

        The state has the description that the address gets.
        """
        return self._prepare(state, self._place(table, state.files), properties)

    def prepare_end(self, properties: Mapping[str, str]) -> AddressCommit | None:
        """Prepare a commit that shows no rows any more; None where nothing was published."""
        if "ticdc.table" not in self.properties:
            return None
        kept = {key: value for key, value in self.properties.items() if key.startswith("ticdc.")}
        return self._prepare(self._state, (), {**kept, **properties})

    def _prepare(
        self, state: TableState, files: Sequence[DataFile], own: Mapping[str, str]
    ) -> AddressCommit:
        known = {identify(file): file for file in self._state.files}
        wanted = {identify(file): file for file in files}
        needed = {key: value for key, value in state.properties.items() if key.startswith(_NEEDED)}
        properties = {**_OWN_PROPERTIES, **needed, **own}
        ts = write_ts(int(own["ticdc.resolved_ts"]))
        actions = [describe_commit("PUBLISH", ts)]
        if self._state.protocol != state.protocol:
            actions.append(encode_action({"protocol": state.protocol}))
        shown = replace(state, id=self._state.id, name=own["ticdc.table"], properties=properties)
        actions.append(describe_table(shown))
        actions += [remove_file(file) for id, file in known.items() if id not in wanted]
        actions += [add_file(file) for id, file in wanted.items() if id not in known]
        return AddressCommit(self._address, self._version + 1, tuple(actions), is_end=not files)

    def _place(self, table: str, files: Iterable[DataFile]) -> list[DataFile]:
        """Return the files of a table as the address names them; those elsewhere are copied there.

        Readers follow no path out of a table's folder.
        """
        folder, home = self._location.path(table), self._location.path(self._address)
        if folder.startswith(f"{home}/"):
            return [_move(file, folder.removeprefix(f"{home}/")) for file in files]
        copies = f"{COPIES}{table.rpartition('/')[2]}"
        moved = {_move(file, copies): file for file in files}
        known = self._list_files()
        for copy, file in moved.items():
            for source, target in zip(list_paths(file), list_paths(copy), strict=True):
                if target not in known:
                    _copy(self._location, f"{folder}/{source}", f"{home}/{target}")
        return [*moved]


def write_commit(location: Lake, commit: AddressCommit) -> None:
    """Write a commit, and a checkpoint from time to time."""
    path = location.path(commit.address)
    content = b"\n".join(commit.actions) + b"\n"
    with LakeReader(location).explained(path):
        write_once(location, f"{path}/{_LOG}", f"{commit.version:020}.json", content)
        if commit.version and not commit.version % CHECKPOINT_INTERVAL:
            table = open_table(path)
            table.create_checkpoint()
            table.cleanup_metadata()


def _move(file: DataFile, folder: str) -> DataFile:
    vector = file.deleted
    if vector is not None and vector.storage_type == _IN_A_FILE:
        vector = move_vector(vector, folder)
    return replace(file, path=f"{folder}/{file.path}", deleted=vector)


def _copy(location: Lake, source: str, target: str) -> None:
    """Copy a file that never changes, on disk as a second name of it."""
    root = location.path("")
    with LakeReader(location).explained(target):
        if not location.is_on_disk:
            open_folder(root).copy_file(source.removeprefix(root), target.removeprefix(root))
            return
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with suppress(FileExistsError):
            try:
                os.link(source, target)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                part = f"{target}.{secrets.token_hex(8)}.tmp"
                shutil.copyfile(source, part)
                os.replace(part, target)
