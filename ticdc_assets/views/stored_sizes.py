"""How much storage each layer takes, and how much of it maintenance would free now.

All files of the changefeed's folder are listed once, and the log of each table is read: that is for
people who want to know, and takes longer than what monitoring reads (`lake_sizes`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ticdc_assets.lake.retention import Retention
from ticdc_assets.log.applied_files import read_existing_snapshot
from ticdc_assets.store.lake import find_folder
from ticdc_assets.store.log_files import LOG_FOLDER
from ticdc_assets.store.old_files import StoredFile, list_stored_files
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.lake_sizes import LAYERS, OWN_TABLES

# The logs at addresses, and copies of files there; what is no Delta table.
_ADDRESSES, _OTHER = "addresses", "other"
_LAYER_OF = {table: layer for layer, tables in OWN_TABLES.items() for table in tables}
_AT_ONCE = 8


class StoredSize(NamedTuple):
    """Of a layer: the data files of the newest versions, all bytes, and those of old files."""

    files: int = 0
    bytes: int = 0
    stored_bytes: int = 0
    removable_bytes: int = 0

    def plus(self, other: "StoredSize") -> "StoredSize":
        return StoredSize(*map(sum, zip(self, other, strict=True)))


def measure_stored(reader: LakeReader, days: float) -> dict[str, StoredSize]:
    """Measure the layers that exist; what is old is as of maintenance that keeps some days."""
    retention = Retention(reader, days)
    versions = read_existing_snapshot(reader).versions
    named = {find_folder(f"current/{id}"): f"current/{id}" for id in versions}
    folders = _group_by_table(list_stored_files(reader, ""))

    def measure(folder: str) -> tuple[str, StoredSize]:
        files = folders[folder]
        stored = sum(file.size for file in files)
        layer = _find_layer(folder, named)
        if layer in (_ADDRESSES, _OTHER):
            return layer, StoredSize(stored_bytes=stored)
        old = retention.find(named.get(folder, folder), files)
        newest = () if old.newest is None else old.newest.files
        size = sum(file.size for file in newest)
        return layer, StoredSize(len(newest), size, stored, old.size)

    sizes: dict[str, StoredSize] = defaultdict(StoredSize)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for layer, size in threads.map(measure, folders):
            sizes[layer] = sizes[layer].plus(size)
    return {name: sizes[name] for name in (*LAYERS, _ADDRESSES, _OTHER) if name in sizes}


def _group_by_table(files: Iterable[StoredFile]) -> dict[str, list[StoredFile]]:
    """Group files by the folder of their Delta table; "" has those of none."""
    files = list(files)
    tables = {
        file.path.partition(f"/{LOG_FOLDER}/")[0]
        for file in files
        if f"/{LOG_FOLDER}/" in file.path
    }
    grouped: dict[str, list[StoredFile]] = defaultdict(list)
    for file in files:
        # The tables that had a name are below its address, which is a table, too.
        folder = file.path.rpartition("/")[0]
        while folder and folder not in tables:
            folder = folder.rpartition("/")[0]
        path = file.path.removeprefix(f"{folder}/") if folder else file.path
        grouped[folder].append(file._replace(path=path))
    return grouped


def _find_layer(folder: str, named: Mapping[str, str]) -> str:
    top = folder.partition("/")[0]
    if folder == "current" or top not in (*_LAYER_OF, *LAYERS):
        return _OTHER
    is_address = top == "current" and folder.count("/") == 1 and folder not in named
    return _ADDRESSES if is_address else _LAYER_OF.get(top, top)
