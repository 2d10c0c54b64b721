"""What pending rows weigh: one with long images counts as several.

The footer of a data file of `events` has the bytes of the images in each row group, whose names of
tables are in order, so nothing else is read.  Bytes of Parquet do not tell: a long text may take
none.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import pyarrow.parquet as pq
from pyarrow import fs

from ticdc_assets.lake.apply.pending_rows import EventFiles
from ticdc_assets.store.file_blocks import open_parquet
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader, do_each_file, naming

# A row counts as one for every so many bytes of its images.
BYTES_PER_ROW = 1 << 10
_IMAGES = ("before", "after")
_NAME = "name"


class _Group(NamedTuple):
    """A row group: the least and the greatest name in it, its rows, and the bytes of images."""

    names: tuple[str, str] | None
    rows: int
    size: int

    @property
    def is_heavy(self) -> bool:
        return self.size > self.rows * BYTES_PER_ROW

    def may_have(self, names: Collection[str]) -> bool:
        if self.names is None:
            return True
        least, greatest = self.names
        return any(least <= name <= greatest for name in names)


@dataclass(frozen=True)
class EventWeights:
    """The weights of the rows in files of `events`."""

    total: int
    heavy: tuple[_Group, ...]

    def weigh(self, names: Collection[str], events: int) -> int:
        """Return at most what the events of some tables weigh, by their names in `events`."""
        size = sum(group.size for group in self.heavy if group.may_have(names))
        return max(events, size // BYTES_PER_ROW)


def weigh_events(location: Lake, files: EventFiles) -> EventWeights:
    """Weigh the rows of files of `events`."""
    reader = LakeReader(location)
    if not files.paths:
        return EventWeights(0, ())
    folder = reader.open_folder("events")
    with reader.explained(location.path("events")):
        found = do_each_file(folder, files.paths, partial(_measure, folder))
        groups = [group for each in found for group in each]
    total = sum(max(group.rows, group.size // BYTES_PER_ROW) for group in groups)
    return EventWeights(total, tuple(group for group in groups if group.is_heavy))


def _measure(folder: fs.FileSystem, path: str) -> list[_Group]:
    with naming(path), folder.open_input_file(path) as file:
        return [*_list_groups(open_parquet(file).metadata)]


def _list_groups(footer: pq.FileMetaData) -> Iterator[_Group]:
    places = {footer.schema.column(n).path: n for n in range(footer.num_columns)}
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        images = (group.column(places[name]) for name in _IMAGES if name in places)
        stated = group.column(places[_NAME]).statistics
        names = (stated.min, stated.max) if stated is not None and stated.has_min_max else None
        yield _Group(names, group.num_rows, sum(each.total_uncompressed_size for each in images))
