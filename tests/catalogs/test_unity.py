"""Entries of Unity Catalog follow their tables, and nobody else's entries are touched."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.catalogs.test_glue import send_all
from tests.catalogs.unity_server import CATALOG, UnityServer, serve_unity
from tests.hostile_names import NAMES
from tests.lake.addresses import create, open_lake, send
from tests.lake.canal import FEED, ddl, row, watermark
from tests.lake.life_of_names import Life, read_by_name
from tests.servers import HOST, free_port
from ticdc_assets.catalogs import read_registration, register, register_tables
from ticdc_assets.changefeed.catalog import UnityCatalog
from ticdc_assets.lake.advance import advance
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.resources.catalogs import open_catalog, update_catalogs
from ticdc_assets.resources.inspect_catalogs import inspect_catalogs
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.stream.problem import Problem


@pytest.fixture
def unity() -> Iterator[UnityServer]:
    with serve_unity() as server:
        yield server


def update(lake: LakeSession, unity: UnityServer, prefix: str = "") -> list[Problem]:
    unity.calls.clear()
    catalog = open_catalog(UnityCatalog(unity.url, CATALOG, prefix))
    return register_tables(lake.location, read_last_snapshot(lake), catalog)


def test_a_reader_by_name_sees_a_life_of_twenty_tables(tmp_path: Path, unity: UnityServer) -> None:
    lake, life = open_lake(tmp_path), Life(5)
    for _ in range(4):
        contents = life.live()
        advance(lake, life.send())
        problems = {(problem.database, problem.table) for problem in update(lake, unity)}
        paths = [table["storage_location"] for table in unity.tables.values()]
        named = {name: rows for name, rows in contents.items() if name not in problems}
        assert read_by_name(paths) == named
        # What the server takes no name for is all that is missing.
        assert all(
            set(name[1]) - set("abcdefghijklmnopqrstuvwxyz0123456789-_") for name in problems
        )
        # As it states the columns, the table has them.
        for (database, name), table in unity.tables.items():
            columns = sorted(table["columns"], key=lambda column: column["position"])
            rows = next(r for n, r in named.items() if (n[0], n[1].lower()) == (database, name))
            stated = [each["name"] for each in columns]
            assert stated[-1] == "_commit_ts"
            assert all([*each] == stated[:-1] for each in rows)


def test_an_entry_is_made_again_only_if_what_it_says_changes(
    tmp_path: Path, unity: UnityServer
) -> None:
    lake = open_lake(tmp_path)
    sql = (
        "CREATE TABLE t (id INT PRIMARY KEY, d DECIMAL(10,2) COMMENT 'it costs', at DATETIME,"
        " v VECTOR(2), n VARCHAR(20))"
    )
    messages = [ddl("d", "t", 2, "CREATE", sql), watermark(9)]
    advance(lake, send_all(*messages))
    assert update(lake, unity) == []
    table = unity.tables["d", "t"]
    assert unity.schemas["d"]["properties"] == {"ticdc.changefeed": FEED.id}
    assert table["comment"] == "d.t of TiDB, by changefeed f"
    assert table["properties"] == {
        "ticdc.changefeed": "f",
        "ticdc.table": "d.t",
        "ticdc.primary_key": json.dumps(["id"]),
    }
    columns = sorted(table["columns"], key=lambda column: column["position"])
    assert [(c["name"], c["type_name"], c["type_text"], c["comment"]) for c in columns] == [
        ("id", "INT", "int", "int NOT NULL"),
        ("d", "DECIMAL", "decimal(10,2)", "decimal(10,2): it costs"),
        ("at", "TIMESTAMP_NTZ", "timestamp_ntz", "datetime"),
        ("v", "ARRAY", "array<float>", "vector(2)"),
        ("n", "STRING", "string", "varchar(20)"),
        ("_commit_ts", "LONG", "bigint", "commit ts of the last change of this row"),
    ]
    assert (columns[1]["type_precision"], columns[1]["type_scale"]) == (10, 2)
    element = {"type": "array", "elementType": "float", "containsNull": True}
    field = {"name": "v", "type": element, "nullable": True, "metadata": {}}
    assert json.loads(columns[3]["type_json"]) == field
    # What other people added stays, and rows change nothing of it.
    table["properties"]["team"] = "sales"
    messages += [row("d", "t", 12, id="1", n="x"), watermark(19)]
    advance(lake, send_all(*messages))
    assert update(lake, unity) == []
    assert unity.calls == Counter({"GET tables/name": 1})
    messages += [ddl("d", "t", 22, "ALTER", "ALTER TABLE t DROP COLUMN at"), watermark(29)]
    advance(lake, send_all(*messages))
    assert update(lake, unity) == []
    once = ("GET tables/name", "DELETE tables/name", "POST tables")
    assert unity.calls == Counter(dict.fromkeys(once, 1))
    assert len(unity.tables["d", "t"]["columns"]) == 5
    assert unity.tables["d", "t"]["properties"]["team"] == "sales"
    assert update(lake, unity) == []
    assert unity.calls == Counter()


def test_only_own_entries_are_changed(tmp_path: Path, unity: UnityServer) -> None:
    lakes = [open_lake(tmp_path / name) for name in ("first", "second")]
    messages = [create(name, 2 + n) for n, name in enumerate("ab")]
    for lake in lakes:
        advance(lake, send_all(*messages, watermark(9)))
    assert update(lakes[0], unity) == []
    (one, two) = update(lakes[1], unity)
    assert one.reason.startswith("unity: d.a is there already, of another lake, at file:///")
    assert two.table == "b"
    assert update(lakes[1], unity, "second_") == []
    assert {schema for schema, _ in unity.tables} == {"d", "second_d"}
    # Somebody takes the place of one: it is neither replaced nor dropped.
    theirs = unity.tables["d", "a"] = {**unity.tables["d", "a"], "properties": {}}
    more = [ddl("d", name, 12 + n, "ERASE", f"DROP TABLE {name}") for n, name in enumerate("ab")]
    advance(lakes[0], send_all(*messages, watermark(9), *more, create("a", 15), watermark(19)))
    (problem,) = update(lakes[0], unity)
    assert problem.reason.startswith("unity: d.a is there already, and no changefeed made it")
    assert {name: t for (schema, name), t in unity.tables.items() if schema == "d"} == {"a": theirs}


def test_hostile_names_have_entries_or_a_reason_why_not(
    tmp_path: Path, unity: UnityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(register, "_MOST_SHOWN", 99)
    lake = open_lake(tmp_path)
    names = [*NAMES, "Mixed", "a.b", "a/b", "..", "İ", "i̇", "x" * 64]
    created = [
        ddl("d", name, 2 + n, "CREATE", f"CREATE TABLE `{name.replace('`', '``')}` (id INT)")
        for n, name in enumerate(names)
    ]
    advance(lake, send_all(*created, watermark(99)))
    found = update(lake, unity)
    reasons = {problem.table: problem.reason for problem in found}
    tables = {table.schema.table for table in read_last_snapshot(lake).state.incarnations.values()}
    assert {name for _, name in unity.tables} == {"plain", "-rf", "mixed", "x" * 64}
    assert reasons.keys() == tables - {"plain", "-rf", "Mixed", "x" * 64}
    assert "takes no name with '/' in it" in reasons["a/b"]
    assert "as d.i̇ would" in reasons["İ"]
    assert "as d.İ would" in reasons["i̇"]
    assert reasons["订单 👍"].startswith("unity: Unity Catalog takes no name with ' '")
    assert all(problem.describe().isprintable() for problem in found)


def test_a_call_that_worked_without_an_answer_makes_the_entry(
    tmp_path: Path, unity: UnityServer
) -> None:
    lake = open_lake(tmp_path)
    advance(lake, send_all(create("a", 2), watermark(9)))
    unity.lost.add("POST tables")
    (problem,) = update(lake, unity)
    assert problem.reason.startswith("unity: Unity Catalog does not answer: ")
    assert problem.reason.endswith("the next run goes on (1 entries)")
    unity.lost.clear()
    assert update(lake, unity) == []
    assert [*unity.tables] == [("d", "a")]
    assert unity.calls["POST tables"] == 0


def test_what_does_not_answer_as_unity_catalog_is_caught_up_with(
    tmp_path: Path, unity: UnityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = open_lake(tmp_path)
    advance(lake, send(2))
    snapshot = read_last_snapshot(lake)
    unity.token = "t0ps3cret-token"
    monkeypatch.setenv("UNITY", "an0ther-s3cret")
    wrong = UnityCatalog(unity.url, CATALOG, token_env="UNITY")
    silent = UnityCatalog(f"http://{HOST}:{free_port()}", CATALOG)
    texts = []
    for settings in (silent, wrong, UnityCatalog(unity.url, "nowhere", token_env="UNITY")):
        if settings.catalog == "nowhere":
            monkeypatch.setenv("UNITY", unity.token)
        (problem,) = register_tables(lake.location, snapshot, open_catalog(settings))
        texts.append(problem.reason)
    assert texts[0].startswith("unity: Unity Catalog does not answer: ")
    assert texts[1].startswith("unity: Unity Catalog answers UNAUTHENTICATED")
    assert texts[2].startswith("unity: Unity Catalog answers NOT_FOUND: Catalog not found: nowhere")
    assert not any("s3cret" in text for text in texts)
    assert register_tables(lake.location, snapshot, open_catalog(wrong)) == []
    assert read_registration(lake.location, "unity").problems == ()
    assert {name for _, name in unity.tables} == {"a", "b"}
    feeds = [replace(FEED, catalogs=(settings,)) for settings in (silent, wrong)]
    found = [(each.result, each.setting) for feed in feeds for each in inspect_catalogs(feed, "/")]
    assert found == [("failure", "catalog.unity"), ("ok", None)]
    monkeypatch.delenv("UNITY")
    (problem,) = update_catalogs(lake.location, replace(FEED, catalogs=(wrong,)))
    assert problem.reason == (
        "unity: catalog.unity.token-env: the environment variable UNITY is not set"
    )
