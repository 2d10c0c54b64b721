"""What else could be done with the same CSV files: plain Spark that merges nothing, and DuckDB.

Both know the schema of the simulated tables, which the lake had to find out.
"""

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
from pyspark.sql import SparkSession

from bench.lake_work import Clock, Totals, added

_META = {
    "#op": "string",
    "#table": "string",
    "#schema": "string",
    "#ts": "bigint",
    "#old": "string",
}
_COLUMNS = {
    "id": "bigint",
    "name": "string",
    "status": "string",
    "quantity": "int",
    "amount": "decimal(12,2)",
    "ratio": "double",
    "note": "string",
    "created_at": "timestamp_ntz",
    "updated_at": "timestamp",
}
# Seconds, and seconds of processors.
Took = tuple[float, float]
# As many tables at once as the lake.
_AT_ONCE = 4


def files_of(data: Path) -> dict[str, list[str]]:
    """The data files of each table."""
    found = defaultdict(list)
    for path in sorted(data.glob("*/*/*/*/CDC*.csv")):
        found[path.relative_to(data).parts[1]].append(str(path))
    return found


def plain_spark(spark: SparkSession, data: Path, out: Path) -> tuple[Took, int]:
    """Read and write every row as it comes; what it took, and how many keys came."""
    schema = ", ".join(f"`{name}` {type}" for name, type in {**_META, **_COLUMNS}.items())

    def copy(table: str, files: list[str]) -> None:
        reader = spark.read.schema(schema).option("header", True).option("multiLine", True)
        rows = reader.options(nullValue="\\N", quote='"', escape='"').csv(files)
        rows.select("#op", "#ts", *_COLUMNS).write.parquet(str(out / table))

    clock = Clock()
    tables = files_of(data)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(copy, tables, tables.values()))
    took = clock.read()
    with duckdb.connect() as db:
        # A table's folder tells its rows from those of others.
        keys = _one(
            db,
            "SELECT count(DISTINCT (parse_path(filename)[-2], id))"
            f" FROM read_parquet('{out}/*/*.parquet', filename = true)",
        )
    return took, int(keys[0])


def in_duckdb(data: Path, out: Path) -> tuple[Took, Totals]:
    """The newest row of every key that is not deleted, written to a file a table."""
    types = {"string": "varchar", "timestamp_ntz": "timestamp"}
    columns = {n: types.get(t, t) for n, t in {**_META, **_COLUMNS}.items()}
    chosen = ", ".join(_COLUMNS)
    out.mkdir(parents=True)
    with duckdb.connect() as db:
        clock = Clock()
        for table, files in files_of(data).items():
            db.execute(
                f"""COPY (
                    SELECT {chosen}, "#ts" AS _commit_ts
                    FROM read_csv({files}, columns = {columns}, auto_detect = false, header = true,
                        delim = ',', quote = '"', escape = '"', nullstr = '\\N',
                        allow_quoted_nulls = false)
                    QUALIFY "#op" <> 'D' AND row_number() OVER (
                        PARTITION BY id ORDER BY "#ts" DESC, "#op" = 'D') = 1
                ) TO '{out}/{table}.parquet'"""
            )
        took = clock.read()
        totals = _one(
            db,
            f"SELECT count(*), sum(quantity), sum(amount) FROM read_parquet('{out}/*.parquet')",
        )
    return took, added([totals])


def _one(db: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    found = db.execute(query).fetchone()
    assert found is not None
    return found
