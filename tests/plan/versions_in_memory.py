"""Histories and changes of tables in memory, kept window by window as the lake keeps them."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tests.plan.engine import Engine, Snapshot
from tests.plan.work_in_memory import StoredTable, WorkInMemory, split_source
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.history.change_rows import find_changes, store_images, write_changes
from ticdc_assets.lake.history.columns import HistoryColumn, fit_all, read_stored_columns
from ticdc_assets.lake.history.rows import (
    Block,
    Moment,
    filter_block,
    make_rows,
    read_versions,
    take_over,
)
from ticdc_assets.plan.plan import Plan
from ticdc_assets.plan.state import State
from ticdc_assets.plan.steps import SchemaVersion, TableWork
from ticdc_assets.rows.merging import Concerned
from ticdc_assets.rows.parts import can_be_split, list_identifying
from ticdc_assets.rows.table import RowSource
from ticdc_assets.rows.table_rows import write_table
from ticdc_assets.rows.version_chains import OpenVersions, keep_versions
from ticdc_assets.rows.versions import (
    StepVersions,
    begin_versions,
    is_by_row,
    list_schemas,
    list_versions,
)
from ticdc_assets.store.contracts import HISTORY

_Change = tuple[int, tuple[tuple[str, str], ...]]


@dataclass
class Kept:
    """A history, and what its changes bring and take: the ts and the values of each row."""

    columns: list[HistoryColumn]
    rows: pa.Table
    came: Counter[_Change] = field(default_factory=Counter)
    went: Counter[_Change] = field(default_factory=Counter)

    @property
    def block(self) -> Block:
        arrays = (column.combine_chunks() for column in self.rows.columns)
        return dict(zip(self.rows.column_names, arrays, strict=True))


@dataclass
class HistoricEngine(Engine):
    """A lake that keeps versions."""

    kept: dict[str, Kept] = field(default_factory=dict)
    schemas: list[SchemaVersion] = field(default_factory=list)

    def _run(
        self, plan: Plan, start: State, since: Snapshot, batch: int, ids: Collection[str]
    ) -> Plan:
        done = super()._run(plan, start, since, batch, ids)
        rows = self.log.pending_rows(start, since.batch, ts=plan.state.ts, through_batch=batch)
        work = WorkInMemory(self.rules, plan.work, since.tables)
        source = work.open(rows, start.ts)
        for id in ids:
            self._keep(plan.work, id, source, start.ts, in_parts=work.way == 1)
        self.schemas += plan.history
        return done

    def _keep(
        self, work: dict[str, TableWork], id: str, source: RowSource, ts: int, *, in_parts: bool
    ) -> None:
        """Take the history of a table through a window."""
        own, known = work[id], self.kept.get(id)
        columns = fit_all(known.columns if known else [], list_schemas(own))
        parts = [source]
        if in_parts and can_be_split(own):
            parts = list(split_source(source, own))
        kept = Kept(columns, pa.table({}))
        written = []
        opened = None
        if known is not None:
            kept.came, kept.went = known.came, known.went
            is_open, has_ended = Moment(ts).find_open(known.block)
            ended = filter_block(known.block, has_ended)
            written.append(take_over(ended, columns))
            opened = read_versions(filter_block(known.block, is_open), known.columns, own.before)
        for part in parts:
            first = opened
            if opened is not None and part.part is not None:
                first = opened.filter(part.part.has(opened.rows, list_identifying(own.before)))
            written += _write_versions(work, id, part, first, columns)
            self._keep_changes(kept, work, id, part)
        kept.rows = pa.concat_tables(written)
        kept.columns = read_stored_columns({column.name: column.type for column in columns})
        self.kept[id] = kept

    def _keep_changes(
        self, kept: Kept, work: dict[str, TableWork], id: str, source: RowSource
    ) -> None:
        rows = source.read_rows(id)
        start = None if rows is None else begin_versions(rows, rows.commit_ts, None)
        for step in list_versions(work, id, source, start):
            changes = _write_changes(step, kept.columns)
            kept.came += _list_images(changes, "after")
            kept.went += _list_images(changes, "before")

    def tables_at(self, ts: int) -> Iterator[StoredTable]:
        """Yield the tables that were there at a ts, as their histories show them."""
        last: dict[str, SchemaVersion] = {}
        for version in sorted(self.schemas, key=lambda version: version.valid_from):
            if version.valid_from <= ts:
                last[version.incarnation] = version
        for id, version in last.items():
            if id and not version.ends:
                yield self._read_at(id, version.schema, ts)

    def _read_at(self, id: str, schema: TableSchema, ts: int) -> StoredTable:
        kept = self.kept[id]
        is_open, _ = Moment(ts).find_open(kept.block)
        there = read_versions(filter_block(kept.block, is_open), kept.columns, schema)
        return StoredTable(schema, write_table(there.rows, schema))


def _write_versions(
    work: dict[str, TableWork],
    id: str,
    source: RowSource,
    opened: OpenVersions | None,
    columns: list[HistoryColumn],
) -> list[pa.Table]:
    """Write the versions of a window; where that suffices, of rows with events alone."""
    written = []
    if opened is not None and is_by_row(work[id]):
        is_concerned = Concerned(work[id], source).choose(opened.rows)
        left = opened.filter(pc.invert(is_concerned))
        written.append(make_rows(keep_versions(left), work[id].before, columns, is_last=True))
        opened = opened.filter(is_concerned)
    steps = list(list_versions(work, id, source, opened))
    return written + [
        make_rows(step.versions, step.schema, columns, is_last=step is steps[-1]) for step in steps
    ]


def _write_changes(step: StepVersions, columns: list[HistoryColumn]) -> pa.Table:
    return write_changes(
        find_changes(step),
        lambda rows: store_images(rows, step.before, columns),
        lambda rows: store_images(rows, step.schema, columns),
    )


def _list_images(changes: pa.Table, side: str) -> Counter[_Change]:
    some = changes.filter(pc.is_valid(changes[side]))
    times = some["commit_ts"].to_pylist()
    return Counter(
        (ts, list_values(row)) for ts, row in zip(times, some[side].to_pylist(), strict=True)
    )


def list_values(row: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the values of a row that are not NULL, in a form that can be compared."""
    return tuple(sorted((name, repr(v)) for name, v in row.items() if v is not None))


def list_versions_of(kept: Kept, ts: str) -> Counter[_Change]:
    """Return when the versions of a history begin or end, with the values of each."""
    own = set(HISTORY) - {"_inexact"}
    return Counter(
        (row[ts], list_values({n: v for n, v in row.items() if n not in own}))
        for row in kept.rows.to_pylist()
        if row[ts] is not None
    )
