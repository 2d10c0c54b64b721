"""Write all tables, as they were at one ts, into a folder that no later run changes.

The folder states in `snapshot.json` what it is of, from the beginning on, and at the end in
`tables.json` which table is where.  An export that was killed is repeated.
A folder of a ts of which the lake has other rows since is not taken.

A shallow export refers to the data files of the lake where a current table has the rows of that ts:
it takes no time and no space, Spark reads it, and maintenance that removes old files ends it.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import msgspec
from deltalake.exceptions import DeltaError
from msgspec import structs
from py4j.protocol import Py4JJavaError
from pyarrow import fs
from pyspark.sql import Observation
from pyspark.sql import functions as F

from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.apply.table_commits import make_columns
from ticdc_assets.lake.apply.table_features import (
    COLUMN_MAPPING,
    PLAIN_PROPERTIES,
    choose_new_properties,
    list_needed_properties,
)
from ticdc_assets.log.applied_files import read_snapshot_names
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.rows.columns import list_delta_columns
from ticdc_assets.rows.table_rows import write_table
from ticdc_assets.safe_text import describe_error
from ticdc_assets.store.data_files import write_into
from ticdc_assets.store.delta_log import count_rows
from ticdc_assets.store.json_files import read_json_file, write_json_file
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader, open_folder
from ticdc_assets.store.sql import delta_table
from ticdc_assets.store.work_size import sized_for
from ticdc_assets.store.writer import create_table
from ticdc_assets.views.asof import AsOfView

Format = Literal["delta", "parquet", "shallow"]
# Called after each table with how many are written, and how many there are.
Progress = Callable[[int, int], None]

_WHAT, _TABLES = "snapshot.json", "tables.json"


class _What(msgspec.Struct, frozen=True):
    """What a folder holds: of which changefeed, at which ts, in which format.

    The rows of that ts may change with a later snapshot than `snapshot`.
    """

    changefeed: str
    ts: int
    format: Format
    snapshot: int


class ExportedTable(msgspec.Struct, frozen=True):
    """A table in the folder; without a path, one that is waiting or paused and was not written."""

    database: str
    table: str
    status: str
    path: str | None = None
    rows: int | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Exporter:
    """Writes the tables of a view into a folder: a path, or the URI of an object store."""

    location: Lake
    folder: str
    format: Format

    def export(self, view: AsOfView, progress: Progress) -> list[ExportedTable]:
        """Write every table, unless a former export did."""
        written = self.find_written(view.ts, view.snapshots)
        if written is not None:
            return written
        with self._explained():
            if "://" not in self.folder:
                os.makedirs(self.folder, exist_ok=True)
            store = open_folder(self.folder)
            write_json_file(store, _WHAT, self._describe(view.ts, view.snapshots))
        exported: list[ExportedTable] = []
        tables = view.tables()
        view.prepare(tables)
        for table in tables:
            exported.append(self._write(view, table))
            progress(len(exported), len(tables))
        with self._explained():
            write_json_file(store, _TABLES, exported)
        return exported

    def find_written(self, ts: int, snapshots: tuple[int, int]) -> list[ExportedTable] | None:
        """Return the tables of a former export of the same, if it wrote the whole of it.

        Raise a `ConfigError` unless the folder is empty or of such an export: nothing else is ever
        overwritten.
        """
        with self._explained():
            if "://" not in self.folder and not os.path.exists(self.folder):
                return None
            return self._find_written(open_folder(self.folder), self._describe(ts, snapshots))

    def _describe(self, ts: int, snapshots: tuple[int, int]) -> _What:
        newest = _find_newest_snapshot(self.location, snapshots)
        return _What(self.location.changefeed, ts, self.format, newest)

    def _find_written(self, store: fs.FileSystem, what: _What) -> list[ExportedTable] | None:
        selector = fs.FileSelector("", allow_not_found=True)
        names = {info.base_name for info in store.get_file_info(selector)}
        if names:
            former = read_json_file(store, _WHAT, _What) if _WHAT in names else None
            if former is None and names != {_WHAT}:
                reason = "is not empty, and holds no snapshot: choose another folder"
                raise ConfigError(reason, file=self.folder, setting="--into")
            if former is not None and former != what:
                raise ConfigError(_compare(former, what), file=self.folder, setting="--into")
            if _TABLES in names:
                return read_json_file(store, _TABLES, list[ExportedTable])
        return None

    def _write(self, view: AsOfView, table: Incarnation) -> ExportedTable:
        schema = table.schema
        version = view.find_version(table) if self.format == "shallow" else None
        if version is not None:
            rows: int | None = self._clone(view.lake, table, version)
        else:
            rows = self._copy(view, table)
        return ExportedTable(
            schema.database,
            schema.table,
            table.shown_status,
            None if rows is None else table.id,
            rows,
            table.shown_reason,
        )

    def _copy(self, view: AsOfView, table: Incarnation) -> int | None:
        """Write the rows of a table, and count them; None if it is waiting or paused."""
        if view.why_spark(table) is not None or self._needs_spark(table):
            return self._copy_with_spark(view, table)
        rows = view.rows(table)
        if rows is None:
            return None
        columns = make_columns(table.schema, table.shown_layout, with_map=True)
        stored = write_table(rows, table.schema, table.shown_layout).cast(columns)
        path = self._find_path(table)
        with self._explained():
            # What a killed export left.
            self._remove(table)
            file = write_into(path, stored)
            if self.format != "parquet":
                create_table(path, columns, [file], PLAIN_PROPERTIES)
        return len(rows)

    def _needs_spark(self, table: Incarnation) -> bool:
        """Whether only Spark writes a Delta table with these columns, to this folder."""
        needed = list_needed_properties(list_delta_columns(table.schema))
        # delta-rs takes a percent sign for an escape.
        takes_spark = COLUMN_MAPPING in needed or "%" in self.folder
        return self.format != "parquet" and takes_spark

    def _copy_with_spark(self, view: AsOfView, table: Incarnation) -> int | None:
        with sized_for(view.lake, small=view.why_spark(table) is None):
            frame = view.frame(table)
            if frame is None:
                return None
            counted = Observation()
            frame = frame.observe(counted, F.count(F.lit(1)).alias("rows"))
            writer = frame.write.mode("overwrite")
            if self.format == "parquet":
                writer.parquet(self._find_path(table))
            else:
                properties = choose_new_properties(list_delta_columns(table.schema))
                writer = writer.format("delta").options(overwriteSchema="true", **properties)
                writer.save(self._find_path(table))
            return _read_count(counted)

    def _clone(self, lake: LakeSession, table: Incarnation, version: int) -> int:
        """Refer to the files of a version of a current table, and count its rows."""
        with self._explained():
            # Delta clones into no folder that has files: those of an export that was killed, say.
            self._remove(table)
        target = delta_table(self._find_path(table))
        source = f"{delta_table(lake.current_path(table.id))} VERSION AS OF {version}"
        with sized_for(lake, small=True):
            lake.spark.sql(f"CREATE TABLE {target} SHALLOW CLONE {source}").collect()
        return count_rows(LakeReader(self.location), f"current/{table.id}", version)

    def _remove(self, table: Incarnation) -> None:
        store = open_folder(self.folder)
        if store.get_file_info(table.id).type is not fs.FileType.NotFound:
            store.delete_dir(table.id)

    def _find_path(self, table: Incarnation) -> str:
        return f"{self.folder}/{table.id}"

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (DeltaError, OSError) as error:
            reason = f"cannot be written: {describe_error(error)}"
            raise ConfigError(reason, file=self.folder, setting="--into") from None


def _find_newest_snapshot(location: Lake, snapshots: tuple[int, int]) -> int:
    """Find the newest snapshot that may have changed rows of a view (`AsOfView.snapshots`).

    Rows between two snapshots change with a replay that starts from the first one, or before it.
    """
    base, last = snapshots
    ids = [
        name.snapshot_id
        for name in read_snapshot_names(LakeReader(location))
        if name.replayed_from is not None and name.replayed_from <= base
    ]
    return max([base, *(id for id in ids if id <= last)])


def _compare(former: _What, what: _What) -> str:
    """Return why a folder of a former export cannot be taken."""
    holds = f"holds {former.changefeed} at {former.ts} as {former.format}"
    if structs.replace(former, snapshot=what.snapshot) != what:
        return holds
    return f"{holds}, and the lake has other rows of that ts since: choose another folder"


def _read_count(counted: Observation) -> int:
    """Return the rows of an observed frame; 0 if Spark left the frame out of what it ran.

    It leaves out what it finds to have no rows, while it runs too.  Its Python client then fails to
    read the metrics; the client of Spark Connect returns none.
    """
    try:
        return int(counted.get.get("rows", 0))
    except Py4JJavaError as error:
        if "java.lang.AssertionError" not in str(error.java_exception):
            raise
        return 0
