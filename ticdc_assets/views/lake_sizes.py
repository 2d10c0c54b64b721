"""How many files and bytes a changefeed's lake has, by layer and by table: for monitoring.

Delta logs state them, and no data is read.  Each table has a log of its own, so what was measured
is kept: a table whose snapshot names the same Delta version is not measured again.  What remains is
measured for a limited time, and whatever is left over the next time.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from pyarrow import fs

from ticdc_assets.errors import ConfigError
from ticdc_assets.log.applied_files import find_newest_id, read_rows
from ticdc_assets.log.applied_row import STATE_INTERVAL, collect_versions
from ticdc_assets.store.delta_log import TableState, read_newest_state, read_state
from ticdc_assets.store.reader import LakeNotFound, LakeReader

# The lake's own tables, by layer; `current`, `history` and `changes` have one per table upstream.
OWN_TABLES = {
    "raw": ("raw",),
    "events": ("events",),
    "quarantine": ("quarantine",),
    "log": (
        *("applied", "tables", "schema_history", "loads", "definitions", "erasures", "folds"),
        *("verifications", "differences", "verification_progress", "copy_progress"),
    ),
}
_FOLLOWERS = ("history", "changes")
LAYERS = (*OWN_TABLES, "current", *_FOLLOWERS)
# They follow their current table later, by a version that no snapshot names.
_FOLLOWER_SECONDS = 600.0
_AT_ONCE = 8


class Size(NamedTuple):
    """What the newest version of some tables consists of."""

    files: int = 0
    bytes: int = 0
    rows: int = 0

    def plus(self, other: "Size") -> "Size":
        return Size(*map(sum, zip(self, other, strict=True)))


@dataclass(frozen=True)
class LakeSizes:
    """The sizes of a lake; `layers` has those that exist."""

    layers: Mapping[str, Size]
    # Of the tables that are not dropped, by database and name.
    tables: Mapping[tuple[str, str], Size]
    # How many Delta tables there are one per table upstream, and how many have been measured.
    known: int = 0
    measured: int = 0


class _Place(NamedTuple):
    """A Delta table of a table upstream, by its layer."""

    layer: str
    incarnation: str

    @property
    def table(self) -> str:
        return f"{self.layer}/{self.incarnation}"


class _Measured(NamedTuple):
    """A table's size at the version of its current table, and when it was measured."""

    version: int
    moment: float
    size: Size

    def holds(self, place: _Place, version: int) -> bool:
        is_new = place.layer == "current" or time.monotonic() - self.moment < _FOLLOWER_SECONDS
        return self.version == version and is_new


class LakeMeasurer:
    """Measures one changefeed's lake, again and again."""

    def __init__(self, reader: LakeReader) -> None:
        self._reader = reader
        self._measured: dict[_Place, _Measured] = {}

    def measure(self, seconds: float) -> LakeSizes:
        """Measure the lake; begin no table after some seconds.

        Raise a `ConfigError` if it cannot be read.
        """
        deadline = time.monotonic() + seconds
        try:
            versions = self._read_versions()
        except LakeNotFound:
            return LakeSizes({}, {})
        places = list(self._list_places(versions))
        self._measure_tables(places, versions, deadline)
        # Tables that are gone are forgotten.
        known = {place: found for place in places if (found := self._measured.get(place))}
        self._measured = known
        layers: dict[str, Size] = defaultdict(Size)
        for layer, tables in OWN_TABLES.items():
            for size in filter(None, map(self._measure_own, tables)):
                layers[layer] = layers[layer].plus(size)
        for place, found in known.items():
            layers[place.layer] = layers[place.layer].plus(found.size)
        return LakeSizes(layers, self._name(known), len(places), len(known))

    def _read_versions(self) -> dict[str, int]:
        applied = self._reader.open("applied")
        newest = find_newest_id(self._reader, applied)
        rows = read_rows(self._reader, applied, newest - STATE_INTERVAL)
        return collect_versions(rows, rows[-1]) if rows else {}

    def _list_places(self, versions: Mapping[str, int]) -> Iterator[_Place]:
        yield from (_Place("current", id) for id in versions)
        for layer in _FOLLOWERS:
            folder = self._reader.open_folder(layer)
            with self._reader.explained(self._reader.location.path(layer)):
                found = folder.get_file_info(fs.FileSelector("", allow_not_found=True))
            names = {info.base_name for info in found if info.type == fs.FileType.Directory}
            yield from (_Place(layer, id) for id in versions if id in names)

    def _measure_tables(
        self, places: list[_Place], versions: Mapping[str, int], deadline: float
    ) -> None:
        def measure(place: _Place) -> None:
            version = versions[place.incarnation]
            known = self._measured.get(place)
            if known is not None and known.holds(place, version):
                return
            if time.monotonic() < deadline:
                size = self._measure_one(place, version)
                if size is not None:
                    self._measured[place] = _Measured(version, time.monotonic(), size)

        # Those that were never measured come first, so that in the end each one has been.
        places = sorted(places, key=lambda place: place in self._measured)
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(measure, places))

    def _measure_one(self, place: _Place, version: int) -> Size | None:
        try:
            if place.layer == "current":
                return _sum(read_state(self._reader, place.table, version))
            newest = read_newest_state(self._reader, place.table)
            return None if newest is None else _sum(newest[1])
        except ConfigError:
            # A run may be writing it, or `maintain` has removed that version just now.
            return None

    def _measure_own(self, table: str) -> Size | None:
        try:
            files = self._reader.list_files(self._reader.open(table))
        except LakeNotFound:
            return None
        return Size(files.actions.num_rows, files.size, files.rows)

    def _name(self, known: Mapping[_Place, _Measured]) -> dict[tuple[str, str], Size]:
        """Return the sizes of current tables by name; dropped ones may share theirs."""
        columns = ["incarnation", "database", "table", "status"]
        rows = self._reader.read(self._reader.open("tables"), columns).to_pylist()
        return {
            (row["database"], row["table"]): found.size
            for row in rows
            if row["status"] != "dropped"
            and (found := known.get(_Place("current", row["incarnation"])))
        }


def _sum(state: TableState) -> Size:
    rows = (file.live_rows or 0 for file in state.files)
    return Size(len(state.files), sum(file.size for file in state.files), sum(rows))
