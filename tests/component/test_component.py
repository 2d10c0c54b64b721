"""The component: several lakes in one project, as their owners name and show them."""

import ast
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from tests.component.sandbox import WARNINGS, Project, list_keys
from tests.made_lake import schema, write_snapshot, write_tables
from ticdc_assets import naming
from ticdc_assets.assets.check_results import show_evaluations
from ticdc_assets.changefeed import changefeed_from_uri, load_changefeeds
from ticdc_assets.changefeed.upstream import Upstream
from ticdc_assets.errors import ConfigError
from ticdc_assets.naming import FeedNames, Shown, table_asset_key
from ticdc_assets.store.lake import Lake

pytestmark = WARNINGS
ONE = [{"id": "shop", "sink-uri": "file:///somewhere?protocol=csv"}]
TEMPLATES = {
    "key_prefix": "raw",
    "group_name": "{{ database or 'layers' }}",
    "tags": {"layer": "{{ layer }}", "feed": "{{ changefeed }}"},
    "owners": ["team:{{ database or 'platform' }}"],
    "kinds": ["tidb"],
    "description": "{{ table }} of {{ database }}: {{ spec.description }}",
}


def has_tables(root: str, *names: str, feed: str = "shop", **statuses: str) -> None:
    lake = Lake(root, feed)
    if not Path(lake.path("applied")).exists():
        write_snapshot(lake, 1, 5)
    write_tables(lake, [schema(*name.split(".")) for name in names], **statuses)


def test_a_translation_names_and_describes_assets_by_templates(project: Project) -> None:
    has_tables(project.add("a", ONE, translation=TEMPLATES), "crm.people", "crm.mail")
    plain = project.add("b", ONE)
    has_tables(plain, "crm.people", "crm.mail")
    graph = project.refresh("a", "b").resolve_asset_graph()

    shown, before = (
        graph.get(dg.AssetKey([*prefix, "shop", "current", "crm", "people"]))
        for prefix in (["raw"], [])
    )
    assert shown.group_name == "crm"
    assert shown.tags == {"layer": "current", "feed": "shop", "dagster/kind/tidb": ""}
    assert shown.owners == ["team:crm"]
    assert shown.kinds == {"tidb"}
    assert shown.description == f"people of crm: {before.description}"
    assert shown.parent_keys == {dg.AssetKey(["raw", *key.path]) for key in before.parent_keys}
    layer = graph.get(dg.AssetKey(["raw", "shop", "events"]))
    assert (layer.group_name, layer.owners) == ("layers", ["team:platform"])
    # All checks come along.
    checks = {(tuple(key.asset_key.path), key.name) for key in graph.asset_check_keys}
    own = {(path[1:], name) for path, name in checks if path[0] == "raw"}
    others = {(path, name) for path, name in checks if path[0] == "shop"}
    assert own == others
    assert len(own) > 20


@pytest.mark.parametrize("key", ["x/{{ table }}", "{{ layer }}/{{ database }}/{{ table }}/x"])
def test_a_translation_that_gives_two_assets_one_key_is_an_error(
    project: Project, key: str
) -> None:
    feeds = [*ONE, {**ONE[0], "id": "mail", "sink-uri": "file:///elsewhere?protocol=csv"}]
    project.add("a", feeds, translation={"key": key})
    with pytest.raises(Exception, match="Error while building definitions") as raised:
        project.load()
    cause = raised.value.__cause__
    assert isinstance(cause, ConfigError)
    assert str(cause).startswith("translation.key: gives several assets the key")


@pytest.mark.parametrize(
    ("per", "current"),
    [
        ("table", {"shop/current/a/t", "shop/current/a/u", "shop/current/b/t"}),
        ("database", {"shop/current/a", "shop/current/b"}),
        ("layer", {"shop/current"}),
    ],
)
def test_the_owner_chooses_what_has_an_asset(project: Project, per: str, current: set[str]) -> None:
    has_tables(project.add("a", ONE, asset_per=per), "a.t", "a.u", "b.t")
    defs = project.refresh("a")

    dg.Definitions.validate_loadable(defs)
    keys = list_keys(defs)
    assert {key for key in keys if key.startswith("shop/current")} == current
    layers = {"source", "raw", "events", "quarantine", "checkpoints"}
    assert len(keys) == len(layers) + 2 * len(current)


