"""What `open_lake` reads is what the shop had, whichever library reads it, and stays so."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zlib import crc32

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

import ticdc_assets
from tests.lake.readers import list_lines
from tests.reading.conftest import Shop, make_shop
from tests.reading.printed import print_rows
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError
from ticdc_assets.events.tso import to_datetime
from ticdc_assets.events.tso_text import describe_ts
from ticdc_assets.reading import PinnedLake, PinnedTable, open_lake

ROOT = Path(__file__).parents[2]
TABLE = "shop.orders"


def print_lake(lake: PinnedLake) -> dict[str, list[bytes]]:
    return {table.name: print_rows(table) for table in lake.tables()}


def test_a_fresh_interpreter_reads_rows_without_spark_and_dagster(shop: Shop) -> None:
    script = f"""
import json, sys
import ticdc_assets
rows = ticdc_assets.open_lake({str(shop.root)!r}).table({TABLE!r}).arrow()
heavy = {{"pyspark", "py4j", "dagster", "boto3", "duckdb", "polars"}}
print(json.dumps([sorted(heavy & set(sys.modules)), rows.num_rows]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, cwd=ROOT, check=True)
    rows = len(shop.truth(shop.simulation.checkpoints[-1])[TABLE])
    assert json.loads(done.stdout) == [[], rows]


def test_the_package_has_no_other_lazy_attribute() -> None:
    assert ticdc_assets.open_lake is open_lake
    with pytest.raises(AttributeError, match="has no attribute 'open_sea'"):
        _ = ticdc_assets.open_sea


def test_all_tables_are_what_the_shop_had_at_every_snapshot(shop: Shop) -> None:
    newest = open_lake(shop.root)
    assert newest.resolved_ts == newest.snapshots()[-1] == shop.simulation.checkpoints[-1]
    assert print_lake(newest) == shop.truth(newest.resolved_ts)
    for ts in newest.snapshots():
        lake = newest.at(ts)
        assert (lake.resolved_ts, lake.snapshots()[-1]) == (ts, ts)
        assert lake.moment == to_datetime(ts)
        assert print_lake(lake) == shop.truth(ts)


def test_with_a_declaration_they_are_so_at_any_ts(shop: Shop) -> None:
    lake = open_lake(str(shop.root), shop.feed)
    for before, after in zip(lake.snapshots(), lake.snapshots()[1:], strict=False):
        ts = (before + after) // 2
        assert print_lake(lake.at(ts)) == shop.truth(ts)
    moment = to_datetime(ts)
    for given in (moment, moment.astimezone(), moment.isoformat(), np.int64(ts >> 18 << 18)):
        assert lake.table(TABLE, at=given).resolved_ts == ts >> 18 << 18


def test_rows_whose_files_are_gone_are_computed_with_a_declaration(
    shop: Shop, tmp_path: Path
) -> None:
    root = shutil.copytree(shop.root, tmp_path / "lake")
    first, *_ = open_lake(root).snapshots()
    location, version = open_lake(root).table(TABLE, at=first).delta()
    # As maintenance does it.
    for path in DeltaTable(location, version).file_uris():
        Path(path).unlink()
    with pytest.raises(ConfigError, match=r"^changefeed: no files have these rows, and to "):
        open_lake(root).table(TABLE, at=first).arrow()
    assert print_rows(open_lake(root, shop.feed).table(TABLE, at=first)) == shop.truth(first)[TABLE]
    newest = open_lake(root)
    assert print_lake(newest) == shop.truth(newest.resolved_ts)


def list_readable(shop: Shop) -> list[PinnedTable]:
    """List tables whose rows are in files, and that are computed from events."""
    lake = open_lake(shop.root, shop.feed)
    return [*lake.tables(), lake.table(TABLE, at=sum(lake.snapshots()[:2]) // 2)]


def test_every_library_has_the_same_rows(shop: Shop) -> None:
    tables = list_readable(shop)
    assert any(table.arrow().num_rows == 0 for table in tables)
    for table in tables:
        rows = table.arrow()
        lines = list_lines(rows, rows.schema)
        found = {
            "batches": table.batches().read_all(),
            "stream": pa.table(table),
            "Polars": table.polars().to_arrow(),
            "pandas": pa.Table.from_pandas(table.pandas(), preserve_index=False),
            "DuckDB": table.duckdb().to_arrow_table(),
        }
        for library, read in found.items():
            assert list_lines(read, rows.schema) == lines, (library, table)


def test_columns_are_read_in_the_order_given(shop: Shop) -> None:
    for table in list_readable(shop):
        names = [table.schema.columns[1].name, "_inexact", table.schema.columns[0].name.upper()]
        rows = table.arrow(names)
        assert rows.equals(table.arrow().select([names[0], "_inexact", names[2].lower()]))
        assert table.polars(names[:1]).columns == names[:1]
        assert list(table.pandas(["_inexact"]).columns) == ["_inexact"]
        assert len(table.pandas(["_inexact"])) == rows.num_rows


def test_duckdb_queries_tables_together_and_a_relation_again(shop: Shop) -> None:
    lake = open_lake(shop.root)
    with duckdb.connect() as connection:
        orders = lake.table(TABLE).duckdb(connection)
        items = lake.table("shop.order_items").duckdb(connection)
        joined = orders.set_alias("o").join(items.set_alias("i"), "o.id = i.order_id")
        expected = set(lake.table(TABLE).arrow()["id"].to_pylist())
        for _ in range(2):
            found = joined.project("o.id").distinct().fetchall()
            assert {row[0] for row in found} <= expected
            assert orders.aggregate("count(*)").fetchall() == [(len(expected),)]
        assert "ARROW_SCAN" in orders.filter("id > 3").explain()


def test_a_filter_of_duckdb_finds_the_rows_with_each_value(shop: Shop) -> None:
    for table in list_readable(shop):
        rows, relation = table.arrow(), table.duckdb()
        for name in rows.column_names:
            values = rows[name].drop_null()
            if len(values) and name != "_inexact":
                value = values[crc32(name.encode()) % len(values)]
                is_equal = duckdb.ColumnExpression(name) == duckdb.ConstantExpression(value.as_py())
                count = pc.sum(pc.equal(rows[name], value)).as_py()
                assert relation.filter(is_equal).shape[0] == count, (table, name)


def test_what_is_pinned_stays_while_a_run_advances(tmp_path: Path) -> None:
    shop = make_shop(tmp_path)
    advances = shop.advance()
    first = next(advances)
    lake = open_lake(shop.root)
    orders = lake.table(TABLE).duckdb()
    second = next(advances)
    # The one was opened before the run, the other after it.
    assert lake.resolved_ts == first < second
    assert print_lake(lake) == shop.truth(first)
    assert orders.shape[0] == len(shop.truth(first)[TABLE]) != len(shop.truth(second)[TABLE])
    assert print_lake(open_lake(shop.root)) == shop.truth(second)


def test_a_table_says_what_it_is(shop: Shop) -> None:
    lake = open_lake(shop.root)
    table = lake.table("SHOP.Orders")
    assert repr(table) == f"<shop.orders at {lake.resolved_ts}: live>"
    assert repr(lake) == f"<shop at {describe_ts(lake.resolved_ts)}>"
    assert (table.status, table.reason, table.resolved_ts) == ("live", None, lake.resolved_ts)
    assert timedelta(0) < datetime.now(UTC) - table.moment - table.lag + timedelta(seconds=1)
    assert table.schema.key == ("id",)
    total = next(column for column in table.schema.columns if column.name == "total")
    assert (total.upstream, total.mysql_type) == ("total", "decimal(12,2)")
    assert (total.arrow_type, total.nullable) == (pa.decimal128(12, 2), False)
    assert table.schema.arrow == table.arrow().schema
    assert table.schemas()[0].sql.startswith("CREATE TABLE `orders`")
    old = lake.table(TABLE, at=lake.snapshots()[0])
    assert 0 < len(old.schemas()) < len(table.schemas())
    location, version = table.delta()
    assert (Path(location) / "_delta_log").is_dir()
    assert version == table.version
    computed = open_lake(shop.root, shop.feed).table(TABLE, at=sum(lake.snapshots()[:2]) // 2)
    with pytest.raises(ConfigError, match=r"at: no version of shop\.orders has its rows at "):
        computed.delta()


def test_polars_is_named_where_it_is_not_installed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="install the package polars"):
        open_lake(shop.root).table(TABLE).polars()


def fail(action: object) -> str:
    with pytest.raises(ConfigError) as error:
        action()  # type: ignore[operator]
    return str(error.value)


def test_an_error_names_the_parameter_and_what_there_is(shop: Shop, tmp_path: Path) -> None:
    lake = open_lake(shop.root)
    first, second, *_ = lake.snapshots()
    assert fail(lambda: lake.table("shop.ordrs")).endswith(
        "; did you mean shop.orders or shop.order_items?"
    )
    assert fail(lambda: lake.table("shop.reviews")).startswith(
        "name: no table shop.reviews in the lake: it was renamed to shop.product_reviews at "
    )
    assert fail(lambda: lake.table(("shop.orders", ""))).startswith("name: no table shop.orders. ")
    assert fail(lambda: lake.at((first + second) // 2)) == (
        f"at: {describe_ts((first + second) // 2)} is no snapshot: the next ones are at"
        f" {describe_ts(first)} and {describe_ts(second)}. To read between snapshots, open the lake"
        " with the changefeed's declaration: open_lake(uri, load_changefeeds(file)[id])"
    )
    assert fail(lambda: lake.at(lake.resolved_ts + 1)).startswith("at: ")
    assert "has no zone" in fail(lambda: lake.at(datetime(2026, 3, 14)))
    assert "must be a TSO" in fail(lambda: lake.at("yesterday"))
    table = lake.table(TABLE)
    assert fail(lambda: table.arrow(["totl"])) == (
        "columns: there is no column 'totl'; did you mean total?"
    )
    assert fail(lambda: table.arrow("id")) == "columns: must be a list of names, not 'id'"
    assert fail(lambda: table.arrow([5])) == "columns: must be a list of names, not '[5]'"
    assert fail(lambda: table.arrow([])) == "columns: has no name: leave it out for all columns"
    assert fail(lambda: open_lake(tmp_path / "nothing")).startswith(
        f"{tmp_path / 'nothing'}: changefeed: holds no tables of any changefeed"
    )
    assert fail(lambda: open_lake(shop.root, "shp")) == (
        f"{shop.root}: changefeed: the lake holds no changefeed 'shp', only shop;"
        " did you mean shop?"
    )
    assert fail(lambda: open_lake(shop.root / "shop")) == (
        f"{shop.root / 'shop'}: uri: is the folder of a changefeed: give the folder above it, the"
        " lake"
    )
    assert "s3cr3t" not in fail(lambda: open_lake("s3://user:s3cr3t@bucket/lake"))


@pytest.mark.parametrize(
    ("setting", "call", "given"),
    [
        ("uri", lambda lake, given: open_lake(given), [5, None, b"/data/lake", ["/data/lake"]]),
        ("changefeed", lambda lake, given: open_lake("/", given), [5, {}, ["shop"]]),
        ("at", lambda lake, given: lake.at(given), [date(2026, 3, 14), 1.5, None, True, (1,)]),
        (
            "at",
            lambda lake, given: lake.table(TABLE, at=given),
            [date(2026, 3, 14), 1.5, False, np.datetime64("2026-03-14")],
        ),
        (
            "name",
            lambda lake, given: lake.table(given),
            [5, None, ("shop",), ("shop", "orders", "x"), ("shop", 5), b"shop.orders"],
        ),
        ("columns", lambda lake, given: lake.table(TABLE).arrow(given), [5, 1.5, date.min]),
        ("columns", lambda lake, given: lake.table(TABLE).polars(given), [5]),
        ("columns", lambda lake, given: lake.table(TABLE).history().pandas(given), [5]),
        ("connection", lambda lake, given: lake.table(TABLE).duckdb(given), ["", 0, ":memory:"]),
        ("connection", lambda lake, given: lake.table(TABLE).changes().duckdb(given), [5]),
        ("session", lambda lake, given: lake.table(TABLE).spark(given), [None, "local[2]", 5]),
    ],
)
def test_a_value_of_another_type_is_an_error_that_says_what_is_taken(
    shop: Shop, setting: str, call: Callable[[PinnedLake, object], object], given: list[object]
) -> None:
    lake = open_lake(shop.root)
    for value in given:
        shown = "None" if value is None else f"a value of the type {type(value).__name__}"
        text = fail(lambda value=value: call(lake, value))
        assert re.fullmatch(f"{setting}: must be an? .+, not {shown}", text), text


def test_of_several_changefeeds_one_is_named(shop: Shop, tmp_path: Path) -> None:
    for name in ("crm", "shop"):
        (tmp_path / name).symlink_to(shop.root / "shop")
    (tmp_path / "some other").mkdir()
    assert fail(lambda: open_lake(tmp_path)) == (
        f"{tmp_path}: changefeed: the lake holds crm, shop: choose one"
    )
    assert open_lake(tmp_path, "crm").changefeed == "crm"
    assert isinstance(shop.feed, Changefeed)
    assert open_lake(tmp_path, shop.feed).changefeed == "shop"
