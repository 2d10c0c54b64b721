"""The changes of a segment: its events typed as rows of their table, and those that are invalid.

A segment is the events of one table between two DDLs.  Rows are typed by the schema under which
they were written, then fitted to the columns that their table has.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from ticdc_assets.errors import CONTENT_ERRORS
from ticdc_assets.events import Op, TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.plan.steps import ApplyRows, TypedRowGroup
from ticdc_assets.protocols.registry import Redecode
from ticdc_assets.rows.columns import list_stored_columns
from ticdc_assets.rows.images import ImageReader, Images, SideRows, find_faults
from ticdc_assets.rows.left_out import NO_CHANGE, Explainer, find_mismatches
from ticdc_assets.rows.parts import HOME
from ticdc_assets.rows.table_rows import Rows, concat_rows, make_nulls
from ticdc_assets.rows.typing import refit

# Events are typed this many at a time: of the texts in between, few are in memory.
_EVENTS_AT_ONCE = 1 << 17
# What groups of pending rows share, by which the events of a group are found.
_GROUP = ("schema_version", "observed", "columns", "member_names")
# What changes do not need once their rows are typed.
_OF_IMAGES = ["before", "after", "checksum"]


class Counts(NamedTuple):
    """What became of the events of a segment when they were read."""

    read: int = 0
    quarantined: int = 0
    inexact: int = 0


class Changes(NamedTuple):
    """The valid events of a segment; `old` has the key columns alone if there is a key.

    Of an event without an old or a new row, that side has NULLs.  `has_key_only`: of the new row
    the stream has the key alone, so the event is quarantined too.  `overwrites`: an update without
    an old row.
    """

    events: pa.Table
    old: Rows
    new: Rows
    has_old: pa.Array
    has_new: pa.Array
    has_key_only: pa.Array
    overwrites: pa.Array

    def __len__(self) -> int:
        return len(self.has_old)


class Segment(NamedTuple):
    """A segment as it was read.

    `quarantined` has the columns of `ORIGIN`, `error`, `reason` and `raw`.
    """

    changes: Changes
    quarantined: pa.Table
    counts: Counts


def read_segment(events: pa.Table, step: ApplyRows, redecode: Redecode | None) -> Segment:
    """Type the events of a segment: pending rows with their place in the order."""
    readers: dict[int, _Reader] = {}
    parts = []
    for block, groups in list_readings(events, step.row_groups):
        if id(groups) not in readers:
            readers[id(groups)] = _Reader(step.schema, groups, redecode)
        parts.append(readers[id(groups)].read(block))
    return join_segments(parts)


def join_segments(parts: Sequence[Segment]) -> Segment:
    """Join what was read of a segment in parts."""
    if len(parts) == 1:
        return parts[0]
    return Segment(
        _concat_changes([part.changes for part in parts]),
        pa.concat_tables([part.quarantined for part in parts]),
        Counts(*map(sum, zip(*(part.counts for part in parts), strict=True))),
    )


def _concat_changes(parts: Sequence[Changes]) -> Changes:
    events, old, new, *flags = zip(*parts, strict=True)
    return Changes(
        pa.concat_tables(events), concat_rows(old), concat_rows(new), *map(pa.concat_arrays, flags)
    )


def list_readings(
    events: pa.Table, groups: Iterable[TypedRowGroup]
) -> Iterator[tuple[pa.Table, list[TypedRowGroup]]]:
    """List the events of a segment in blocks that are read in one way, with the groups of each."""
    readings: dict[object, list[TypedRowGroup]] = {}
    for typed in groups:
        group = typed.group
        reading = group.member_names, typed.redecode, typed.fault, typed.schema
        readings.setdefault(reading, []).append(typed)
    for alike in readings.values():
        chosen = events if len(readings) == 1 else events.filter(_is_in(events, alike))
        for start in range(0, max(chosen.num_rows, 1), _EVENTS_AT_ONCE):
            yield chosen.slice(start, _EVENTS_AT_ONCE), alike


def _is_in(events: pa.Table, groups: Iterable[TypedRowGroup]) -> pa.Array:
    """Return which events are in one of the groups."""
    chosen = pa.repeat(pa.scalar(False), events.num_rows)
    for stated in {tuple(getattr(typed.group, name) for name in _GROUP) for typed in groups}:
        is_one = pa.repeat(pa.scalar(True), events.num_rows)
        for name, value in zip(_GROUP, stated, strict=True):
            column = events[name]
            is_equal = pc.is_null(column) if value is None else pc.equal(column, value)
            is_one = pc.and_(is_one, pc.fill_null(is_equal, False))
        chosen = pc.or_(chosen, is_one)
    return chosen


class _Reader:
    """Types rows that were written under one schema as rows of their table."""

    def __init__(
        self, table: TableSchema, groups: Sequence[TypedRowGroup], redecode: Redecode | None
    ) -> None:
        first = groups[0]
        self._table = table
        self._schema = first.schema
        self._fault = first.fault
        self._member_names = first.group.member_names
        self._redecode = redecode if first.redecode else None
        self._verifies = self._fault is None and any(typed.group.checksums for typed in groups)
        key = {fold_name(name) for name in table.key}
        # Of an old row, a table with a key needs nothing else.
        names = [c.name for c in list_stored_columns(self._schema) if fold_name(c.name) in key]
        self._explain = Explainer(
            self._schema, table, member_names=self._member_names, fault=self._fault
        )
        self._images = ImageReader(
            self._schema, names if key else None, member_names=self._member_names
        )

    def read(self, events: pa.Table) -> Segment:
        """Read events, all of which were written under the schema."""
        if self._redecode is not None:
            events = redecode_images(events, self._schema, self._redecode)
        before, after = (events[name].combine_chunks() for name in ("before", "after"))
        old, new = self._images.read(Images(before, after))
        has_old, has_new = pc.is_valid(before), pc.is_valid(after)
        key_only = events["handle_key_only"].combine_chunks()
        if self._table.key:
            # Of a deleted row, the key will do.
            key_only = pc.and_(key_only, has_new)
        invalid, mismatches = self._find_invalid(events, (has_old, old), (has_new, new), key_only)
        old, new = self._fit(old, of_old=True), self._fit(new)
        invalid = pc.or_(invalid, pc.or_(old.invalid, new.invalid))
        is_left_out = pc.or_(invalid, key_only)
        is_home = _find_home(events)
        explained = is_left_out if is_home is None else pc.and_(is_left_out, is_home)
        quarantined = self._explain(events, explained, key_only, mismatches)
        commit_ts = events["commit_ts"].combine_chunks()
        is_update = pc.equal(events["op"], Op.UPDATE.value).combine_chunks()
        if self._table.key:
            # Without a key, they tell repetitions.
            events = events.drop_columns(_OF_IMAGES)
        changes = Changes(
            events,
            Rows(old.columns, commit_ts),
            Rows(new.columns, commit_ts),
            has_old,
            has_new,
            key_only,
            pc.and_(pc.and_not(has_new, has_old), is_update),
        )
        if pc.any(invalid).as_py():
            changes = take_changes(changes, pc.indices_nonzero(pc.invert(invalid)))
        if not self._table.key and pc.any(changes.has_key_only).as_py():
            whole = pc.invert(changes.has_key_only)
            changes = take_changes(changes, pc.indices_nonzero(whole))
        return Segment(changes, quarantined, _count(events, changes, quarantined))

    # Parameters: both sides of the events, and what they state.
    def _find_invalid(
        self,
        events: pa.Table,
        old: tuple[pa.Array, SideRows],
        new: tuple[pa.Array, SideRows],
        key_only: pa.Array,
    ) -> tuple[pa.Array, Mapping[int, str]]:
        """Return which events are invalid, and how events differ from their checksums."""
        count = events.num_rows
        if self._fault is not None:
            return pa.repeat(pa.scalar(True), count), {}
        invalid = pc.invert(pc.or_(old[0], new[0]))
        for has_row, rows in (old, new):
            invalid = pc.or_(invalid, pc.and_(has_row, find_faults(rows, self._table)))
        mismatches: Mapping[int, str] = {}
        if self._verifies:
            mismatches = find_mismatches(events, new[1], key_only, self._schema)
            wrong = pa.array([place in mismatches for place in range(count)], pa.bool_())
            invalid = pc.or_(invalid, wrong)
        return invalid, mismatches

    def _fit(self, rows: SideRows, *, of_old: bool = False) -> SideRows:
        """Return rows with the columns that their table has; invalid is what these cannot hold."""
        written = {fold_name(column.name): column for column in self._schema.columns}
        by_name = {fold_name(name): stored for name, stored in rows.columns.items()}
        key = {fold_name(name) for name in self._table.key}
        invalid = rows.invalid
        columns = {}
        for column in list_stored_columns(self._table):
            name = fold_name(column.name)
            if of_old and key and name not in key:
                continue
            stored = by_name.get(name)
            if stored is None:
                stored = make_nulls(len(invalid), column.type)
            else:
                stored, is_wrong = refit(stored, written[name].type, column.type)
                invalid = invalid if is_wrong is None else pc.or_(invalid, is_wrong)
            columns[column.name] = stored
        return SideRows(columns, invalid)


def count_here(changes: Changes) -> int:
    """Count changes, those of a part where they are at home."""
    is_home = _find_home(changes.events)
    return len(changes) if is_home is None else pc.sum(is_home).as_py() or 0


def _find_home(events: pa.Table) -> pa.Array | None:
    """Return which events count here; None if all do."""
    return events[HOME].combine_chunks() if HOME in events.column_names else None


def _count(events: pa.Table, changes: Changes, quarantined: pa.Table) -> Counts:
    """Count events, those left out, and inexact values."""
    is_home, is_valid_home = _find_home(events), _find_home(changes.events)
    count = events.num_rows if is_home is None else pc.sum(is_home).as_py() or 0
    inexact = 0
    for stored in changes.new.columns.values():
        if stored.exact is not None:
            is_exact = pc.is_valid(stored.exact)
            counted = is_exact if is_valid_home is None else pc.and_(is_exact, is_valid_home)
            inexact += pc.sum(counted).as_py() or 0
    return Counts(count, quarantined.num_rows, inexact)


def take_changes(changes: Changes, places: pa.Array) -> Changes:
    """Return the changes at some places."""
    events, old, new, *flags = changes
    return Changes(
        events.take(places), old.take(places), new.take(places), *(f.take(places) for f in flags)
    )


def redecode_images(events: pa.Table, schema: TableSchema, redecode: Redecode) -> pa.Table:
    """Decode images again that were decoded by stale flags; what cannot be is no image any more."""
    images: dict[str, list[str | None]] = {"before": [], "after": []}
    columns = (events[name].to_pylist() for name in ("before", "after", "observed"))
    for before, after, observed in zip(*columns, strict=True):
        change = replace(NO_CHANGE, before=before, after=after, observed=observed)
        try:
            change = redecode(change, schema)
        except CONTENT_ERRORS:
            # It is broken, and typing quarantines the row.
            change = replace(change, before=before and "!", after=after and "!")
        images["before"].append(change.before)
        images["after"].append(change.after)
    for name, texts in images.items():
        place = events.schema.get_field_index(name)
        events = events.set_column(place, events.schema.field(place), pa.array(texts, pa.string()))
    return events
