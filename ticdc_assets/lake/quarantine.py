"""What is in the quarantine, by what is wrong with it.

A fault is open while a table may lack the input or the rows that have it.  It never is where they
were used all the same, and no longer is once the table has been dropped, truncated or loaded, or
verified to equal upstream's at a later ts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import BelowFold, ChecksumMismatch
from ticdc_assets.events import Position
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.lake.raw.erased_records import ERASED
from ticdc_assets.log.applied_files import find_newest_id, read_snapshot
from ticdc_assets.log.names import read_names
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.log.verifications import Results
from ticdc_assets.store.event_rows import make_table_name, read_position
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.stream.problem import Problem

_OPEN = "is_open"
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
    # Whether a table may lack them.
    is_open: bool

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
        is_late = (pc.field("batch") > after.batch) & (pc.field("error") == BelowFold.__name__)
        is_new_row = (pc.field("stage") == "apply") & ((pc.field("commit_ts") > after.ts) | is_late)
        where = is_new_input | is_new_row
    columns = (*_IDENTITY, *_FIRST, "error")
    # Most lakes have nothing in the quarantine.
    find_ends = cache(partial(_find_ends, reader))
    merged: dict[tuple[object, ...], Fault] = {}
    for rows in reader.read_blocks(reader.open("quarantine"), columns, where):
        for fault in _group(rows.append_column(_OPEN, _find_open(rows, find_ends))):
            identity = (*(getattr(fault, name) for name in _IDENTITY), fault.is_open)
            other = merged.get(identity)
            merged[identity] = fault if other is None else _add(fault, other)
    return sorted(merged.values(), key=lambda fault: (-fault.count, fault.place))


class OpenRow(NamedTuple):
    """A row that its table may lack, and that a replay may apply."""

    name: str
    commit_ts: int


def find_first_open(reader: LakeReader) -> OpenRow | None:
    """Find the first row that was not applied, and may be yet; None if there is none."""
    where = (pc.field("stage") == "apply") & (pc.field("error") != BelowFold.__name__)
    find_ends = cache(partial(_find_ends, reader))
    first: OpenRow | None = None
    columns = (*_IDENTITY, "commit_ts", "error")
    for rows in reader.read_blocks(reader.open("quarantine"), columns, where):
        for row in rows.filter(_find_open(rows, find_ends)).to_pylist():
            if first is None or row["commit_ts"] < first.commit_ts:
                first = OpenRow(f"{row['database']}.{row['table']}", row["commit_ts"])
    return first


def _find_ends(reader: LakeReader) -> dict[str, int]:
    """Return, by name, the commit ts up to which no table lacks rows: all had it, or are gone.

    Rows since a table was created may be its own, under every name that it ever had.
    """
    applied = read_snapshot(reader, find_newest_id(reader, reader.open("applied")))
    names = read_names(reader)
    equal = Results(reader.location).read_equal()
    ends: dict[str, int] = {}
    begins: dict[str, int] = {}
    for table in applied.state.incarnations.values():
        begin = equal.get(table.id, table.created_ts)
        end = equal.get(table.id, 0) if table.dropped_ts is None else table.dropped_ts
        for name in names.get(table.id, ()):
            if table.dropped_ts is None:
                begins[name] = min(begin, begins.get(name, begin))
            if end:
                ends[name] = max(end, ends.get(name, 0))
    return {name: min(ts, begins.get(name, ts)) for name, ts in ends.items()}


def _find_open(rows: pa.Table, find_ends: Callable[[], Mapping[str, int]]) -> pa.ChunkedArray:
    """Return per row whether a table may lack it."""
    closed = pc.equal(rows["error"], ChecksumMismatch.__name__)
    for pair in rows.group_by(["database", "table"]).aggregate([]).to_pylist():
        database, table = pair["database"], pair["table"]
        name = make_table_name(database, table) if database and table else None
        end = None if name is None else find_ends().get(name)
        if end is None:
            continue
        is_of_table = pc.and_(pc.equal(rows["database"], database), pc.equal(rows["table"], table))
        # A load has the rows of its ts; those that it could not read are of the same ts.
        is_load = pc.equal(rows["stage"], "load")
        last = pc.subtract(end, pc.cast(is_load, pa.int64()))
        is_over = pc.and_(is_of_table, pc.less_equal(rows["commit_ts"], last))
        closed = pc.or_kleene(closed, is_over)
    # Nobody wants it back.
    closed = pc.or_kleene(closed, pc.equal(rows["reason"], ERASED))
    return pc.invert(pc.fill_null(closed, False))


def select_of_table(faults: Iterable[Fault], name: str) -> list[Fault]:
    """Select the faults of the table that `db.table` names."""
    wanted = fold_name(name)
    return [f for f in faults if f.table and fold_name(f"{f.database}.{f.table}") == wanted]


def _group(rows: pa.Table) -> Iterator[Fault]:
    in_order = rows.sort_by([("seq", "ascending"), ("index", "ascending")])
    # With several threads, the first would be any.
    groups = in_order.group_by([*_IDENTITY, _OPEN], use_threads=False).aggregate(
        [([], "count_all"), *((name, "first", _WITH_NULLS) for name in _FIRST)]
    )
    for row in groups.to_pylist():
        first = {name: row[f"{name}_first"] for name in _FIRST}
        yield Fault(
            **{name: row[name] for name in (*_IDENTITY, _OPEN)},
            count=row["count_all"],
            place=(first["seq"] or 0, first["index"] or 0),
            commit_ts=first["commit_ts"],
            position=read_position(first),
        )


def _add(one: Fault, other: Fault) -> Fault:
    first = min(one, other, key=lambda fault: fault.place)
    return replace(first, count=one.count + other.count)