@pytest.mark.parametrize("per", ["table", "database", "layer"])
def test_tables_have_checks_unless_the_owner_leaves_them_out(project: Project, per: str) -> None:
    checks = {}
    for name, stated in (("with", True), ("without", False)):
        translation = {"key_prefix": name}
        root = project.add(name, ONE, asset_per=per, table_checks=stated, translation=translation)
        has_tables(root, "a.t", "a.u", "b.t")
        graph = project.refresh(name).resolve_asset_graph()
        keys = [key for key in graph.asset_check_keys if key.asset_key.path[0] == name]
        checks[name] = {(key.asset_key.path[2], *key.asset_key.path[3:], key.name) for key in keys}

    of_tables = checks["with"] - checks["without"]
    assert checks["without"] < checks["with"]
    assert {layer for layer, *_ in of_tables} == {naming.CURRENT}
    names = {name for *_, name in of_tables}
    assert len(of_tables) == len(names) * {"table": 3, "database": 2, "layer": 1}[per]
    assert "table_is_live" in names


def test_upstream_and_histories_are_shown_unless_the_owner_hides_them(project: Project) -> None:
    declared = [
        {
            **ONE[0],
            "history": ["*.*"],
            "changes": ["d.t"],
            "upstream": {"host": "127.0.0.1", "user": "u"},
        }
    ]
    for name, more in (("all", {}), ("few", {"show_upstream": False, "show_histories": False})):
        root = project.add(name, declared, translation={"key_prefix": name}, **more)
        has_tables(root, "d.t", "d.u")
    keys = list_keys(project.refresh("all", "few"))

    of_all, of_few = (
        {k.removeprefix(f"{n}/") for k in keys if k.startswith(f"{n}/")} for n in ("all", "few")
    )
    assert of_all - of_few == {
        *("shop/upstream", "shop/changes/d/t.changes"),
        *("shop/history/d/t.history", "shop/history/d/u.history"),
    }
    assert of_few < of_all


