"""Baselines that load the same CSV files: plain Spark without merging, and DuckDB.

They know the schema of the simulated tables in advance; the lake reads it from the changefeed.
"""

from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.lake_work import Totals, sum_totals
from bench.processes import Clock

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
# Wall-clock seconds and CPU seconds.
Seconds = tuple[float, float]


def find_data_files(data: Path) -> dict[str, list[str]]:
    """Return the data files of each table."""
    found = defaultdict(list)
    for path in sorted(data.glob("*/*/*/*/CDC*.csv")):
        found[path.relative_to(data).parts[1]].append(str(path))
    return found


def plain_spark(spark: SparkSession, data: Path, out: Path) -> tuple[Seconds, int]:
    """Read and write every row unchanged; return the time and the number of distinct keys."""

    def copy(table: str, files: list[str]) -> None:
        rows = _rows(spark, files, {**_META, **_COLUMNS})
        rows.select("#op", "#ts", *_COLUMNS).write.parquet(str(out / table))

    seconds = _copy_tables(data, copy)
    with duckdb.connect() as db:
        # The folder of a file is its table.
        keys = _fetch_row(
            db,
            "SELECT count(DISTINCT (parse_path(filename)[-2], id))"
            f" FROM read_parquet('{out}/*/*.parquet', filename = true)",
        )
    return seconds, int(keys[0])


def plain_spark_twice(spark: SparkSession, data: Path, out: Path) -> Seconds:
    """Write rows as JSON, then read and type them: what any lake with an event log must do.

    It checks no value, drops no repetition and merges nothing, so the lake cannot be faster.
    """
    texts = dict.fromkeys({**_META, **_COLUMNS}, "string")

    def copy(table: str, files: list[str]) -> None:
        events, rows = str(out / "events" / table), str(out / "rows" / table)
        image = F.to_json(F.struct(*_COLUMNS), {"ignoreNullFields": "false"}).alias("after")
        _rows(spark, files, texts).select("#op", "#ts", image).write.parquet(events)
        typed = F.from_json("after", _ddl(_COLUMNS)).alias("row")
        read = spark.read.parquet(events).select("#op", "#ts", typed)
        read.select("#op", "#ts", "row.*").write.parquet(rows)

    return _copy_tables(data, copy)


def _rows(spark: SparkSession, files: list[str], columns: dict[str, str]) -> DataFrame:
    reader = spark.read.schema(_ddl(columns)).option("header", True).option("multiLine", True)
    return reader.options(nullValue="\\N", quote='"', escape='"').csv(files)


def _ddl(columns: dict[str, str]) -> str:
    return ", ".join(f"`{name}` {type}" for name, type in columns.items())


def _copy_tables(data: Path, copy: Callable[[str, list[str]], None]) -> Seconds:
    clock = Clock()
    tables = find_data_files(data)
    # The lake works on as many tables at once.
    with ThreadPoolExecutor() as pool:
        list(pool.map(copy, tables, tables.values()))
    return clock.read()


def in_duckdb(data: Path, out: Path) -> tuple[Seconds, Totals]:
    """Write the newest row of every key that is not deleted, one file per table."""
    types = {"string": "varchar", "timestamp_ntz": "timestamp"}
    columns = {n: types.get(t, t) for n, t in {**_META, **_COLUMNS}.items()}
    chosen = ", ".join(_COLUMNS)
    out.mkdir(parents=True)
    with duckdb.connect() as db:
        clock = Clock()
        for table, files in find_data_files(data).items():
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
        seconds = clock.read()
        totals = _fetch_row(
            db,
            f"SELECT count(*), sum(quantity), sum(amount) FROM read_parquet('{out}/*.parquet')",
        )
    return seconds, sum_totals([totals])


def _fetch_row(db: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    row = db.execute(query).fetchone()
    assert row is not None
    return row
