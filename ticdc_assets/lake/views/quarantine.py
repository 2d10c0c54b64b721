"""What is in the quarantine, by what is wrong with it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.events import Position
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.lake.events.event_rows import read_position
from ticdc_assets.lake.log.snapshot import Snapshot
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.stream.problem import Problem

_IDENTITY = ("stage", "database", "table", "reason")
# Of the first input.
_FIRST = ("seq", "index", "commit_ts", "source", "partition", "number")
_WITH_NULLS = pc.ScalarAggregateOptions(skip_nulls=False)


@dataclass(frozen=True)
class Fault:
    """How much input, or how many rows of a table, is quarantined for one reason; the first."""

    stage: str
    database: str | None
    table: str | None
    reason: str
    count: int
    # Input and event; rows of loads have none.
    place: tuple[int, int]
    commit_ts: int | None
    position: Position

    def as_problem(self) -> Problem:
        """Return the problem of which an operator reads."""
        more = f" (and {self.count - 1:,} more)" if self.count > 1 else ""
        names = self.database or "", self.table or ""
        reason = self.reason + more
        return Problem("quarantined", reason, *names, self.commit_ts, self.position)


def list_faults(reader: LakeReader, after: Snapshot | None = None) -> list[Fault]:
    """List what is wrong, with the most frequent first; with `after`, in what is newer than it."""
    where = None
    if after is not None:
        is_new_input = (pc.field("stage") == "decode") & (pc.field("batch") > after.batch)
        is_new_row = (pc.field("stage") == "apply") & (pc.field("commit_ts") > after.ts)
        where = is_new_input | is_new_row
    columns = (*_IDENTITY, *_FIRST)
    merged: dict[tuple[str | None, ...], Fault] = {}
    for rows in reader.read_blocks(reader.open("quarantine"), columns, where):
        for fault in _group(rows):
            identity = (fault.stage, fault.database, fault.table, fault.reason)
            other = merged.get(identity)
            merged[identity] = fault if other is None else _add(fault, other)
    return sorted(merged.values(), key=lambda fault: (-fault.count, fault.place))


def select_of_table(faults: Iterable[Fault], name: str) -> list[Fault]:
    """Select the faults of the table that `db.table` names."""
    wanted = fold_name(name)
    return [f for f in faults if f.table and fold_name(f"{f.database}.{f.table}") == wanted]


def _group(rows: pa.Table) -> Iterator[Fault]:
    in_order = rows.sort_by([("seq", "ascending"), ("index", "ascending")])
    # With several threads, the first would be any.
    groups = in_order.group_by(_IDENTITY, use_threads=False).aggregate(
        [([], "count_all"), *((name, "first", _WITH_NULLS) for name in _FIRST)]
    )
    for row in groups.to_pylist():
        first = {name: row[f"{name}_first"] for name in _FIRST}
        yield Fault(
            **{name: row[name] for name in _IDENTITY},
            count=row["count_all"],
            place=(first["seq"] or 0, first["index"] or 0),
            commit_ts=first["commit_ts"],
            position=read_position(first),
        )


def _add(one: Fault, other: Fault) -> Fault:
    first = min(one, other, key=lambda fault: fault.place)
    return replace(first, count=one.count + other.count)
