"""The work of one window by the engine itself, on Arrow tables that nothing stores."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from tests.plan.arrived import ArrivedRow
from ticdc_assets.errors import CONTENT_ERRORS
from ticdc_assets.events import TableSchema
from ticdc_assets.events.row_image import load
from ticdc_assets.plan.steps import Alter, ApplyRows, TableWork, list_partners
from ticdc_assets.reference.table import ModelRow, ModelTable
from ticdc_assets.rows.alteration import alter_rows
from ticdc_assets.rows.columns import list_stored_columns
from ticdc_assets.rows.identity import are_among, identify
from ticdc_assets.rows.kept import split_kept
from ticdc_assets.rows.merging import PUT, Concerned, can_be_merged, list_merge, needs_rows
from ticdc_assets.rows.parts import Part, can_be_split, list_identifying
from ticdc_assets.rows.spreading import spread_events
from ticdc_assets.rows.stored import read_stored, store_values
from ticdc_assets.rows.table import RowSource, TableResult, do_work
from ticdc_assets.rows.table_rows import Rows, concat_rows, read_table, write_table
from ticdc_assets.schema.catalog import TableKey, table_key
from ticdc_assets.store.event_rows import SCHEMA, Arrival, read_position, to_arrow
from ticdc_assets.stream.ordering import Phase
from ticdc_assets.stream.problem import Problem
from ticdc_assets.stream.rules import StreamRules

_PARTS = 3
_EVENTS_PER_BLOCK = 4
_BLOCKS = 6
_PLACE = {
    "order_ts": pa.int64(),
    "after_ddls": pa.bool_(),
    "ordered_by_commit_ts": pa.bool_(),
    "pass": pa.int64(),
}


@dataclass(frozen=True)
class StoredTable:
    """A table as Delta would hold it."""

    schema: TableSchema
    stored: pa.Table
    has_misplaced_rows: bool = False
    # The keys of rows of which the stream had nothing else.
    incomplete: frozenset[tuple[str | None, ...]] = field(default_factory=frozenset)

    @property
    def rows(self) -> Rows:
        return read_table(self.stored, self.schema)

    @property
    def kept(self) -> list[tuple[ModelRow, int]]:
        """The rows that were deleted and are kept, each with the ts of its delete."""
        kept = split_kept(self.rows).kept
        if kept is None:
            return []
        assert kept.deleted_ts is not None
        assert kept.deleted_ts == kept.commit_ts
        return list(zip(self._show(kept), kept.deleted_ts.to_pylist(), strict=True))

    def __iter__(self) -> Iterator[ModelRow]:
        return self._show(split_kept(self.rows).there)

    def _show(self, rows: Rows) -> Iterator[ModelRow]:
        columns = list_stored_columns(self.schema)
        values = [read_stored(rows.columns[c.name], c.type) for c in columns]
        for row in zip(*values, strict=True):
            yield dict(zip((c.name for c in columns), row, strict=True))


def store(table: ModelTable) -> StoredTable:
    """Store the rows of a model's table."""
    rows = list(table)
    columns = {
        c.name: store_values([row.get(c.name) for row in rows], c.type)
        for c in list_stored_columns(table.schema)
    }
    commit_ts = pa.array([0] * len(rows), pa.int64())
    return StoredTable(table.schema, write_table(Rows(columns, commit_ts), table.schema))


