"""`dbt-sources` describes a lake's tables as they are, whatever their names and comments are."""

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import jinja2
import pytest
import yaml

from tests.cli.conftest import Run
from tests.hostile_names import NAMES
from tests.reading.conftest import Shop, make_shop
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.cli import dbt
from ticdc_assets.events import Column, ColumnType, TableSchema
from ticdc_assets.events.table_schema import Index
from ticdc_assets.events.tso import to_datetime
from ticdc_assets.naming import CURRENT, table_asset_key
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.reading import PinnedTable, open_lake
from ticdc_assets.rows.columns import make_delta_name
from ticdc_assets.safe_text import unescape_markdown
from ticdc_assets.store.lake import Lake
from ticdc_assets.views.dbt_sources import DbtSources

FEED = changefeed_from_uri("s3://bucket/prefix?protocol=csv&flush-interval=90s", id="shop")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    made = make_shop(tmp_path_factory.mktemp("shop"))
    assert list(made.advance())
    return made


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    (extension,) = Path(str(files("duckdb_extension_delta"))).glob("extensions/*/delta.*")
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension}'")
    return connection


def render(value: Any) -> Any:
    """Do with a property what dbt does."""
    if isinstance(value, str):
        return jinja2.Template(value, keep_trailing_newline=True).render()
    if isinstance(value, Mapping):
        return {key: render(inner) for key, inner in value.items()}
    return [render(inner) for inner in value] if isinstance(value, list) else value


def find_location(table: Mapping[str, Any]) -> str:
    """Return what dbt-duckdb selects from."""
    location: str = table["config"]["meta"]["external_location"]
    return location.format_map({"schema": "a", "name": "b", "identifier": "c"})


def options(shop: Shop) -> tuple[object, ...]:
    return ("--changefeeds", shop.simulation.changefeeds, "--lake", shop.root)


def test_the_file_describes_the_tables_that_the_lake_has(
    shop: Shop, run: Run, connection: duckdb.DuckDBPyConnection
) -> None:
    code, out, err = run("dbt-sources", *options(shop))
    assert (code, err) == (0, [])
    (source,) = render(yaml.safe_load(out))["sources"]
    lake = open_lake(shop.root)
    assert source["name"] == "shop"
    assert [table["name"] for table in source["tables"]] == [each.table for each in lake.tables()]
    for described, table in zip(source["tables"], lake.tables(), strict=True):
        location = find_location(described)
        stored = connection.sql(f"DESCRIBE SELECT * FROM {location}").fetchall()
        columns = {c["name"]: c for c in described["columns"]}
        assert {n: c["data_type"] for n, c in columns.items()} == {n: t for n, t, *_ in stored}
        (count,) = connection.sql(f"SELECT count(*) FROM {location}").fetchone() or ()
        assert count == table.arrow().num_rows
        loaded_at = connection.sql(described["config"]["loaded_at_query"]).fetchall()
        assert loaded_at == [(to_datetime(lake.resolved_ts).replace(tzinfo=None),)]
        key = dg.AssetKey(described["config"]["meta"]["dagster"]["asset_key"])
        assert key == table_asset_key(shop.feed, CURRENT, "shop", table.table)
        assert_tests(described, columns, table)


def assert_tests(described: Any, columns: Mapping[str, Any], table: PinnedTable) -> None:
    """Compare the tests of a table with its schema upstream."""
    key = list(table.schema.key)
    for column in table.schema.columns:
        expected = ["not_null"] if not column.nullable else []
        expected = [] if "date" in column.mysql_type or "time" in column.mysql_type else expected
        expected += ["unique"] if key == [column.name] else []
        assert columns[column.name].get("data_tests", []) == expected
        assert columns[column.name]["description"].startswith(column.mysql_type[:4])
    quoted = ", ".join(f'"{name}"' for name in key)
    rows = f"row({quoted})" if len(key) > 1 else None
    expected_test = [{"unique": {"arguments": {"column_name": rows}}}] if rows else []
    assert described.get("data_tests", []) == expected_test


def test_patterns_select_and_into_overwrites_only_what_the_command_wrote(
    shop: Shop, run: Run
) -> None:
    path = Path("sources.yml")
    for patterns, expected in (([], 6), (["shop.orders"], 1)):
        assert run("dbt-sources", *options(shop), "--into", path, *patterns) == (0, b"", [])
        (source,) = yaml.safe_load(path.read_text())["sources"]
        assert len(source["tables"]) == expected
    path.write_text("version: 2\n")
    code, out, (error,) = run("dbt-sources", *options(shop), "--into", path)
    assert (code, out, path.read_text()) == (2, b"", "version: 2\n")
    assert "sources.yml: --into: was not written by this command: name another file" in error
    code, _, (error,) = run("dbt-sources", *options(shop), "--into", Path("no") / "sources.yml")
    assert code == 2
    assert "no/sources.yml: --into: cannot be written: No such file or directory" in error


