"""Readers of Delta tables besides Spark, each by its name in docs/lake.md."""

from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder


def _read_with_delta_rs(path: str, version: int) -> pa.Table:
    query = QueryBuilder().register("t", DeltaTable(path, version=version))
    return pa.table(query.execute("SELECT * FROM t").read_all())


def _read_with_polars(path: str, version: int) -> pa.Table:
    return polars.read_delta(path, version=version).to_arrow()


def _read_with_duckdb(path: str, version: int) -> pa.Table:
    (extension,) = Path(str(files("duckdb_extension_delta"))).glob("extensions/*/delta.*")
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.sql(f"SELECT * FROM delta_scan('{path}', version := {version})")
        return found.to_arrow_table()


# Each reads a table at a path and a Delta version.
READERS: Mapping[str, Callable[[str, int], pa.Table]] = {
    "delta-rs, and pandas through it": _read_with_delta_rs,
    "Polars": _read_with_polars,
    "DuckDB": _read_with_duckdb,
}


def list_lines(rows: pa.Table, schema: pa.Schema) -> list[str]:
    """List rows as sorted texts, in the types of a schema."""
    return sorted(map(str, rows.select(schema.names).cast(schema).to_pylist()))
