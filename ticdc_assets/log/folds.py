"""The folds of a changefeed: below the newest one, row events are gone, and their tables begin.

A fold is the choice of a snapshot.  Its rows take the place of the row events up to its ts: every
replay, and whatever is computed from events, begins with them, so the Delta versions that it names
are kept until a newer fold takes its place.  Events go after the row that states the fold, and a
run that is killed meanwhile changes nothing: what the fold covers counts as gone from then on.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

from ticdc_assets.events.tso_text import describe_ts
from ticdc_assets.log.applied_files import read_snapshot, read_snapshot_names
from ticdc_assets.log.snapshot import Snapshot, choose_valid_snapshot
from ticdc_assets.store.arrow import arrow_schema
from ticdc_assets.store.contracts import FOLDS
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader

TABLE = "folds"
# "chosen"  a snapshot that may become a fold: its Delta versions are kept until then
# "folded"  the fold counts: what it covers is gone, or goes next
# "removed" nothing of it is left in `events`
Step = Literal["chosen", "folded", "removed"]


class FoldedRows(NamedTuple):
    """The row events of a name that a fold has removed, and what of them no window had read."""

    name: str
    rows: int
    # At most so many had arrived before.
    repeated: int = 0
    # Of tables that had stopped when a load replaced them.
    superseded: int = 0

    def plus(self, other: "FoldedRows") -> "FoldedRows":
        return FoldedRows(self.name, *map(sum, zip(self[1:], other[1:], strict=True)))


@dataclass(frozen=True)
class Fold:
    """A fold, or none: then nothing is covered."""

    snapshot_id: int = 0
    ts: int = 0
    # It covers the row events up to this commit ts that came with batches up to this one.
    through_ts: int = 0
    batch: int = 0
    # What came with later batches cannot be compared with what is gone.
    applied_batch: int = 0

    def covers(self, get: Callable[[str], Any]) -> Any:
        """Whether an event is gone, or goes next; in Spark, or in Arrow."""
        is_old = (get("commit_ts") <= self.through_ts) & (get("batch") <= self.batch)
        return (get("kind") == "row") & is_old

    def is_below(self, get: Callable[[str], Any]) -> Any:
        """Whether an event is a row that arrived too late to tell it from a repetition.

        Rows that state no time of their own are applied when they arrive, however late.
        """
        is_late = (get("commit_ts") <= self.through_ts) & (get("batch") > self.applied_batch)
        return (get("kind") == "row") & (get("ordering") != "table_version") & is_late

    def describe(self) -> str:
        """Name it for people."""
        return f"the fold at {describe_ts(self.ts)}"


@dataclass(frozen=True)
class Folds:
    """What the table of folds states."""

    newest: Fold = field(default_factory=Fold)
    # Whether events that it covers may be left.
    has_leftovers: bool = False
    # The numbers of the snapshots that were chosen behind it.
    chosen: tuple[int, ...] = ()
    # By name, what all folds have removed.
    removed: Mapping[str, FoldedRows] = field(default_factory=dict)

    @property
    def kept_snapshots(self) -> list[int]:
        """The snapshots whose Delta versions have to remain."""
        return [id for id in (self.newest.snapshot_id, *self.chosen) if id]


def read_folds(reader: LakeReader) -> Folds:
    """Read the folds of a lake; most lakes have none."""
    opened = reader.find(TABLE)
    if opened is None:
        return Folds()
    rows = reader.read(opened, arrow_schema(FOLDS).names).sort_by("id").to_pylist()
    newest, has_leftovers = Fold(), False
    chosen: list[int] = []
    removed: dict[str, FoldedRows] = {}
    for row in rows:
        if row["step"] == "chosen":
            chosen.append(row["snapshot_id"])
            continue
        has_leftovers = row["step"] == "folded"
        newest = Fold(*(row[name] for name in Fold.__dataclass_fields__))
        for count in row["counts"] or ():
            each = FoldedRows(**count)
            removed[each.name] = removed[each.name].plus(each) if each.name in removed else each
    behind = tuple(id for id in chosen if id > newest.snapshot_id)
    return Folds(newest, has_leftovers, behind, removed)


def read_fold(reader: LakeReader) -> Fold:
    """Read the newest fold."""
    return read_folds(reader).newest


def read_first_snapshot(reader: LakeReader) -> Snapshot:
    """Read the snapshot from which everything can be computed: the fold's, or the empty lake."""
    return read_snapshot(reader, read_fold(reader).snapshot_id)


def find_valid_snapshot(lake: LakeSession, snapshot_id: int, ts: int | None = None) -> int:
    """Return the newest valid snapshot at or before `snapshot_id` and below `ts`.

    If none is, it is the first one: 0, or that of the fold, below which nothing is known.
    """
    reader = LakeReader(lake.location)
    found = choose_valid_snapshot(read_snapshot_names(reader), snapshot_id, ts)
    return max(found, read_fold(reader).snapshot_id)


def make_counts(sums: Mapping[str, Sequence[int]]) -> list[FoldedRows]:
    """Return counts of row events by name, in order."""
    return [FoldedRows(name, *sums[name]) for name in sorted(sums)]


def new_sums() -> defaultdict[str, list[int]]:
    """Return sums for `make_counts`: rows, repeated and superseded."""
    return defaultdict(partial(list, (0, 0, 0)))
