"""Baselines on the same CSV files: plain Spark, which merges nothing, and DuckDB.

All know the schema of the simulated tables; the lake has to read it from the changefeed.
"""

from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

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
# Wall-clock seconds, and processor seconds.
Took = tuple[float, float]


def files_of(data: Path) -> dict[str, list[str]]:
    """List the data files of each table."""
    found = defaultdict(list)
    for path in sorted(data.glob("*/*/*/*/CDC*.csv")):
        found[path.relative_to(data).parts[1]].append(str(path))
    return found


def plain_spark(spark: SparkSession, data: Path, out: Path) -> tuple[Took, int]:
    """Copy every row to Parquet, typed; return the time and the number of distinct keys."""

    def copy(table: str, files: list[str]) -> None:
        rows = _rows(spark, files, {**_META, **_COLUMNS})
        rows.select("#op", "#ts", *_COLUMNS).write.parquet(str(out / table))

    took = _each_table(data, copy)
    with duckdb.connect() as db:
        # The folder of a row identifies its table.
        keys = _one(
            db,
            "SELECT count(DISTINCT (parse_path(filename)[-2], id))"
            f" FROM read_parquet('{out}/*/*.parquet', filename = true)",
        )
    return took, int(keys[0])


def plain_spark_twice(spark: SparkSession, data: Path, out: Path) -> Took:
    """Do the least that a lake with events has to do: write rows as JSON, then typed.

    Nothing is validated, deduplicated or merged, so the lake cannot be faster than this.
    """
    texts = dict.fromkeys({**_META, **_COLUMNS}, "string")

    def copy(table: str, files: list[str]) -> None:
        events, rows = str(out / "events" / table), str(out / "rows" / table)
        image = F.to_json(F.struct(*_COLUMNS), {"ignoreNullFields": "false"}).alias("after")
        _rows(spark, files, texts).select("#op", "#ts", image).write.parquet(events)
        typed = F.from_json("after", _ddl(_COLUMNS)).alias("row")
        read = spark.read.parquet(events).select("#op", "#ts", typed)
        read.select("#op", "#ts", "row.*").write.parquet(rows)

    return _each_table(data, copy)


def _rows(spark: SparkSession, files: list[str], columns: dict[str, str]) -> DataFrame:
    reader = spark.read.schema(_ddl(columns)).option("header", True).option("multiLine", True)
    return reader.options(nullValue="\\N", quote='"', escape='"').csv(files)


def _ddl(columns: dict[str, str]) -> str:
    return ", ".join(f"`{name}` {type}" for name, type in columns.items())


def _each_table(data: Path, copy: Callable[[str, list[str]], None]) -> Took:
    clock = Clock()
    tables = files_of(data)
    # As many tables at once as the lake.
    with ThreadPoolExecutor() as pool:
        list(pool.map(copy, tables, tables.values()))
    return clock.read()


def in_duckdb(data: Path, out: Path) -> tuple[Took, Totals]:
    """Write the newest row of every key that is not deleted, to one file per table."""
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
