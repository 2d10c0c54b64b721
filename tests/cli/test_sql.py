"""`sql`: engines that ran its statements read the tables by name."""

import pytest
from pyspark.sql import SparkSession

from tests.cli.conftest import Run, Shop
from tests.lake.readers import list_lines, open_duckdb
from ticdc_assets.reading import open_lake


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_an_engine_reads_every_table_by_name(
    run: Run, shop: Shop, here: SparkSession, engine: str
) -> None:
    code, out, err = run("sql", "--for", engine, *shop.options)
    assert (code, err) == (0, [])
    statements = out.decode()
    tables = open_lake(str(shop.root)).tables()
    assert len(tables) > 3
    connection = open_duckdb().cursor()
    connection.execute("ATTACH IF NOT EXISTS ':memory:' AS by_name; USE by_name")
    connection.execute("SET TimeZone = 'UTC'")

    def execute() -> None:
        if engine == "duckdb":
            connection.execute(statements)
            return
        for line in statements.splitlines():
            if line and not line.startswith("-- "):
                here.sql(line.removesuffix(";")).collect()

    try:
        # They do no harm the second time.
        execute()
        execute()
        for table in tables:
            expected = table.arrow().drop_columns(["_inexact"])
            query = f"SELECT * FROM {table.name}"
            found = connection.sql(query).to_arrow_table()
            if engine == "spark":
                found = here.sql(query).toArrow()
            assert list_lines(found, expected.schema) == list_lines(expected, expected.schema)
    finally:
        if engine == "spark":
            here.sql("DROP SCHEMA IF EXISTS shop CASCADE")
            assert all(table.arrow().num_rows for table in tables[:1])


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
