"""Measure a verification of a large table: equal, and with a thousandth of its rows different.

Run as `python -m bench.verify [--rows N]`; it needs mariadbd.  The baseline, in the same run, is
what no comparison row by row can do without: reading all rows of the table, and nothing more.
Nothing passes or fails, but the output says if the result is not the expected one.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pymysql
from pymysql.cursors import SSCursor
from pyspark.sql import DataFrame, SparkSession

from bench.figure import Figure, read_load
from bench.processes import Clock
from tests.lake.upstream_copy import UpstreamCopy, read_schema
from tests.mariadb_server import MariaDb, run_mariadb
from tests.servers import HOST
from ticdc_assets.log.verifications import TableVerification
from ticdc_assets.resources.spark import get_session

_DDL = """CREATE TABLE orders (id bigint NOT NULL PRIMARY KEY, customer int NOT NULL,
    state varchar(20), price decimal(12,2), placed datetime, note text) CHARACTER SET utf8mb4"""
_MYSQL_ROWS = """INSERT INTO orders
    SELECT seq, seq MOD 1000, CONCAT('state ', seq MOD 7), seq / 100,
    TIMESTAMP'2024-01-01 00:00:00' + INTERVAL seq SECOND, REPEAT(CONCAT('note ', seq, ' '), 8)
    FROM seq_1_to_{rows}"""
_SPARK_ROWS = """SELECT id, int(id % 1000) customer, concat('state ', id % 7) state,
    cast(id / 100 as decimal(12,2)) price, repeat(concat('note ', id, ' '), 8) note,
    timestamp_ntz'2024-01-01 00:00:00' + make_dt_interval(0, 0, 0, id) placed,
    CAST(NULL AS array<struct<key: string, value: string>>) _inexact FROM range(1, {end})"""
_EVERY = 1000


def measure(*arguments: str) -> list[Figure]:
    """Measure, print and return the results."""
    parser = argparse.ArgumentParser(prog="python -m bench.verify", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args(arguments).rows
    with tempfile.TemporaryDirectory(prefix="bench-verify-") as made:
        folder = Path(made)
        with run_mariadb(folder) as server:
            spark = get_session(str(folder / "lake"))
            copy = _fill(spark, folder, server, rows)
            print(f"{rows:,} rows; load average {read_load()}")
            # The first run also loads and compiles what runs need.
            _verify(copy, "first run, equal", rows, 0)
            read, baseline = _time(lambda: _read_all(server))
            print(f"SELECT *: {baseline:.1f} s, {read:,} rows sent")
            figures = [_verify(copy, "equal", rows, 0)]
            server.run("USE bench", f"UPDATE orders SET note = 'x' WHERE id % {_EVERY} = 0")
            figures.append(_verify(copy, "0.1% of rows differ", rows, rows // _EVERY))
            spark.stop()
    return [figure(baseline) for figure in figures]


def _fill(spark: SparkSession, folder: Path, server: MariaDb, rows: int) -> UpstreamCopy:
    server.run(
        "CREATE DATABASE bench CHARACTER SET utf8mb4",
        "USE bench",
        _DDL,
        _MYSQL_ROWS.format(rows=rows),
    )
    copy = UpstreamCopy.make(spark, folder / "lake", server)
    frame: DataFrame = spark.sql(_SPARK_ROWS.format(end=rows + 1))
    copy.put(read_schema("bench", _DDL), frame)
    return copy


def _verify(copy: UpstreamCopy, name: str, rows: int, different: int) -> Callable[[float], Figure]:
    clock = Clock()
    (found,) = copy.verify()
    usage = clock.read_usage()
    print(f"{name}: {usage.seconds:.1f} s, {_describe(found)}")
    if (found.lake_rows, found.different_rows) != (rows, different):
        print(f"NOT AS EXPECTED: {found}")
    return lambda baseline: Figure(
        group="verify",
        name=f"{rows:,} rows, {name}",
        value=usage.seconds,
        unit="s",
        baseline_name="SELECT * of the table",
        baseline=baseline,
        usage=usage,
    )


def _describe(found: TableVerification) -> str:
    return (
        f"{found.different_rows:,} rows differ; upstream read {found.rows_summed:,} rows for sums"
        f" and sent {found.rows_sent:,}; {found.spans:,} ranges"
    )


def _read_all(server: MariaDb) -> int:
    """Read the table as a client does that compares rows itself, without comparing them."""
    count = 0
    connection = pymysql.connect(host=HOST, port=server.port, user="root", database="bench")
    with connection, connection.cursor(SSCursor) as cursor:
        cursor.execute("SELECT * FROM orders ORDER BY id")
        while rows := cursor.fetchmany(10_000):
            count += len(rows)
    return count


def _time(work: Callable[[], int]) -> tuple[int, float]:
    start = time.monotonic()
    return work(), time.monotonic() - start


if __name__ == "__main__":
    import sys

    measure(*sys.argv[1:])
