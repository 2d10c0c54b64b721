"""Rows that libraries for frames read: Arrow, Polars, pandas and DuckDB."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from ticdc_assets.changefeed.sink_uri import nearest
from ticdc_assets.errors import ConfigError
from ticdc_assets.reading.faults import explain_argument
from ticdc_assets.rows.columns import fold_case
from ticdc_assets.safe_text import quote_given

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars


class ReadableRows(ABC):
    """Rows that can be read any number of times, and are the same each time."""

    @property
    @abstractmethod
    def arrow_schema(self) -> pa.Schema:
        """The columns that rows have."""

    @abstractmethod
    def _open(self, schema: pa.Schema) -> pa.RecordBatchReader:
        """Read the columns of a schema, which are some of `arrow_schema`."""

    def batches(self, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """Read rows in batches, all columns or some: memory does not depend on their number."""
        schema = self.arrow_schema
        return self._open(schema if columns is None else _select(schema, columns))

    def arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return an Arrow table, of all columns or some."""
        return self.batches(columns).read_all()

    def polars(self, columns: Sequence[str] | None = None) -> "polars.DataFrame":
        """Return a frame of Polars, of all columns or some."""
        try:
            import polars
        except ImportError:
            raise ImportError("polars() takes Polars: install the package polars") from None
        return polars.DataFrame(self.arrow(columns))

    def pandas(self, columns: Sequence[str] | None = None) -> "pandas.DataFrame":
        """Return a frame of pandas, of all columns or some, with the types of Arrow."""
        import pandas

        frame: pandas.DataFrame = self.arrow(columns).to_pandas(types_mapper=pandas.ArrowDtype)
        return frame

    def duckdb(
        self, connection: "duckdb.DuckDBPyConnection | None" = None
    ) -> "duckdb.DuckDBPyRelation":
        """Return a relation of a connection, by default of DuckDB's own one.

        It reads when it is queried, and each time anew.
        """
        return choose_connection(connection).from_arrow(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        # Whatever takes Arrow streams takes these rows.
        return self.batches().__arrow_c_stream__(requested_schema)


def choose_connection(given: object) -> "duckdb.DuckDBPyConnection":
    """Return a connection that was given, or else DuckDB's own one."""
    import duckdb

    if given is None:
        return duckdb.default_connection()
    if not isinstance(given, duckdb.DuckDBPyConnection):
        raise explain_argument("connection", "a connection of DuckDB, or left out", given)
    return given


def _select(schema: pa.Schema, columns: object) -> pa.Schema:
    """Choose columns by their names, whose case does not matter."""
    if not isinstance(columns, Iterable):
        raise explain_argument("columns", "a list of names", columns)
    names = [columns] if isinstance(columns, str) else [*columns]
    if isinstance(columns, str) or not all(isinstance(name, str) for name in names):
        given = quote_given(str(columns))
        raise ConfigError(f"must be a list of names, not {given}", setting="columns")
    if not names:
        raise ConfigError("has no name: leave it out for all columns", setting="columns")
    fields = {fold_case(field.name): field for field in schema}
    for name in names:
        if fold_case(name) not in fields:
            hint = nearest(name, schema.names)
            raise ConfigError(f"there is no column {quote_given(name)}{hint}", setting="columns")
    return pa.schema([fields[fold_case(name)] for name in names])
