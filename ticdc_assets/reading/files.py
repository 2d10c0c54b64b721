"""The data files of a version of a current table: as batches, and for DuckDB to scan by itself."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ticdc_assets.reading.rows import ReadableRows, choose_connection
from ticdc_assets.rows.columns import COMMIT_TS, fold_case
from ticdc_assets.store.sql import quote_standard_name
from ticdc_assets.store.stored_rows import StoredRows

if TYPE_CHECKING:
    import duckdb

# With these, a column has the same type in every file.
_SAME_TYPES = frozenset(("columnMapping", "deletionVectors", "timestampNtz"))


@dataclass(frozen=True)
class StoredTable(ReadableRows):
    """A version of a current table, read with the columns that the table has upstream."""

    stored: StoredRows
    schema: pa.Schema

    @property
    def arrow_schema(self) -> pa.Schema:
        return self.schema

    def _open(self, schema: pa.Schema) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(schema, self._read(schema))

    def _read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        names = self._find_names(schema)
        # A table may lack all of these columns, but not this one.
        for block in self.stored.read(names.values() or [COMMIT_TS]):
            count = len(next(iter(block.values())))
            columns = (
                block[names[field.name]].cast(field.type)
                if field.name in names
                else pa.nulls(count, field.type)
                for field in schema
            )
            yield pa.RecordBatch.from_arrays(list(columns), schema=schema)

    def _find_names(self, schema: pa.Schema) -> Mapping[str, str]:
        """Return by the name of a column here the one that it has in the version, if it has one."""
        stored = {fold_case(name): name for name in self.stored.physical_names}
        found = ((field.name, stored.get(fold_case(field.name))) for field in schema)
        return {name: other for name, other in found if other is not None}

    def duckdb(
        self, connection: "duckdb.DuckDBPyConnection | None" = None
    ) -> "duckdb.DuckDBPyRelation":
        """Return a relation that reads no more of the files than a query needs.

        It reads files of which rows are deleted as a stream, since no file states which those are.
        """
        files = self.stored.state.files
        whole = [file for file in files if file.deleted is None]
        if not whole or not self.stored.state.reader_features <= _SAME_TYPES:
            return super().duckdb(connection)
        names = self._find_names(self.schema)
        physical = {name: self.stored.physical_names[other] for name, other in names.items()}
        fields = [field.with_name(physical.get(field.name, field.name)) for field in self.schema]
        dataset = self.stored.with_files(whole).open_dataset(pa.schema(fields))
        scanned = choose_connection(connection).from_arrow(dataset)
        if any(name != other for name, other in physical.items()):
            pairs = zip(fields, self.schema, strict=True)
            renamed = (
                f"{quote_standard_name(old.name)} AS {quote_standard_name(new.name)}"
                for old, new in pairs
            )
            scanned = scanned.project(", ".join(renamed))
        rest = [file for file in files if file.deleted is not None]
        if not rest:
            return scanned
        streamed = StoredTable(self.stored.with_files(rest), self.schema)
        return scanned.union(streamed.duckdb(connection))
