"""Measure the comparison of a large table with copies that differ from it in ten rows.

Run as `python -m bench.against [--rows N] [--copies KIND ...]`; `mysql` needs mariadbd.  The
baseline, in the same run, is reading all rows of both sides once, in the same process, and nothing
more.  Nothing passes or fails, but the output says if the result is not the expected one.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pymysql
from deltalake import write_deltalake
from pymysql.cursors import SSCursor

from bench.figure import Figure, read_load
from bench.processes import Clock, Usage
from tests.lake.upstream_copy import UpstreamCopy, read_schema
from tests.mariadb_server import MariaDb, run_mariadb
from tests.servers import HOST
from tests.sql_server import VARIABLE
from ticdc_assets.changefeed.client_settings import Reference
from ticdc_assets.log.verifications import TableVerification
from ticdc_assets.resources.copies import open_copy
from ticdc_assets.verify.against import AgainstEnvironment, verify_copy
from ticdc_assets.verify.batches import Copy, RowSource, SqlTable
from ticdc_assets.verify.lake_rows import LakeRows
from ticdc_assets.views.asof import as_of

_DDL = """CREATE TABLE orders (id bigint NOT NULL PRIMARY KEY, customer int NOT NULL,
    state varchar(20), price decimal(12,2), placed datetime, note text) CHARACTER SET utf8mb4"""
_ROWS = """SELECT id, (id % 1000)::INTEGER AS customer, 'state ' || (id % 7) AS state,
    (id / 100)::DECIMAL(12, 2) AS price, TIMESTAMP '2024-01-01' + to_seconds(id) AS placed,
    repeat('note ' || id || ' ', 8) AS note FROM range(1, {end}) t(id)"""
_MYSQL_ROWS = """INSERT INTO orders
    SELECT seq, seq MOD 1000, CONCAT('state ', seq MOD 7), seq / 100,
    TIMESTAMP'2024-01-01 00:00:00' + INTERVAL seq SECOND, REPEAT(CONCAT('note ', seq, ' '), 8)
    FROM seq_1_to_{rows}"""
_ROWS_PER_FILE = 1_000_000
_KINDS = ("parquet", "delta", "duckdb", "mysql")


def measure(*arguments: str) -> list[Figure]:
    """Measure, print and return the results."""
    parser = argparse.ArgumentParser(prog="python -m bench.against", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--copies", nargs="+", choices=_KINDS, default=list(_KINDS))
    parser.add_argument("--sample", type=float, help="percent of the keys (default: all)")
    chosen = parser.parse_args(arguments)
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="bench-against-")))
        lake = UpstreamCopy.make(None, folder / "lake", None)  # type: ignore[arg-type]
        _put(lake, chosen.rows)
        print(f"{chosen.rows:,} rows; load average {read_load()}", flush=True)
        figures = []
        for kind in chosen.copies:
            copy, read = _make_copy(opened, folder, kind, chosen.rows)
            figures.append(_measure(lake, kind, copy, read, (chosen.rows, chosen.sample)))
    return figures


def _make_batches(rows: int) -> Iterator[pa.Table]:
    for first in range(1, rows + 1, _ROWS_PER_FILE):
        end = min(first + _ROWS_PER_FILE, rows + 1)
        sql = _ROWS.format(end=end).replace("range(1,", f"range({first},")
        yield duckdb.sql(sql).to_arrow_table()


def _put(lake: UpstreamCopy, rows: int) -> None:
    """Write the table of the lake, a million rows per file."""
    schema = read_schema("bench", _DDL)
    first, *others = _make_batches(min(rows, _ROWS_PER_FILE))
    assert not others
    lake.put_arrow(schema, first)
    path = lake.lake.current_path("orders-1")
    version = 0
    for number, batch in enumerate(_make_batches(rows)):
        if number:
            stamped = batch.append_column("_commit_ts", pa.array([5] * len(batch), pa.int64()))
            write_deltalake(path, stamped, mode="append")
            version += 1
    state = lake.snapshot.state
    lake.apply(state, {"orders-1": version})


def _plant(table: pa.Table, rows: int) -> pa.Table:
    """Plant ten differences: two rows are missing, two are extra, and six have another value."""
    with duckdb.connect() as connection:
        connection.register("made", table)
        step = rows // 10
        return connection.execute(
            f"""SELECT id + CASE WHEN id IN ({step}, {2 * step}) THEN {rows} ELSE 0 END AS id,
                customer + (id = {3 * step})::INTEGER AS customer,
                CASE WHEN id = {4 * step} THEN NULL ELSE state END AS state,
                CASE WHEN id IN ({5 * step}, {6 * step}) THEN 0 ELSE price END AS price,
                CASE WHEN id = {7 * step} THEN TIMESTAMP '2024-01-01' ELSE placed END AS placed,
                CASE WHEN id = {8 * step} THEN note || '.' ELSE note END AS note FROM made"""
        ).to_arrow_table()


def _make_copy(
    opened: ExitStack, folder: Path, kind: str, rows: int
) -> tuple[Copy, Callable[[], None] | None]:
    """Write a copy; return it, and how to read it where it does not give batches."""
    batches = (_plant(batch, rows) for batch in _make_batches(rows))
    path = folder / kind / "bench" / "orders"
    match kind:
        case "mysql":
            (folder / kind).mkdir()
            server = opened.enter_context(run_mariadb(folder / kind))
            _fill_mysql(server, rows)
            uri = f"mysql://verify@{HOST}:{server.port}/bench"
            copy = open_copy(uri, password=Reference("env", VARIABLE))
            return copy, lambda: _read_mysql(server)
        case "duckdb":
            file = folder / "copy.duckdb"
            with duckdb.connect(str(file)) as connection:
                connection.execute("CREATE SCHEMA bench")
                for number, batch in enumerate(batches):
                    connection.register("made", batch)
                    verb = "INSERT INTO" if number else "CREATE TABLE"
                    link = "" if number else "AS"
                    connection.execute(f"{verb} bench.orders {link} FROM made")
            return open_copy(f"duckdb:{file}"), None
        case "delta":
            for batch in batches:
                write_deltalake(path, batch, mode="append")
        case _:
            path.mkdir(parents=True)
            for number, batch in enumerate(batches):
                pq.write_table(batch, path / f"{number}.parquet", compression="zstd")
    return open_copy(f"{kind}:{folder / kind}"), None


def _fill_mysql(server: MariaDb, rows: int) -> None:
    """Let the server make the rows, and plant the same differences."""
    step = rows // 10
    server.run(
        *("CREATE DATABASE bench CHARACTER SET utf8mb4", "USE bench", _DDL),
        _MYSQL_ROWS.format(rows=rows),
        f"UPDATE orders SET id = id + {rows} WHERE id IN ({step}, {2 * step})",
        f"UPDATE orders SET customer = customer + 1 WHERE id = {3 * step}",
        f"UPDATE orders SET state = NULL WHERE id = {4 * step}",
        f"UPDATE orders SET price = 0 WHERE id IN ({5 * step}, {6 * step})",
        f"UPDATE orders SET placed = '2024-01-01' WHERE id = {7 * step}",
        f"UPDATE orders SET note = CONCAT(note, '.') WHERE id = {8 * step}",
    )


def _read_mysql(server: MariaDb) -> None:
    connection = pymysql.connect(host=HOST, port=server.port, user="root", database="bench")
    with connection, connection.cursor(SSCursor) as cursor:
        cursor.execute("SELECT * FROM orders")
        while cursor.fetchmany(10_000):
            pass


# Parameters: what is measured, and what is expected of it.
def _measure(
    lake: UpstreamCopy,
    kind: str,
    copy: Copy,
    read: Callable[[], None] | None,
    expected: tuple[int, float | None],
) -> Figure:
    rows, sample = expected
    clock = Clock()
    bytes_read = _read_lake(lake)
    if read is None:
        with copy.open("bench", "orders") as source:
            assert source is not None
            assert not isinstance(source, SqlTable)
            bytes_read += _read_all(source)
    else:
        read()
    plain = clock.read_usage()
    share = 1.0 if sample is None else sample / 100
    clock = Clock()
    environment = AgainstEnvironment(lake.lake, copy, share=share)
    (found,) = verify_copy(environment, (), lambda rows: None)
    usage = clock.read_usage()
    _print(kind, plain, usage, bytes_read, found)
    if sample is None and (found.different_rows, found.lake_rows) != (10, rows):
        print(f"NOT AS EXPECTED: {found}")
    return Figure(
        group="verify",
        name=f"{rows:,} rows against {kind}",
        value=usage.seconds,
        unit="s",
        baseline_name="reading both sides once",
        baseline=plain.seconds,
        usage=usage,
    )


def _read_lake(lake: UpstreamCopy) -> int:
    view = as_of(lake.lake)
    (table,) = view.tables()
    return _read_all(LakeRows(view, table))


def _read_all(source: RowSource) -> int:
    for unit in range(source.units):
        for _ in source.read(unit, list(source.columns)):
            pass
    return source.bytes_read


def _print(
    kind: str, plain: Usage, usage: Usage, bytes_read: int, found: TableVerification
) -> None:
    print(
        f"{kind}: read both sides: {plain.seconds:.1f} s, {plain.cpu:.1f} CPU s,"
        f" {bytes_read / 1e6:,.0f} MB; compared: {usage.seconds:.1f} s, {usage.cpu:.1f} CPU s,"
        f" {(found.bytes_read or 0) / 1e6:,.0f} MB of the copy, {found.rows_sent:,} rows sent,"
        f" {found.spans:,} ranges, {found.different_rows} rows differ;"
        f" {usage.seconds / plain.seconds:.1f} times; memory {usage.memory / 1e6:,.0f} MB",
        flush=True,
    )


if __name__ == "__main__":
    import sys

    measure(*sys.argv[1:])