def test_a_path_that_duckdb_misreads_is_an_error(shop: Shop, run: Run, tmp_path: Path) -> None:
    (tmp_path / "100% z").symlink_to(shop.root)
    *others, _ = options(shop)
    code, out, (error,) = run("dbt-sources", *others, tmp_path / "100% z")
    assert (code, out) == (2, b"")
    assert "--lake: duckdb reads no table below a path with %, as '" in error


def make(database: str, table: str, *columns: Column, key: tuple[str, ...], **more: Any) -> Any:
    index = Index("PRIMARY", key, True, True)
    schema = TableSchema(database, table, columns, (index,))
    return Incarnation(id="t", schema=schema, created_ts=1, **more)


def int_column(name: str, comment: str = "") -> Column:
    return Column(name, ColumnType("int"), nullable=False, comment=comment)


HOSTILE = [name for name in NAMES if name != "\ud800"]
HOSTILE += ["{{ env_var('HOME') }}", "{% raw %}", "{# a", "{{{", "{name}", "{", "it's"]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_and_comments_are_no_templates(name: str) -> None:
    tables = [
        make(name, name, int_column(name, name), int_column("b"), key=(name, "b")),
        make(name, "single", int_column(name), key=(name,)),
    ]
    lake = Lake("/lake/{{ 'x' }}/it's {schema}", "shop")
    described = DbtSources(FEED, lake).describe(tables)
    text = dbt.format_properties(described)
    assert yaml.safe_load(text) == described
    (source,) = render(described)["sources"]
    single, both = sorted(source["tables"], key=lambda table: table["name"] != "single")
    assert re.fullmatch(r"[\w-]+", both["name"])
    assert (both["name"] == name) == (re.fullmatch(r"[\w-]+", name) is not None)
    assert source["name"] == both["name"]
    column = both["columns"][0]
    assert column["name"] == make_delta_name(name)
    assert unescape_markdown(column["description"]).startswith("int NOT NULL: ")
    address = lake.address(name, name).replace("'", "''")
    assert find_location(both) == f"delta_scan('{address}')"
    meta = both["config"]["meta"]
    assert dg.AssetKey(meta["dagster"]["asset_key"]) == table_asset_key(FEED, CURRENT, name, name)
    assert "{% raw %}" not in source["description"]
    can_be_tested = not set(name) & set('"{\r')
    assert ("data_tests" in both) == can_be_tested
    if can_be_tested:
        stored = make_delta_name(name)
        assert (
            both["data_tests"][0]["unique"]["arguments"]["column_name"] == f'row("{stored}", "b")'
        )
    assert ("data_tests" in single["columns"][0]) == can_be_tested


def test_a_table_that_is_not_live_says_so_and_is_as_old_as_its_rows(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    lake = Lake(str(tmp_path), "shop")
    paused = make("s", "paused", int_column("a"), key=("a",), status="paused", reason="a_reason")
    described = DbtSources(FEED, lake).describe([paused])
    (source,) = described["sources"]
    (table,) = source["tables"]
    assert table["description"].startswith(r"paused: a\_reason. Delta table: ")
    assert source["config"]["freshness"] == {
        "warn_after": {"count": 15, "period": "minute"},
        "error_after": {"count": 90, "period": "minute"},
    }
    query = table["config"]["loaded_at_query"]
    row = (
        "'s' AS database, 'paused' AS \"table\", 'paused' AS status, 5::BIGINT << 18 AS stopped_ts"
    )
    for name, rows in (
        ("tables", f"SELECT {row}"),
        ("applied", "SELECT 9::BIGINT << 18 AS resolved_ts"),
    ):
        query = query.replace(f"delta_scan('{lake.path(name)}')", f"({rows})")
    assert connection.sql(query).fetchall() == [(to_datetime(5 << 18).replace(tzinfo=None),)]


def test_a_table_without_a_delta_table_is_left_out_with_the_reason(
    shop: Shop, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = dbt.overview.list_tables
    waiting = dbt.overview.TableOverview("s", "w", "waiting", "no schema", 1, None, None, None)
    monkeypatch.setattr(dbt.overview, "list_tables", lambda *a, **k: [*listed(*a, **k), waiting])
    code, out, err = run("dbt-sources", *options(shop))
    assert (code, err) == (
        1,
        ["left out: s.w has no Delta table yet; it is waiting: no schema"],
    )
    assert len(yaml.safe_load(out)["sources"][0]["tables"]) == 6
