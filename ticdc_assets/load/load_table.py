"""Load one table: its rows are typed and written by whoever reads them, and committed at once."""

import secrets
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from threading import Lock

import pyarrow.compute as pc
from deltalake import CommitProperties

from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.spark_commits import commit_new
from ticdc_assets.lake.apply.table_tasks import TableDone
from ticdc_assets.load.erased_rows import read_erased_keys
from ticdc_assets.load.loaded_files import STAGE, LoadedRows, RowWriter
from ticdc_assets.load.read_ahead import read_ahead
from ticdc_assets.load.source import Portion, TableSource
from ticdc_assets.plan.load import name_loaded_incarnation
from ticdc_assets.store.data_files import WrittenFile
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.sql import quote_literal
from ticdc_assets.store.texts import replace_surrogates
from ticdc_assets.store.workers import run_in_workers
from ticdc_assets.store.writer import LakeWriter
from ticdc_assets.stream.privacy import restore_schema

# This process reads fewer bytes itself.
_FEW_BYTES = 4 << 20

# Two commits to `quarantine` at a time are one too many.
_QUARANTINE_LOCK = Lock()


@dataclass(frozen=True)
class WrittenTable:
    """What was written: the Delta version that has all rows, and how many these are."""

    version: int
    rows: int
    quarantined: int


class TableLoader:
    """Writes the rows of one table."""

    def __init__(self, lake: LakeSession, table: TableSource, schema: TableSchema, ts: int) -> None:
        """`schema`: the table as the lake has it; `ts`: when upstream had the rows."""
        self._lake = lake
        self._table = table
        self._schema = schema
        self._ts = ts
        # Another load of the table may be running, and even take effect before this one ends.
        self.incarnation = f"{name_loaded_incarnation(schema, ts)}-{secrets.token_hex(4)}"
        erased = read_erased_keys(LakeReader(lake.location), schema, ts)
        privacy = lake.feed.privacy
        self._writer = RowWriter(lake.location, self.incarnation, schema, ts, privacy, erased)

    def write(self, done: Callable[[int, int], None]) -> WrittenTable:
        """Write all rows; `done` gets rows and bytes."""
        self._forget_quarantined()
        loaded: list[LoadedRows] = []
        # The size of a table may be an estimate.
        remaining = self._table.size
        with closing(
            read_ahead(self._table.read_portions(restore_schema(self._schema)))
        ) as portions:
            for portion in portions:
                written = self._write(portion)
                loaded += written
                size = min(portion.size, remaining)
                remaining -= size
                done(sum(each.rows for each in written), size)
        if remaining:
            done(0, remaining)
        self._quarantine([file for each in loaded for file in each.quarantined_files])
        version = commit_new(
            self._lake,
            TableDone(
                self.incarnation,
                "whole",
                files=[file for each in loaded for file in each.files],
                has_map=any(each.has_map for each in loaded),
            ),
            self._schema,
            self._ts,
        )
        rows, quarantined = (
            sum(getattr(each, name) for each in loaded) for name in ("rows", "quarantined")
        )
        return WrittenTable(version, rows, quarantined)

    def _write(self, portion: Portion) -> list[LoadedRows]:
        if portion.is_here or max(portion.size, self._table.size) < _FEW_BYTES:
            return [self._writer.write(reading) for reading in portion.readings]
        bundles = [[reading] for reading in portion.readings]
        return list(run_in_workers(self._lake, self._writer.write, bundles, LoadedRows))

    # Quarantine

    def _forget_quarantined(self) -> None:
        """Remove the rows that a killed load kept."""
        schema, ts = self._schema, self._ts
        database, name = (replace_surrogates(text) for text in (schema.database, schema.table))
        mine = (
            (pc.field("stage") == STAGE)
            & (pc.field("commit_ts") == ts)
            & (pc.field("database") == database)
            & (pc.field("table") == name)
        )
        reader = LakeReader(self._lake.location)
        if reader.read(reader.open("quarantine"), ["stage"], mine).num_rows:
            with _QUARANTINE_LOCK:
                self._lake.spark.sql(
                    f"DELETE FROM {self._lake.sql('quarantine')} WHERE stage = '{STAGE}'"
                    f" AND commit_ts = {ts} AND database = {quote_literal(database)}"
                    f" AND `table` = {quote_literal(name)}"
                ).collect()

    def _quarantine(self, files: list[WrittenFile]) -> None:
        """Keep the invalid rows."""
        if not files:
            return
        with _QUARANTINE_LOCK:
            stored = LakeReader(self._lake.location).open("quarantine")
            LakeWriter(self._lake.location).append_files(stored, files, CommitProperties())
