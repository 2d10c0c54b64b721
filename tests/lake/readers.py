"""Readers of Delta tables besides Spark, each by its name in docs/readers.md."""

import os
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder


def _read_with_delta_rs(path: str, version: int) -> pa.Table:
    query = QueryBuilder().register("t", DeltaTable(path, version=version))
    return pa.table(query.execute("SELECT * FROM t").read_all())


def _read_with_pandas(path: str, version: int) -> pa.Table:
    frame = _read_with_delta_rs(path, version).to_pandas(types_mapper=pandas.ArrowDtype)
    return pa.Table.from_pandas(frame, preserve_index=False)


def _read_with_polars(path: str, version: int) -> pa.Table:
    return polars.read_delta(path, version=version).to_arrow()


def _read_with_duckdb(path: str, version: int) -> pa.Table:
    with open_duckdb().cursor() as cursor:
        cursor.execute("SET TimeZone = 'UTC'")
        found = cursor.sql(f"SELECT * FROM delta_scan('{path}', version := {version})")
        return found.to_arrow_table()


@cache
def open_duckdb() -> duckdb.DuckDBPyConnection:
    """Open a database that reads Delta, once: loading the extension takes longer than a table."""
    (extension,) = Path(str(files("duckdb_extension_delta"))).glob("extensions/*/delta.*")
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension}'")
    return connection


def _read_with_clickhouse(path: str, version: int) -> pa.Table:
    """Read the newest version: the function takes no other."""
    return without_empty(query_clickhouse(f"SELECT * FROM deltaLakeLocal('{path}')"))


def without_empty(rows: pa.Table) -> pa.Table:
    """Return rows with NULL for empty lists and maps: ClickHouse has no NULL of these."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_map(field.type) or pa.types.is_list(field.type):
            values = [value or None for value in rows[place].to_pylist()]
            rows = rows.set_column(place, field.name, pa.array(values, field.type))
    return rows


def query_clickhouse(statement: str) -> pa.Table:
    """Run a statement in a server of this process; return its rows."""
    with _clickhouse_lock:
        session, before = _open_clickhouse(), Path.cwd()
        # It reads no file outside of the working directory.
        os.chdir("/")
        try:
            content = session.query(statement, "ArrowStream").bytes()
        finally:
            os.chdir(before)
    return pa.ipc.open_stream(content).read_all() if content else pa.table({})


def open_query(engine: str) -> Callable[[str], pa.Table]:
    """Return what runs statements in an engine of this process, in names of their own."""
    if engine == "clickhouse":
        return query_clickhouse
    connection = open_duckdb().cursor()
    connection.execute("ATTACH OR REPLACE ':memory:' AS by_name; USE by_name")

    def query(statement: str) -> pa.Table:
        return connection.execute(statement).to_arrow_table()

    return query


_clickhouse_lock = Lock()


@cache
def _open_clickhouse() -> Any:
    from chdb.session import Session

    # A process has one.
    return Session()


def _read_with_daft(path: str, version: int) -> pa.Table:
    import daft

    return daft.read_deltalake(path, version=version).to_arrow()


CLICKHOUSE = "ClickHouse 26.9 (`chdb`)"
# Each reads a table at a path and a Delta version.
READERS: Mapping[str, Callable[[str, int], pa.Table]] = {
    "delta-rs 1.6": _read_with_delta_rs,
    "pandas, through delta-rs": _read_with_pandas,
    "Polars 2.1": _read_with_polars,
    "DuckDB 1.5": _read_with_duckdb,
    CLICKHOUSE: _read_with_clickhouse,
}
# Daft is no dependency of tests, since it takes no newer Arrow than that of half a year ago.
DAFT: Mapping[str, Callable[[str, int], pa.Table]] = (
    {"Daft 0.7": _read_with_daft} if find_spec("daft") else {}
)


def list_lines(rows: pa.Table, schema: pa.Schema) -> list[str]:
    """List rows as sorted texts, in the types of a schema."""
    typed = rows.select(schema.names).cast(schema)
    # Arrow knows years that Python does not.
    columns = [c.cast(_count_units(c.type)) for c in typed.columns]
    return sorted(map(str, zip(*(column.to_pylist() for column in columns), strict=True)))


def _count_units(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_date32(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(kind) else kind
