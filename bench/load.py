"""Measure how fast an export of Dumpling's, or a database, is loaded into a current table.

Run as `python -m bench.load`; `--rows` sets the size.  A warm session loads one table of ten
columns, as SQL, CSV and Parquet, in one file each.  For comparison, plain Spark reads the rows that
were loaded, typed, from Parquet, and writes them to another Delta table: that is the part of a load
in which no byte of the export is read, checked or typed.  DuckDB does the same, to a Parquet file.
With `--upstream`, it also loads such a table from a MariaDB, which needs mariadbd; for comparison,
a Python client reads all its rows, and nothing more.  Nothing passes or fails, but the output says
if the rows differ.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Literal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pymysql
from pymysql.cursors import SSCursor
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.figure import Figure, read_load
from bench.processes import Clock
from tests.mariadb_server import MariaDb, run_mariadb
from tests.servers import HOST
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.dumpling.dialect import Dialect
from ticdc_assets.load.load import load_tables
from ticdc_assets.log.loads import read_loads
from ticdc_assets.resources.load_source import open_database, open_export
from ticdc_assets.resources.spark import get_session
from ticdc_assets.resources.upstream import UpstreamDatabase
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader

Format = Literal["sql", "csv", "parquet"]

_TSO = 470608231338082304
_FEED = "dump:///nowhere.jsonl?protocol=canal-json&enable-tidb-extension=true"
# Enough for the JIT compiler to optimize the code that rows pass through.
_WARM_UP_ROWS, _WARM_UPS = 200_000, 3
_STATEMENT_ROWS = 8000
_COLUMNS = {
    "id": "bigint NOT NULL PRIMARY KEY",
    "name": "varchar(64)",
    "status": "enum('new','paid','sent')",
    "quantity": "int unsigned",
    "amount": "decimal(12,2)",
    "ratio": "double",
    "note": "text",
    "born": "date",
    "created_at": "datetime(3)",
    "updated_at": "timestamp",
}
_STATUS = ("new", "paid", "sent")


# Dumpling writes all other types as bytes.
_PARQUET_TYPES = {
    "id": pa.int64(),
    "quantity": pa.int64(),
    "amount": pa.decimal128(12, 2),
    "ratio": pa.float64(),
    "created_at": pa.timestamp("us"),
    "updated_at": pa.timestamp("us"),
}


@dataclass(frozen=True)
class _Export:
    folder: Path
    format: Format
    rows: int
    size: int


def _write_export(folder: Path, format: Format, rows: int) -> _Export:
    """Write an export of one table, as Dumpling does by default: one file of data."""
    folder.mkdir()
    columns = ",\n".join(f"  `{name}` {kind}" for name, kind in _COLUMNS.items())
    (folder / "metadata").write_text(
        f"Started dump at: x\nSHOW MASTER STATUS:\n\tLog: tidb-binlog\n\tPos: {_TSO}\n\tGTID:\n\n"
        "Finished dump at: y\n"
    )
    (folder / "shop-schema-create.sql").write_text("CREATE DATABASE `shop`;\n")
    (folder / "shop.orders-schema.sql").write_text(f"CREATE TABLE `orders` (\n{columns}\n);\n")
    path = folder / f"shop.orders.000000000.{format}"
    if format == "parquet":
        _write_parquet(path, rows)
    else:
        with path.open("w", newline="") as file:
            file.writelines(_format_sql(rows) if format == "sql" else _format_csv(rows))
    return _Export(folder, format, rows, path.stat().st_size)


def _make_rows(rows: int) -> Iterator[tuple[object, ...]]:
    for id in range(rows):
        note = "NULL" if id % 7 == 0 else f'say \\"{id}\\" and\\nmore'
        amount = f"{id % 99999}.{id % 100:02}"
        yield (
            *(id, f"customer {id % 9973}", _STATUS[id % 3], id % 1000, amount),
            *(id / 7, note, f"20{id % 24:02}-0{id % 9 + 1}-1{id % 10}"),
            *(f"2026-11-21 02:26:{id % 60:02}.{id % 1000:03}", f"2026-11-21 02:{id % 60:02}:31"),
        )


def _format_sql(rows: int) -> Iterator[str]:
    yield "/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n/*!40101 SET NAMES binary*/;\n"
    for number, (id, name, status, quantity, amount, ratio, note, *moments) in enumerate(
        _make_rows(rows)
    ):
        if number % _STATEMENT_ROWS == 0:
            yield (";\n" if number else "") + "INSERT INTO `orders` VALUES\n"
        else:
            yield ",\n"
        text = note if note == "NULL" else f"'{note}'"
        times = ",".join(f"'{moment}'" for moment in moments)
        yield f"({id},'{name}','{status}',{quantity},{amount},{ratio},{text},{times})"
    yield ";\n"


def _format_csv(rows: int) -> Iterator[str]:
    yield ",".join(f'"{name}"' for name in _COLUMNS) + "\r\n"
    for id, name, status, quantity, amount, ratio, note, *moments in _make_rows(rows):
        text = "\\N" if note == "NULL" else f'"{note}"'
        times = ",".join(f'"{moment}"' for moment in moments)
        yield f'{id},"{name}","{status}",{quantity},{amount},{ratio},{text},{times}\r\n'


def _write_parquet(path: Path, rows: int) -> None:
    types = [_PARQUET_TYPES.get(name, pa.binary()) for name in _COLUMNS]
    schema = pa.schema(zip(_COLUMNS, types, strict=True))
    made = _make_rows(rows)
    with pq.ParquetWriter(path, schema, compression="zstd", store_schema=False) as writer:
        while some := list(islice(made, 100_000)):
            texts = [pa.array([_unescape(value) for value in c]) for c in zip(*some, strict=True)]
            arrays = [c.cast(type) for c, type in zip(texts, types, strict=True)]
            writer.write_table(pa.table(arrays, schema=schema))


def _unescape(value: object) -> str | None:
    text = str(value).replace('\\"', '"').replace("\\n", "\n")
    return None if text == "NULL" else text


def _load(spark: SparkSession, export: _Export, root: Path) -> tuple[list[Figure], str]:
    """Load an export, and write its rows once more with plain Spark, and with DuckDB."""
    feed = changefeed_from_uri(_FEED, id="bench")
    lake = LakeSession(spark, Lake(str(root / "lake"), feed.id), feed)
    clock = Clock()
    results = load_tables(lake, open_export(str(export.folder), Dialect(time_zone="UTC")))
    run = clock.read_usage()
    (load,) = read_loads(LakeReader(lake.location))
    rows = lake.read(f"current/{load.incarnation}")
    typed = str(root / "typed")
    rows.write.parquet(typed)
    clock = Clock()
    copy = str(root / "copy")
    spark.read.parquet(typed).write.format("delta").save(copy)
    plain = clock.read_usage()
    with duckdb.connect() as db:
        clock = Clock()
        db.execute(
            f"COPY (SELECT * FROM read_parquet('{typed}/*.parquet'))"
            f" TO '{root / 'duckdb.parquet'}' (COMPRESSION zstd)"
        )
        in_duckdb = clock.read_usage()
    amount = F.sum("amount").alias("amount")
    mine, theirs = (
        spark.read.format("delta")
        .load(path)
        .agg(F.count("*"), amount, F.count("note"))
        .collect()[0]
        for path in (lake.current_path(load.incarnation), copy)
    )
    fault = "" if mine == theirs and mine[0] == export.rows else f"  DIFFERENT: {mine}, {theirs}"
    fault += "".join(f"  FAILED: {r.reason}" for r in results if r.outcome != "loaded")
    baselines = {"Spark writes typed rows": plain, "DuckDB writes typed rows": in_duckdb}
    figures = [
        Figure(
            group="export",
            name=f"{export.rows:,} rows, {export.format}",
            value=export.rows / own,
            unit=unit,
            baseline_name=name,
            baseline=export.rows / other,
            usage=run,
        )
        for name, usage in baselines.items()
        for unit, own, other in (
            ("rows/s", run.seconds, usage.seconds),
            ("rows/core-s", run.cpu, usage.cpu),
        )
    ]
    print(f"  {export.format:8}{export.size / 1e6:6.0f} MB; load average {read_load()}")
    for name, usage in {"lake": run, **baselines}.items():
        print(
            f"    {name:26}{usage.seconds:8.2f} s{export.rows / usage.seconds:12,.0f} rows/s"
            f"{usage.cpu:8.2f} CPU s{export.rows / usage.cpu:12,.0f} rows/core-s"
        )
    return figures, fault


_MYSQL_ROWS = """INSERT INTO orders
    SELECT seq, CONCAT('customer ', seq MOD 9973), seq MOD 3 + 1, seq MOD 1000, seq MOD 99999,
    seq / 7, IF(seq MOD 7 = 0, NULL, CONCAT('say ', seq, ' and more')),
    DATE'2000-01-01' + INTERVAL seq MOD 9999 DAY,
    TIMESTAMP'2024-01-01 00:00:00' + INTERVAL seq SECOND, '2026-11-21 02:26:31'
    FROM seq_1_to_{rows}"""


def _load_upstream(
    spark: SparkSession, server: MariaDb, rows: int, root: Path
) -> tuple[Figure, str]:
    """Load a table of a database, and read it once more with a Python client."""
    columns = ", ".join(f"`{name}` {kind}" for name, kind in _COLUMNS.items())
    create = f"CREATE OR REPLACE TABLE orders ({columns}) CHARACTER SET utf8mb4"
    server.run("CREATE DATABASE IF NOT EXISTS shop", "USE shop", create)
    server.run("USE shop", _MYSQL_ROWS.format(rows=rows))
    start = time.monotonic()
    _read_all(server)
    plain = time.monotonic() - start
    feed = changefeed_from_uri(_FEED, id="bench")
    lake = LakeSession(spark, Lake(str(root), feed.id), feed)
    clock = Clock()
    with open_database(UpstreamDatabase(feed.id, server.upstream), feed, _TSO) as source:
        results = load_tables(lake, source, ["shop.orders"])
    run = clock.read_usage()
    (load,) = read_loads(LakeReader(lake.location))
    loaded = lake.read(f"current/{load.incarnation}")
    mine = loaded.agg(F.count("*"), F.sum("amount"), F.count("note")).collect()[0]
    (theirs,) = server.run("SELECT COUNT(*), SUM(amount), COUNT(note) FROM shop.orders")
    fault = "" if list(map(str, mine)) == list(map(str, theirs)) else f"  DIFFERENT: {mine}"
    fault += "".join(f"  FAILED: {r.reason}" for r in results if r.outcome != "loaded")
    figure = Figure(
        group="export",
        name=f"{rows:,} rows, from a database",
        value=rows / run.seconds,
        unit="rows/s",
        baseline_name="SELECT * of the table",
        baseline=rows / plain,
        usage=run,
    )
    print(
        f"  upstream{run.seconds:8.2f} s{rows / run.seconds:12,.0f} rows/s;"
        f" SELECT * {plain:6.2f} s; {plain / run.seconds:.2f} x; load average {read_load()}"
    )
    return figure, fault


def _read_all(server: MariaDb) -> None:
    connection = pymysql.connect(host=HOST, port=server.port, user="root", database="shop")
    with connection, connection.cursor(SSCursor) as cursor:
        cursor.execute("SELECT * FROM orders")
        while cursor.fetchmany(10_000):
            pass


def measure(*arguments: str) -> list[Figure]:
    """Measure, print and return the results."""
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--upstream", action="store_true", help="from a database, too")
    chosen = parser.parse_args(arguments)
    formats: Sequence[Format] = ("sql", "csv", "parquet")
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="bench-load-") as made:
        root = Path(made)
        spark = get_session(str(root))
        for format in formats:
            export = _write_export(root / f"warm-{format}", format, _WARM_UP_ROWS)
            for time in range(_WARM_UPS):
                _load(spark, export, root / f"warm-lake-{format}-{time}")
        print(f"{os.cpu_count()} cores; {chosen.rows:,} rows of {len(_COLUMNS)} columns")
        for format in formats:
            export = _write_export(root / format, format, chosen.rows)
            of_format, fault = _load(spark, export, root / f"lake-{format}")
            figures += of_format
            if fault:
                print(fault)
        if chosen.upstream:
            with run_mariadb(root / "mariadb") as server:
                _load_upstream(spark, server, _WARM_UP_ROWS, root / "warm-upstream")
                figure, fault = _load_upstream(spark, server, chosen.rows, root / "upstream")
            figures.append(figure)
            if fault:
                print(fault)
        spark.stop()
    return figures


if __name__ == "__main__":
    if isinstance(sys.stdout, TextIOWrapper):
        # Show every line at once, also through a pipe.
        sys.stdout.reconfigure(line_buffering=True)
    measure(*sys.argv[1:])