class WorkInMemory:
    """The work of one window on tables; `failed` says why tables cannot continue."""

    def __init__(
        self,
        rules: StreamRules,
        work: Mapping[str, TableWork],
        tables: Mapping[str, StoredTable],
    ) -> None:
        self._rules = rules
        self._work = work
        self._start = tables
        self._events: dict[TableKey, pa.Table] = {}
        self.finished: dict[str, StoredTable] = {}
        self.failed: dict[str, str] = {}
        self.problems: list[Problem] = []

    def open(self, rows: Iterable[ArrivedRow], applied_ts: int) -> RowSource:
        """Open what the work reads: tables, and rows that arrived after `applied_ts`."""
        by_table: dict[TableKey, list[ArrivedRow]] = defaultdict(list)
        for row in rows:
            by_table[row.table].append(row)
        self._events = {key: make_events(many, applied_ts) for key, many in by_table.items()}
        return RowSource(
            read_rows=self._read_rows,
            read_events=self._read_events,
            find_passes=_find_passes,
            redecode=self._rules.redecode,
            updates_split=self._rules.updates_split,
        )

    @property
    def way(self) -> int:
        """How the work of a window is done: that of most, as that of large tables is."""
        return sum(events.num_rows for events in self._events.values()) % 3

    def run(self, ids: Iterable[str], rows: Iterable[ArrivedRow], applied_ts: int) -> None:
        """Take tables through all their steps, with rows that arrived after `applied_ts`."""
        source = self.open(rows, applied_ts)
        results = (do_work, _do_in_parts, _do_by_merges)[self.way](self._work, source)
        for id in ids:
            result, work = results[id], self._work[id]
            self.problems += _list_quarantined(result)
            if result.stopped is not None:
                self.failed[id] = result.stopped
                continue
            stored = write_table(result.all_rows, work.after, work.layout)
            missing = self._start[id].incomplete if id in self._start else frozenset()
            self.finished[id] = StoredTable(
                work.after,
                stored,
                result.has_misplaced_rows,
                missing | _list_incomplete(result, work.after),
            )

    def _read_rows(self, id: str) -> Rows | None:
        table, work = self._start.get(id), self._work[id]
        if table is None:
            assert work.is_new, id
            return None
        assert table.schema == work.before, id
        return table.rows

    def _read_events(self, step: ApplyRows) -> list[pa.Table]:
        events = self._events[table_key(step.schema.database, step.schema.table)]
        places = zip(events["order_ts"].to_pylist(), events["after_ddls"].to_pylist(), strict=True)
        keys = ((ts, Phase.AFTER_DDLS if after else Phase.ROWS) for ts, after in places)
        own = events.filter(pa.array([step.low < key <= step.high for key in keys], pa.bool_()))
        # Files have events in no order.
        number = min(len(own) // _EVENTS_PER_BLOCK + 1, _BLOCKS)
        return [
            own.take(pa.array(range(first, len(own), number), pa.int64()))
            for first in range(number)
        ]


def _do_in_parts(work: Mapping[str, TableWork], source: RowSource) -> dict[str, TableResult]:
    """Do the work of the tables that can be split in parts, and join these."""
    split = {id: each for id, each in work.items() if can_be_split(each)}
    results = do_work({id: each for id, each in work.items() if id not in split}, source)
    for id, each in split.items():
        done = [do_work({id: each}, part)[id] for part in split_source(source, each)]
        results[id] = _join(done)
        read = sum(count.read for count in results[id].segments)
        assert results[id].stopped is not None or read == _count_events(each, source)
    return results


def split_source(source: RowSource, work: TableWork) -> Iterator[RowSource]:
    """Return what each part of a table reads."""
    for number in range(_PARTS):
        yield _take_part(source, work, Part(number, _PARTS))


def _take_part(source: RowSource, work: TableWork, part: Part) -> RowSource:
    names = list_identifying(work.before)

    def read_events(step: ApplyRows) -> list[pa.Table]:
        blocks = source.read_events(step)
        return [spread_events(block, step, part.count)[part.number] for block in blocks]

    def read_rows(id: str) -> Rows | None:
        rows = source.read_rows(id)
        return None if rows is None else rows.filter(part.has(rows, names))

    return replace(source, read_events=read_events, read_rows=read_rows, part=part)


def _join(parts: list[TableResult]) -> TableResult:
    stopped = [part for part in parts if part.stopped is not None]
    if stopped:
        return stopped[0]
    return TableResult(
        concat_rows([part.rows for part in parts]),
        concat_rows(kept) if (kept := [p.kept for p in parts if p.kept is not None]) else None,
        segments=[count for part in parts for count in part.segments],
        quarantined=[table for part in parts for table in part.quarantined],
    )


def _do_by_merges(work: Mapping[str, TableWork], source: RowSource) -> dict[str, TableResult]:
    """Do the work of tables on the rows that it concerns, and merge what that gives."""
    # As in the lake: what a table hands over, its partner reads in the same task.
    merged = {
        id: each
        for id, each in work.items()
        if not each.is_new and not list_partners(each) and can_be_merged(each)
    }
    results = do_work({id: each for id, each in work.items() if id not in merged}, source)
    for id, each in merged.items():
        rows = source.read_rows(id)
        assert rows is not None
        concerned = None
        if needs_rows(each, source):
            try:
                chooser = Concerned(each, source)
            except CONTENT_ERRORS:
                # The work meets the same error.
                pass
            else:
                # Two blocks, one of them without rows.
                concerned = chooser.find([rows, rows.take(pa.array([], pa.int64()))])
        only = replace(source, read_rows=lambda id, found=concerned: found)
        result = results[id] = do_work({id: each}, only)[id]
        if result.stopped is None:
            listed = list_merge(result, concerned, each.after, each.layout)
            merged_rows = _merge(_alter(rows, each), listed, each.after)
            result.rows, result.kept = split_kept(merged_rows)
    return results


def _alter(rows: Rows, work: TableWork) -> Rows:
    schema = work.before
    for step in work.steps:
        if isinstance(step, Alter):
            altered = alter_rows(rows, schema, step)
            rows = replace(altered, deleted_ts=rows.deleted_ts)
        schema = step.schema
    return rows.rename_like(schema)


def _merge(rows: Rows, listed: pa.Table, schema: TableSchema) -> Rows:
    put = read_table(listed.filter(listed[PUT]), schema)
    gone = read_table(listed.filter(pc.invert(listed[PUT])), schema)
    names = list_identifying(schema)
    # With a key, a row that is put replaces another one.
    replaced = concat_rows([put, gone]) if schema.key else gone
    is_kept = pc.invert(are_among(*identify([rows.select(names), replaced.select(names)], names)))
    return concat_rows([rows.filter(is_kept), put])


def _count_events(work: TableWork, source: RowSource) -> int:
    steps = [step for step in work.steps if isinstance(step, ApplyRows)]
    return sum(block.num_rows for step in steps for block in source.read_events(step))


def make_events(rows: Iterable[ArrivedRow], applied_ts: int) -> pa.Table:
    """Return pending rows as the lake reads them."""
    rows = list(rows)
    batches = to_arrow([Arrival(row.batch, row.seq, 0, row.change) for row in rows])
    events = pa.Table.from_batches(batches, SCHEMA)
    places = [row.place(applied_ts) for row in rows]
    values = [
        [ts for ts, _ in places],
        [phase == Phase.AFTER_DDLS for _, phase in places],
        [row.ordered_by_commit_ts for row in rows],
        [row.sender_pass for row in rows],
    ]
    for (name, type), column in zip(_PLACE.items(), values, strict=True):
        events = events.append_column(name, pa.array(column, type))
    return events


def _find_passes(step: ApplyRows, events: pa.Table) -> pa.Array | None:
    if not any(typed.group.ordered_by_commit_ts for typed in step.row_groups):
        return None
    return events["pass"].combine_chunks()


def _list_quarantined(result: TableResult) -> Iterator[Problem]:
    for table in result.quarantined:
        rows = table.filter(pc.not_equal(table["error"], "MissingPayload"))
        for row in rows.sort_by([("seq", "ascending"), ("index", "ascending")]).to_pylist():
            where = row["database"], row["table"], row["commit_ts"], read_position(row)
            yield Problem("quarantined", row["reason"], *where)


def _list_incomplete(result: TableResult, schema: TableSchema) -> frozenset[tuple[str | None, ...]]:
    found = set()
    for table in result.quarantined:
        for row in table.filter(pc.equal(table["error"], "MissingPayload")).to_pylist():
            image = load(row["raw"].decode())
            found.add(tuple(image.get(name) for name in schema.key))
    return frozenset(found)
