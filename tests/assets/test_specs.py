"""The asset specs of a changefeed, compared with a snapshot."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from tests.made_lake import schema, write_snapshot, write_tables
from ticdc_assets import definitions, naming
from ticdc_assets.assets import specs
from ticdc_assets.assets.markdown import escape_markdown
from ticdc_assets.assets.metadata import current_metadata
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import Column, ColumnType, TableSchema
from ticdc_assets.log.applied_row import RowCounts
from ticdc_assets.naming import FeedNames
from ticdc_assets.resources.catalog import read_catalog
from ticdc_assets.resources.dagster_settings import OWNERS
from ticdc_assets.store.lake import Lake
from ticdc_assets.stream.limits import describe_limits
from ticdc_assets.views.preview import Preview

FEED = replace(
    changefeed_from_uri("s3://bucket/prefix?protocol=csv&flush-interval=1m", id="shop"),
    history=("shop.ord*",),
    changes=("shop.ord*",),
)

# Asset key <- dependencies [kinds].
GRAPH = """
shop/changes/shop/orders.changes <- shop/current/shop/orders [deltalake spark table]
shop/checkpoints <- shop/events [deltalake spark]
shop/current/a~20~b/x~2f~y <- shop/schema_history/a~20~b/x~2f~y.schema [deltalake spark table]
shop/current/shop/orders <- shop/schema_history/shop/orders.schema [deltalake spark table]
shop/current/shop/订单 <- shop/schema_history/shop/订单.schema [deltalake spark table]
shop/events <- shop/raw [deltalake spark]
shop/history/shop/orders.history <- shop/current/shop/orders [deltalake spark table]
shop/quarantine <- shop/events [deltalake spark]
shop/raw <- shop/source [deltalake spark]
shop/schema_history/a~20~b/x~2f~y.schema <- shop/events [deltalake schema spark]
shop/schema_history/shop/orders.schema <- shop/events [deltalake schema spark]
shop/schema_history/shop/订单.schema <- shop/events [deltalake schema spark]
shop/source <-  [s3]
"""


def graph(root: Path) -> dg.Definitions:
    lake = Lake(str(root), FEED.id)
    write_snapshot(lake, 1, 470628459884838913)
    tables = [schema("shop", "orders", "note"), schema("shop", "订单"), schema("a b", "x/y")]
    write_tables(lake, [*tables, schema("shop", "old")], old="dropped", 订单="paused")
    return definitions.graph([FEED], str(root))


def test_the_graph_matches_its_snapshot(tmp_path: Path) -> None:
    specs = graph(tmp_path).resolve_all_asset_specs()
    lines = []
    for spec in specs:
        deps = " ".join(sorted(dep.asset_key.to_user_string() for dep in spec.deps))
        lines.append(f"{spec.key.to_user_string()} <- {deps} [{' '.join(sorted(spec.kinds))}]")

    assert sorted(lines) == GRAPH.strip().splitlines()
    tables, layers = [], []
    for spec in specs:
        (layers if naming.table_of(spec.key) is None else tables).append(spec)
    assert {spec.group_name for spec in layers} == {"shop"}
    groups = {(spec.key.path[2], spec.group_name) for spec in tables}
    assert {database for database, _ in groups} == {"shop", "a~20~b"}
    assert len({group for _, group in groups}) == len(groups) == 2
    assert ("shop", "shop_db_shop") in groups
    assert all(spec.owners == ["team:data"] and spec.description for spec in specs)
    policies = {spec.key.path[1] for spec in specs if spec.freshness_policy is not None}
    assert policies == {"checkpoints"}


def test_a_current_table_states_its_name_uri_and_columns(tmp_path: Path) -> None:
    specs = {spec.key: spec for spec in graph(tmp_path).resolve_all_asset_specs()}
    hostile = specs[dg.AssetKey(["shop", "current", "a~20~b", "x~2f~y"])]
    orders = specs[dg.AssetKey(["shop", "current", "shop", "orders"])]
    paused = specs[dg.AssetKey(["shop", "current", "shop", "订单"])]

    assert "`a b.x/y`" in (hostile.description or "")
    assert hostile.metadata["dagster/table_name"] == "a b.x/y"
    of_tables = [spec.metadata for spec in specs.values() if naming.table_of(spec.key)]
    assert {metadata["dagster/storage_kind"] for metadata in of_tables} == {"deltalake"}
    assert orders.metadata["dagster/uri"] == f"{tmp_path}/shop/current/shop.orders"
    columns = {c.name: c for c in orders.metadata["dagster/column_schema"].columns}
    assert columns["id"].type == "decimal(20,0)"
    assert columns["id"].description == "bigint unsigned NOT NULL"
    assert not columns["id"].constraints.nullable
    assert columns["note"].description == "varchar(20): a text"
    assert list(columns) == ["id", "note", "_commit_ts"]
    assert "**paused**: a \\*statement\\*" in (paused.description or "")


@pytest.mark.parametrize(("extra", "shown"), [((), []), (("_inexact",), ["_inexact"])])
def test_a_run_states_the_map_of_a_table_that_has_one(
    extra: tuple[str, ...], shown: list[str]
) -> None:
    schema = TableSchema("d", "t", (Column("id", ColumnType("int")),))
    table: Any = SimpleNamespace(
        status="live",
        reason=None,
        database="d",
        table="t",
        name="d.t",
        incarnation="t",
        schema=schema,
    )
    after = SimpleNamespace(ts=5)
    report: Any = SimpleNamespace(after=after, seconds=1.0, lake=Lake("/lake", "f"), feed=FEED)
    change: Any = SimpleNamespace(table=table, counts=RowCounts(), steps=(), version=None)
    preview = Preview(0, ("id", "_commit_ts", *extra), ())
    columns = current_metadata(report, change, preview)["dagster/column_schema"].columns
    assert [column.name for column in columns] == ["id", "_commit_ts", *shown]


def test_a_run_loads_the_catalog_it_was_planned_with(tmp_path: Path) -> None:
    graph(tmp_path)
    lake = Lake(str(tmp_path), FEED.id)
    read_at = read_catalog(lake).read_at
    write_tables(lake, [schema("shop", "younger")])

    assert [t.name for t in read_catalog(lake, read_at).named().values()] == [
        *("a b.x/y", "shop.orders", "shop.订单"),
    ]
    assert [t.name for t in read_catalog(lake).named().values()] == ["shop.younger"]
    # Planned before the lake existed.
    assert not read_catalog(lake, {}).named()


def test_the_page_of_a_source_says_what_its_stream_leaves_out(tmp_path: Path) -> None:
    config = tmp_path / "changefeed.toml"
    config.write_text("bdr-mode = true\n[sink.csv]\ninclude-commit-ts = true\n")
    uri = "s3://bucket/prefix?protocol=csv"
    feeds = {
        server: changefeed_from_uri(uri, config=config, server_version=server)
        for server in (None, "8.5.0")
    }
    known, unknown = (
        specs.source_spec(FeedNames(feeds[s])).description or "" for s in ("8.5.0", None)
    )
    assert "What it does not tell" in known
    assert known.count("\n- ") == 1
    assert f"- {escape_markdown('with bdr-mode, TiCDC leaves out')}" in known
    assert escape_markdown("declare server-version") in unknown


def test_every_run_logs_what_its_stream_leaves_out(tmp_path: Path) -> None:
    config = tmp_path / "changefeed.toml"
    config.write_text("bdr-mode = true")
    uri = f"file://{tmp_path}/gone?protocol=csv"
    feed = changefeed_from_uri(uri, id="shop", config=config)
    job = definitions.graph([feed], str(tmp_path / "lake")).resolve_job_def("advance_shop_job")
    instance = dg.DagsterInstance.ephemeral()

    # The run fails, for its folder does not exist: the notes come before anything else.
    done = job.execute_in_process(instance=instance, raise_on_error=False)

    logged = [entry.user_message for entry in instance.all_logs(done.run_id)]
    assert [line for line in logged if line in describe_limits(feed)] == describe_limits(feed)
    assert any("with bdr-mode" in line for line in logged)


@pytest.mark.parametrize("stated", ["alice", "team:", "team:data, bob@x.y"])
def test_owners_that_dagster_does_not_know_are_an_error_of_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stated: str
) -> None:
    declared = tmp_path / "changefeeds.toml"
    declared.write_text('[[changefeed]]\nid = "x"\nsink-uri = "file:///x?protocol=csv"\n')
    monkeypatch.setenv("TICDC_CHANGEFEEDS", str(declared))
    monkeypatch.setenv("TICDC_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv(OWNERS, stated)

    with pytest.raises(ConfigError) as raised:
        definitions.defs()

    assert str(raised.value) == (
        "TICDC_OWNERS: must be e-mail addresses, or teams as `team:data`, separated by commas,"
        f" not {stated!r}"
    )
