"""`sql`: engines that ran its statements read the tables by name."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.cli.conftest import Run, Shop
from tests.lake.readers import list_lines, open_duckdb
from ticdc_assets.reading import open_lake


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_an_engine_reads_tables_by_name(
    run: Run, shop: Shop, here: SparkSession, engine: str
) -> None:
    code, out, err = run("sql", "--for", engine, "shop.order*", *shop.options)
    assert (code, err) == (0, [])
    lines = [line for line in out.decode().splitlines() if line and not line.startswith("-- ")]
    connection = open_duckdb().cursor()
    connection.execute("ATTACH ':memory:' AS by_name; USE by_name; SET TimeZone = 'UTC'")

    def query(statement: str) -> pa.Table:
        if engine == "spark":
            return here.sql(statement).toArrow()
        return connection.sql(statement).to_arrow_table()

    def execute() -> None:
        for line in lines:
            if engine == "spark":
                here.sql(line.removesuffix(";")).collect()
            else:
                connection.execute(line)

    lake = open_lake(str(shop.root))
    try:
        # They do no harm the second time.
        execute()
        execute()
        for name in ("shop.orders", "shop.order_items"):
            expected = lake.table(name).arrow().drop_columns(["_inexact"])
            assert expected.num_rows
            found = query(f"SELECT * FROM {name}")
            assert list_lines(found, expected.schema) == list_lines(expected, expected.schema)
    finally:
        connection.execute("USE memory; DETACH by_name")
        if engine == "spark":
            here.sql("DROP SCHEMA IF EXISTS shop CASCADE")
    # The tables are external: only their entries are gone.
    assert Path(lake.table("shop.orders").delta().location).exists()


def test_patterns_select_tables(run: Run, shop: Shop) -> None:
    code, out, err = run("sql", "shop.order*", "!shop.orders", "--for", "duckdb", *shop.options)
    assert (code, err) == (0, [])
    assert b"order_items" in out
    assert b"shop.orders" not in out
    assert b"customers" not in out
    code, out, err = run("sql", "--for", "athena", *shop.options)
    assert (code, out) == (2, b"")
    assert err[0].startswith("ticdc-assets: --for: athena reads object stores (s3://), and the")
    code, out, err = run("sql", "--for", "oracle", *shop.options)
    assert code == 2
    assert "argument --for: invalid choice: 'oracle'" in err[0]