def test_inline_changefeeds_are_those_of_a_file(project: Project, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[sink.csv]\ninclude-commit-ts = true\n")
    (tmp_path / "changefeeds.toml").write_text(
        '[[changefeed]]\nid = "t"\nsink-uri = "kafka://b:9092/t?protocol=simple"\n'
        'start = 2026-03-14T00:00:00Z\nhistory = ["shop.*"]\n\n'
        '[[changefeed]]\nid = "f"\nsink-uri = "file:///x?protocol=csv"\nconfig = "c.toml"\n'
        'keys = {"shop.stock" = ["sku", "place"]}\n'
    )
    inline = [
        {
            "id": "t",
            "sink-uri": "kafka://b:9092/t?protocol=simple",
            "start": "2026-03-14T00:00:00Z",
            "history": ["shop.*"],
        },
        {
            "id": "f",
            "sink-uri": "file:///x?protocol=csv",
            "config": str(tmp_path / "c.toml"),
            "keys": {"shop.stock": ["sku", "place"]},
        },
    ]
    project.add("inline", inline)
    project.add("by_file", str(tmp_path / "changefeeds.toml"))

    declared = list(load_changefeeds(tmp_path / "changefeeds.toml").values())
    assert list(project.component("inline").changefeeds) == declared
    assert list(project.component("by_file").changefeeds) == declared


def test_definitions_are_loaded_from_the_state_and_not_from_the_lake(project: Project) -> None:
    root = project.add("a", ONE)
    has_tables(root, "d.t", "d.u", u="paused")
    before = {"shop/" + layer for layer in ("source", "raw", "events", "quarantine", "checkpoints")}
    assert list_keys(project.load()) == before

    refreshed = project.refresh("a")
    spec = refreshed.resolve_asset_graph().get(dg.AssetKey(["shop", "current", "d", "u"]))
    assert (spec.description or "").startswith("**paused**: a \\*statement")
    columns = spec.metadata["dagster/column_schema"]
    shutil.rmtree(root)
    loaded = project.load()
    assert list_keys(loaded) == list_keys(refreshed) > before
    again = loaded.resolve_asset_graph().get(spec.key)
    assert again.metadata["dagster/column_schema"] == columns


class CodeServer:
    """What a sensor sees of the code server that evaluates it."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.defs = project.load()

    def create_client(self) -> "CodeServer":
        return self

    def reload_code(self, timeout: int) -> None:
        assert timeout < 60
        self.defs = self.project.load()


@pytest.mark.parametrize("kept", ["LOCAL_FILESYSTEM", "VERSIONED_STATE_STORAGE"])
def test_the_sensor_refreshes_the_state_when_a_table_appears(
    project: Project, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    root = project.add("a", ONE, defs_state={"management_type": kept})
    has_tables(root, "d.t")
    with dg.instance_for_test() as instance:
        project.refresh("a")
        server = CodeServer(project)
        monkeypatch.setattr(
            dg.SensorEvaluationContext, "code_location_origin", server, raising=True
        )

        def tick() -> str:
            repository = server.defs.get_repository_def()
            sensor = repository.get_sensor_def("a__reload_definitions")
            result = sensor(dg.build_sensor_context(instance))
            assert isinstance(result, dg.SensorResult)
            assert result.skip_reason is not None
            return result.skip_reason.skip_message or ""

        assert tick() == "the graph shows the tables as they are"
        has_tables(root, "d.t", "d.new")
        assert "shop/current/d/new" not in list_keys(server.defs)
        assert tick() == "reloaded the definitions: shop: d.new"
        assert "shop/current/d/new" in list_keys(server.defs)
        assert tick() == "the graph shows the tables as they are"


def test_a_check_that_tables_share_fails_with_the_worst_of_them() -> None:
    feed = replace(
        changefeed_from_uri("file:///x?protocol=csv", id="f"), upstream=Upstream("127.0.0.1", "u")
    )
    results = [
        ("t", True, "ERROR"),
        ("u", False, "WARN"),
        ("v", False, "ERROR"),
        ("w", True, "ERROR"),
    ]
    found = [
        dg.AssetCheckEvaluation(
            asset_key=table_asset_key(feed, naming.CURRENT, "d", table),
            check_name="keys_are_unique",
            passed=passed,
            severity=dg.AssetCheckSeverity[severity],
            description=None if passed else f"reason of {table}",
        )
        for table, passed, severity in results
    ]
    names = FeedNames(feed, shown=Shown("database"))

    (merged,) = show_evaluations(names, found)

    assert merged.asset_key == dg.AssetKey(["f", "current", "d"])
    assert (merged.passed, merged.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert merged.description == "`d.u`, `d.v`: reason of v"
    assert len(list(show_evaluations(FeedNames(feed), found))) == len(results)


def test_nothing_that_the_component_loads_is_private_to_dagster() -> None:
    script = (
        "import json, sys, ticdc_assets; ticdc_assets.TicdcLake;"
        "print(json.dumps({n: m.__file__ for n, m in sys.modules.items()"
        " if n.startswith('ticdc_assets') and m.__file__}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    files = json.loads(done.stdout)
    assert "ticdc_assets.sensors.new_tables" in files
    imported = {
        name: node.module
        for name, file in files.items()
        for node in ast.walk(ast.parse(Path(file).read_text()))
        if isinstance(node, ast.ImportFrom) and node.module
    }
    private = {n: m for n, m in imported.items() if "dagster" in m and "._" in m}
    assert private == {}
