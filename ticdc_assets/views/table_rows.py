"""The rows of tables at one ts, for whichever process reads them: nothing here needs Spark.

Tables are `StoredTables` at Delta versions, or `ComputedTables` that the events of a window take
from there to a ts.  A table that exchanges rows with another one is read together with it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from ticdc_assets.errors import ConfigError, TableCannotContinue
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.engine import Engine
from ticdc_assets.lake.apply.spread_tasks import read_part
from ticdc_assets.lake.apply.table_tasks import TableTask, open_source, read_blocks
from ticdc_assets.plan.steps import TableWork, group_by_exchange
from ticdc_assets.rows.parts import Part, can_be_split
from ticdc_assets.rows.table import RowSource, do_work
from ticdc_assets.rows.table_rows import Rows, concat_rows, make_no_rows
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import FilesGone, StoredRows

# A view keeps the rows of small tables up to about this many values.
_KEPT_VALUES = 10_000_000


class TableRows(Protocol):
    """The rows of tables, by their ids."""

    def read(self, wanted: Mapping[str, TableSchema], part: Part | None = None) -> dict[str, Rows]:
        """Return rows with the columns of these schemas, without tables that have none.

        Raises `FilesGone` for a table whose files maintenance has removed.
        """

    def count(self, id: str) -> int:
        """Return how many rows a table has at most, before those that other tables give it."""

    def find_version(self, id: str) -> int | None:
        """Return the version of the current table that has these rows, if one has."""

    def require_files(self, ids: Collection[str]) -> None:
        """Raise `FilesGone` if the files of some tables are not there."""


@dataclass(frozen=True)
class StoredTables:
    """Tables at Delta versions; those that have none are as they were `earlier`, or not at all."""

    location: Lake
    versions: Mapping[str, int]
    # Maintenance may have removed files of these versions.
    are_old: bool = True
    earlier: TableRows | None = None

    def open(self, id: str) -> StoredRows:
        """Open a table that has a version."""
        return StoredRows(LakeReader(self.location), f"current/{id}", self.versions[id])

    def read(self, wanted: Mapping[str, TableSchema], part: Part | None = None) -> dict[str, Rows]:
        stored = {id: schema for id, schema in wanted.items() if id in self.versions}
        self.require_files(stored)
        found = {id: self._read(id, schema, part) for id, schema in stored.items()}
        if self.earlier is not None:
            rest = {id: schema for id, schema in wanted.items() if id not in stored}
            found |= self.earlier.read(rest, part)
        return found

    def _read(self, id: str, schema: TableSchema, part: Part | None) -> Rows:
        stored = self.open(id)
        if unknown := stored.unknown_features:
            reason = f"only Spark reads Delta's {', '.join(sorted(unknown))}"
            raise ConfigError(reason, file=self.location.current_path(id))
        return concat_rows([make_no_rows(schema), *read_blocks(stored, schema, part)])

    def count(self, id: str) -> int:
        version = self.versions.get(id)
        if version is not None:
            return self.open(id).count()
        return 0 if self.earlier is None else self.earlier.count(id)

    def find_version(self, id: str) -> int | None:
        if id in self.versions or self.earlier is None:
            return self.versions.get(id)
        return self.earlier.find_version(id)

    def require_files(self, ids: Collection[str]) -> None:
        for id in ids:
            if self.are_old and id in self.versions and not self.open(id).has_files:
                raise FilesGone(id, self.versions[id])
        if self.earlier is not None:
            self.earlier.require_files([id for id in ids if id not in self.versions])


@dataclass(frozen=True)
class ComputedTables:
    """Tables as they were `before`, taken through the work of a window."""

    engine: Engine
    work: Mapping[str, TableWork]
    before: TableRows

    def read(self, wanted: Mapping[str, TableSchema], part: Part | None = None) -> dict[str, Rows]:
        work = self._find_work(wanted)
        before = {id: each.before for id, each in work.items()}
        rest = {id: schema for id, schema in wanted.items() if id not in work}
        start = self.before.read({**before, **rest}, part)
        if not work:
            return start
        results = do_work(work, self._open_source(work, start, part))
        found = {id: rows for id, rows in start.items() if id in rest}
        for id in wanted:
            if id in work:
                stopped = results[id].stopped
                if stopped is not None:
                    raise TableCannotContinue(stopped)
                found[id] = results[id].all_rows.rename_like(wanted[id])
        return found

    def _find_work(self, ids: Collection[str]) -> dict[str, TableWork]:
        """Return the work on tables, and on those that they exchange rows with."""
        changed = [id for id in ids if id in self.work]
        groups = group_by_exchange(self.work, changed)
        return {id: self.work[id] for group in groups for id in group}

    def _open_source(
        self, work: Mapping[str, TableWork], start: Mapping[str, Rows], part: Part | None
    ) -> RowSource:
        source = open_source(self.engine, TableTask(work, {}, part=part), start.get)
        if part is None:
            return source
        return replace(source, read_events=partial(read_part, self.engine.pending, part))

    def count(self, id: str) -> int:
        if id not in self.work:
            return self.before.count(id)
        work = self._find_work([id])
        return sum(self.before.count(each) + work[each].event_count for each in work)

    def find_version(self, id: str) -> int | None:
        return None if id in self.work else self.before.find_version(id)

    def require_files(self, ids: Collection[str]) -> None:
        self.before.require_files({*ids, *self._find_work(ids)})

    def describe(self, id: str) -> "ComputedTables":
        """Return what other processes need to read a table that the window changes."""
        engine = replace(self.engine, pending=self.engine.pending.describe())
        return replace(self, engine=engine, work=self._find_work([id]))

    def can_be_split(self, id: str) -> bool:
        """Whether parts of a table can be read."""
        return can_be_split(self.work[id])


class KeptTables:
    """Tables whose rows are kept once they have been read, for the views of later ts, too."""

    def __init__(self, tables: TableRows) -> None:
        self._tables = tables
        self._kept: dict[str, Rows | None] = {}
        self._values = 0

    def read(self, wanted: Mapping[str, TableSchema], part: Part | None = None) -> dict[str, Rows]:
        found = {id: self._kept[id] for id in wanted if id in self._kept}
        missing = {id: schema for id, schema in wanted.items() if id not in found}
        read = self._tables.read(missing, part) if missing else {}
        for id in missing:
            found[id] = read.get(id)
            self._keep(id, found[id])
        return {id: rows.rename_like(wanted[id]) for id, rows in found.items() if rows is not None}

    def _keep(self, id: str, rows: Rows | None) -> None:
        values = 0 if rows is None else len(rows) * (len(rows.columns) + 1)
        if self._values + values <= _KEPT_VALUES:
            self._kept[id] = rows
            self._values += values

    def count(self, id: str) -> int:
        kept = self._kept.get(id)
        return self._tables.count(id) if kept is None else len(kept)

    def find_version(self, id: str) -> int | None:
        return self._tables.find_version(id)

    def require_files(self, ids: Collection[str]) -> None:
        self._tables.require_files([id for id in ids if id not in self._kept])
