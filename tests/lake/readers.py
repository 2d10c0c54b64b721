"""Readers of Delta tables besides Spark, each by its name in docs/lake.md."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

# The columns of the table of readers in docs/lake.md, and the protocol's names for them.
FEATURES: Mapping[str, str] = {
    "plain, `timestampNtz`": "timestampNtz",
    "deletion vectors": "deletionVectors",
    "column mapping": "columnMapping",
    "type widening": "typeWidening",
}


def _read_with_delta_rs(path: str, version: int) -> pa.Table:
    query = QueryBuilder().register("t", DeltaTable(path, version=version))
    return pa.table(query.execute("SELECT * FROM t").read_all())


def _read_with_pandas(path: str, version: int) -> pa.Table:
    frame = _read_with_delta_rs(path, version).to_pandas(types_mapper=pandas.ArrowDtype)
    return pa.Table.from_pandas(frame, preserve_index=False)


def _read_with_polars(path: str, version: int) -> pa.Table:
    return polars.read_delta(path, version=version).to_arrow()


def _read_with_duckdb(path: str, version: int) -> pa.Table:
    with _open_duckdb().cursor() as cursor:
        cursor.execute("SET TimeZone = 'UTC'")
        found = cursor.sql(f"SELECT * FROM delta_scan('{path}', version := {version})")
        return found.to_arrow_table()


@cache
def _open_duckdb() -> duckdb.DuckDBPyConnection:
    """Open a database that reads Delta, once: loading the extension takes longer than a table."""
    (extension,) = Path(str(files("duckdb_extension_delta"))).glob("extensions/*/delta.*")
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension}'")
    return connection


# Each reads a table at a path and a Delta version.
READERS: Mapping[str, Callable[[str, int], pa.Table]] = {
    "delta-rs": _read_with_delta_rs,
    "pandas, through delta-rs": _read_with_pandas,
    "Polars": _read_with_polars,
    "DuckDB": _read_with_duckdb,
}


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


def read_document() -> dict[str, dict[str, bool]]:
    """Return which features docs/lake.md says that each reader reads."""
    text = (Path(__file__).parents[2] / "docs" / "lake.md").read_text()
    table = text[text.index("| reader |") :].partition("\n\n")[0]
    (_, *names), _, *lines = ([*map(str.strip, row[1:-1].split("|"))] for row in table.splitlines())
    return {
        reader: {
            name: {"yes": True, "no": False}[said] for name, said in zip(names, row, strict=True)
        }
        for reader, *row in lines
    }
