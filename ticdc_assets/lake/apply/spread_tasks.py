"""Spread the events of large tables over their parts, before the tasks of these.

The spread events are in files of the table's folder that no commit names: the driver removes them
behind the work, and `maintain` those that a killed run left.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa

from ticdc_assets.lake.apply.pending_rows import (
    PLACED,
    PendingRows,
    name_events,
    select_segment,
)
from ticdc_assets.plan.steps import ApplyRows, TableWork
from ticdc_assets.rows.parts import HOME, Part
from ticdc_assets.rows.spreading import spread_events
from ticdc_assets.store.data_files import read_passing, write_passing
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader

_SPREAD = PLACED.append(pa.field(HOME, pa.bool_()))
# What a task holds of spread events.
_MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class SpreadTask:
    """Spread the rows of one table in some data files of `events` over `count` parts."""

    work: TableWork
    files: tuple[str, ...]
    count: int


class SpreadFile(msgspec.Struct, frozen=True):
    """A file in a table's folder: its path there, and how many events it has."""

    path: str
    rows: int


class SpreadDone(msgspec.Struct, frozen=True):
    """The files of each part."""

    id: str
    files: list[list[SpreadFile]]


def do_spread(location: Lake, pending: PendingRows, task: SpreadTask) -> SpreadDone:
    """Spread the events in some files."""
    pending = replace(pending, files=replace(pending.files, paths=task.files), held=None)
    steps = [step for step in task.work.steps if isinstance(step, ApplyRows)]
    by_name: dict[str, list[ApplyRows]] = {}
    for step in steps:
        by_name.setdefault(name_events(step), []).append(step)
    spread = _Spread(location, task)
    for name, of_name in by_name.items():
        for block in pending.read_blocks([name]):
            for step in of_name:
                events = select_segment(block, step.low, step.high)
                spread.add(spread_events(events, step, task.count))
    return spread.finish()


class _Spread:
    """The events of each part, in memory up to a size and then in files."""

    def __init__(self, location: Lake, task: SpreadTask) -> None:
        self._location = location
        self._id = task.work.incarnation
        self._held: list[list[pa.Table]] = [[] for _ in range(task.count)]
        self._size = 0
        self._files: list[list[SpreadFile]] = [[] for _ in range(task.count)]

    def add(self, parts: Sequence[pa.Table]) -> None:
        for held, part in zip(self._held, parts, strict=True):
            if part.num_rows:
                held.append(part.select(_SPREAD.names).cast(_SPREAD))
                self._size += part.nbytes
        if self._size >= _MOST_BYTES:
            self._write()

    def finish(self) -> SpreadDone:
        self._write()
        return SpreadDone(self._id, self._files)

    def _write(self) -> None:
        for number, held in enumerate(self._held):
            if held:
                events = pa.concat_tables(held)
                name = write_passing(self._location, f"current/{self._id}", events)
                self._files[number].append(SpreadFile(name, events.num_rows))
        self._held = [[] for _ in self._held]
        self._size = 0


def read_spread(location: Lake, id: str, files: Sequence[SpreadFile]) -> pa.Table:
    """Read the events in some files of one part of a table."""
    reader = LakeReader(location)
    folder = reader.open_folder(f"current/{id}")
    with reader.explained(location.path(f"current/{id}")):
        read = [read_passing(folder, file.path) for file in files]
    return pa.concat_tables([_SPREAD.empty_table(), *read])


def read_part(pending: PendingRows, part: Part, step: ApplyRows) -> Iterator[pa.Table]:
    """Read the events of a segment that concern a part, block by block; write nothing."""
    for block in pending.read_blocks([name_events(step)]):
        events = select_segment(block, step.low, step.high)
        yield spread_events(events, step, part.count)[part.number]


def remove_spread(location: Lake, done: Sequence[SpreadDone]) -> None:
    """Remove spread events; what cannot be removed now is left to `maintain`."""
    reader = LakeReader(location)
    for each in done:
        folder = reader.open_folder(f"current/{each.id}")
        for file in (file for part in each.files for file in part):
            with suppress(OSError):
                folder.delete_file(file.path)
