"""One table at one ts."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from ticdc_assets.errors import ConfigError
from ticdc_assets.events.tso_text import describe_ts
from ticdc_assets.plan.state import Incarnation, ShownStatus
from ticdc_assets.reading.description import TableDescription, describe_table
from ticdc_assets.reading.faults import explain_argument, naming_parameters
from ticdc_assets.reading.files import StoredTable
from ticdc_assets.reading.moment import Dated
from ticdc_assets.reading.rows import ReadableRows
from ticdc_assets.reading.versions import PinnedVersions, open_versions
from ticdc_assets.rows.columns import make_row_schema
from ticdc_assets.rows.table_rows import write_table
from ticdc_assets.safe_text import escape_control
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.uris import format_uri
from ticdc_assets.views.asof import AsOfView
from ticdc_assets.views.overview import SchemaVersionRow, read_schema_versions

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import DataFrame, SparkSession


class DeltaVersion(NamedTuple):
    """A version of a Delta table, for any reader of Delta."""

    location: str
    version: int


@dataclass(frozen=True, repr=False, eq=False)
class PinnedTable(Dated, ReadableRows):
    """A table as it was at one ts, whatever happens to it later."""

    _view: AsOfView
    _table: Incarnation

    @property
    def database(self) -> str:
        return self._table.schema.database

    @property
    def table(self) -> str:
        return self._table.schema.table

    @property
    def name(self) -> str:
        """The name as `db.table`."""
        return f"{self.database}.{self.table}"

    @property
    def status(self) -> ShownStatus:
        """`live`; `partial`, if rows are missing; `waiting` or `paused`, if it cannot be read."""
        return self._table.shown_status

    @property
    def reason(self) -> str | None:
        """Why the table is not live."""
        return self._table.shown_reason

    @property
    def resolved_ts(self) -> int:
        """The TSO up to which the table is complete: below the lake's if it stopped."""
        if self._table.is_stopped:
            return self._table.complete_ts or 0
        return self._view.ts

    @cached_property
    def schema(self) -> TableDescription:
        """The columns and the key, at this ts."""
        return describe_table(self._table.schema, self._table.shown_layout)

    @property
    def arrow_schema(self) -> pa.Schema:
        return make_row_schema(self._table.schema, self._table.shown_layout)

    def schemas(self) -> list[SchemaVersionRow]:
        """List the versions of the schema up to this ts, each with the DDL that made it."""
        versions = read_schema_versions(self._reader, self.name)
        return [
            version
            for version in versions
            if version.incarnation == self._table.id and version.valid_from <= self._view.ts
        ]

    def history(self) -> PinnedVersions:
        """Open every version of its rows up to this ts, where the changefeed keeps them."""
        return open_versions(self._reader, self._table, "history", self.resolved_ts)

    def changes(self) -> PinnedVersions:
        """Open every change of its rows up to this ts, where the changefeed keeps them."""
        return open_versions(self._reader, self._table, "changes", self.resolved_ts)

    @property
    def version(self) -> int | None:
        """The Delta version that has exactly these rows; None if no version has."""
        return None if self._stored is None else self._stored.stored.version

    def delta(self) -> DeltaVersion:
        """Return where these rows are, for readers of Delta; raise an error if no version is."""
        self._require_readable()
        if self.version is None:
            reason = (
                f"no version of {self.name} has its rows at {describe_ts(self._view.ts)}:"
                " read it with another method, or at one of snapshots()"
            )
            raise ConfigError(reason, setting="at")
        return DeltaVersion(format_uri(self._location), self.version)

    def duckdb(
        self, connection: "duckdb.DuckDBPyConnection | None" = None
    ) -> "duckdb.DuckDBPyRelation":
        self._require_readable()
        if self._stored is None:
            return super().duckdb(connection)
        return self._stored.duckdb(connection)

    def spark(self, session: "SparkSession") -> "DataFrame":
        """Return a frame of a session, which must be able to read Delta."""
        # Spark Connect has a class of its own of this name, and Spark need not be installed.
        if "SparkSession" not in (kind.__name__ for kind in type(session).__mro__):
            raise explain_argument("session", "a SparkSession", session)
        self._require_readable()
        # Its module imports Spark.
        from ticdc_assets.views.large_tables import make_frame, read_version

        lake = self._view.lake.with_spark(session)
        if self.version is not None:
            return read_version(lake, self._table, self.version)
        frame = replace(self._view, lake=lake).frame(self._table)
        return make_frame(lake, None, self._table) if frame is None else frame

    def _open(self, schema: pa.Schema) -> pa.RecordBatchReader:
        self._require_readable()
        if self._stored is not None:
            return self._stored.batches(schema.names)
        with naming_parameters():
            rows = self._view.rows(self._table)
        if rows is None:
            return schema.empty_table().to_reader()
        table = write_table(rows, self._table.schema, self._table.shown_layout)
        return table.select(schema.names).to_reader()

    def _require_readable(self) -> None:
        if not self._table.is_stopped:
            return
        reason = f"{self.name} is {self.status}: {self.reason}"
        if self.status == "paused" and self._table.complete_ts:
            ts = describe_ts(self._table.complete_ts)
            reason += f"; it is complete up to {ts}: read it at this TSO"
        raise ConfigError(reason, setting="table")

    @property
    def _reader(self) -> LakeReader:
        return LakeReader(self._view.lake.location)

    @property
    def _location(self) -> str:
        return self._view.lake.current_path(self._table.id)

    @cached_property
    def _stored(self) -> StoredTable | None:
        stored = self._view.find_stored(self._table)
        return None if stored is None else StoredTable(stored, self.arrow_schema)

    def __repr__(self) -> str:
        return f"<{escape_control(self.name)} at {self._view.ts}: {self.status}>"
