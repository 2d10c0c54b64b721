"""Entries of Glue follow their tables, and nobody else's entries are touched."""

import json
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import boto3
import pyarrow as pa
import pytest
from botocore.errorfactory import ClientExceptionsFactory
from deltalake import DeltaTable, QueryBuilder

from tests.catalogs.conftest import REGION, GlueServer
from tests.hostile_names import NAMES
from tests.lake.addresses import GONE, LIFE, create, open_lake, send
from tests.lake.canal import FEED, ddl, placed, watermark
from tests.lake.life_of_names import Life, read_by_name
from ticdc_assets.catalogs import read_registration, register, register_tables
from ticdc_assets.changefeed.catalog import GlueCatalog
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources.catalogs import open_catalog, update_catalogs
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.stream.problem import Problem


def update(lake: LakeSession, glue: GlueServer, **settings: str) -> list[Problem]:
    glue.calls.clear()
    return register_tables(lake.location, read_last_snapshot(lake), glue.open(**settings))


def send_all(*messages: Message) -> RecordSource:
    return RecordSource(lambda _: placed(messages))


def read_ids(entry: dict[str, Any]) -> list[int]:
    """Read an entry's table as an engine does: from its path."""
    path = entry["StorageDescriptor"]["SerdeInfo"]["Parameters"]["path"]
    assert entry["StorageDescriptor"]["Location"] == path
    table = DeltaTable(unquote(urlparse(path).path))
    rows = QueryBuilder().register("t", table).execute("SELECT id FROM t").read_all()
    return sorted(pa.table(rows)["id"].to_pylist())


def test_a_reader_by_name_sees_every_change_of_a_table_s_life(
    tmp_path: Path, glue: GlueServer
) -> None:
    lake = open_lake(tmp_path)
    before: dict[str, list[int] | None] = {}
    for number, (_, after) in enumerate(LIFE, 1):
        advance(lake, send(number))
        assert update(lake, glue) == []
        entries = glue.list_tables()
        assert {name.removeprefix("d."): read_ids(entry) for name, entry in entries.items()} == {
            name: ids for name, ids in after.items() if ids is not GONE
        }
        for entry in entries.values():
            address = DeltaTable(unquote(urlparse(entry["StorageDescriptor"]["Location"]).path))
            stated = address.metadata().configuration
            for name in ("resolved_ts", "status", "primary_key", "incarnation", "changefeed"):
                assert entry["Parameters"][f"ticdc.{name}"] == stated[f"ticdc.{name}"]
        # Only what changed is called for; the first run lists what is there.
        changes = sum(before.get(name) != ids for name, ids in after.items())
        writes = glue.calls["CreateTable"] + glue.calls["UpdateTable"] + glue.calls["DeleteTable"]
        # The first table of a database waits for the database to be made.
        assert writes - glue.calls["CreateDatabase"] == changes
        assert update(lake, glue) == []
        assert glue.calls == Counter()
        before = after


def test_a_reader_by_name_sees_a_life_of_twenty_tables(tmp_path: Path, glue: GlueServer) -> None:
    lake, life = open_lake(tmp_path), Life(2)
    for _ in range(4):
        contents = life.live()
        advance(lake, life.send())
        assert update(lake, glue) == []
        paths = (e["StorageDescriptor"]["Location"] for e in glue.list_tables().values())
        assert read_by_name(paths) == contents


def test_threads_that_meet_their_first_errors_at_once_catch_them(
    tmp_path: Path, glue: GlueServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each finds that the database of its table is not there, and all but one that it is."""
    make = ClientExceptionsFactory._create_client_exceptions

    def make_slowly(factory: Any, model: Any) -> Any:
        time.sleep(0.1)
        return make(factory, model)

    monkeypatch.setattr(ClientExceptionsFactory, "_create_client_exceptions", make_slowly)
    # A session has made them once.
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    lake = open_lake(tmp_path)
    names = [f"t{number}" for number in range(8)]
    advance(lake, send_all(*(create(name, ts) for ts, name in enumerate(names, 2)), watermark(99)))
    assert update(lake, glue) == []
    assert sorted(glue.list_tables()) == [f"d.{name}" for name in names]


def test_a_call_that_worked_and_is_repeated_makes_the_entry(
    tmp_path: Path, glue: GlueServer
) -> None:
    lake = open_lake(tmp_path)
    advance(lake, send_all(create("a", 2), watermark(9)))
    catalog = glue.open()
    create_table = catalog._client.create_table

    def create_twice(**request: Any) -> Any:
        create_table(**request)
        return create_table(**request)

    catalog._client.create_table = create_twice
    assert register_tables(lake.location, read_last_snapshot(lake), catalog) == []
    assert [*glue.list_tables()] == ["d.a"]


def test_an_entry_has_what_engines_look_for(tmp_path: Path, glue: GlueServer) -> None:
    lake = open_lake(tmp_path)
    sql = (
        "CREATE TABLE t (Id BIGINT UNSIGNED PRIMARY KEY, d DECIMAL(10,2) COMMENT 'what\nit costs',"
        " at DATETIME, v VECTOR(2))"
    )
    advance(lake, send_all(ddl("d", "t", 2, "CREATE", sql), watermark(9)))
    assert update(lake, glue, database_prefix="tidb_") == []
    entry = glue.list_tables()["tidb_d.t"]
    parameters = entry["Parameters"]
    assert parameters["table_type"] == "DELTA"
    assert parameters["EXTERNAL"] == "TRUE"
    assert parameters["spark.sql.sources.provider"] == "delta"
    assert parameters["ticdc.changefeed"] == FEED.id
    assert json.loads(parameters["ticdc.primary_key"]) == ["Id"]
    assert [tuple(each.values()) for each in entry["StorageDescriptor"]["Columns"]] == [
        ("id", "decimal(20,0)", "bigint unsigned NOT NULL"),
        ("d", "decimal(10,2)", "decimal(10,2): what it costs"),
        ("at", "timestamp", "datetime"),
        ("v", "array<float>", "vector(2)"),
        ("_commit_ts", "bigint", "commit ts of the last change of this row"),
    ]
    # A comment alone changes the entry, too, and what other people added to it stays.
    theirs = {key: entry[key] for key in ("Name", "StorageDescriptor")}
    glue.client.update_table(
        DatabaseName="tidb_d", TableInput={**theirs, "Parameters": {**parameters, "team": "sales"}}
    )
    sql = "ALTER TABLE t MODIFY COLUMN d DECIMAL(10,2) COMMENT 'a price'"
    changed = (ddl("d", "t", 12, "ALTER", sql), watermark(19))
    advance(lake, send_all(ddl("d", "t", 2, "CREATE", sql), watermark(9), *changed))
    assert update(lake, glue, database_prefix="tidb_") == []
    entry = glue.list_tables()["tidb_d.t"]
    assert entry["Parameters"]["team"] == "sales"
    assert entry["StorageDescriptor"]["Columns"][1]["Comment"] == "decimal(10,2): a price"


def test_an_entry_that_this_changefeed_did_not_make_is_left_alone(
    tmp_path: Path, glue: GlueServer
) -> None:
    lake = open_lake(tmp_path)
    messages = [create("a", 2), create("b", 3), create("c", 4)]
    advance(lake, send_all(*messages, watermark(9)))
    glue.client.create_database(DatabaseInput={"Name": "d"})
    made = {"a": {}, "b": {"ticdc.changefeed": "other"}}
    for name, parameters in made.items():
        table = {"Name": name, "Parameters": parameters}
        glue.client.create_table(DatabaseName="d", TableInput=table)
    found = update(lake, glue)
    assert [(each.kind, each.table, each.reason) for each in found] == [
        (
            "catalog",
            "a",
            "glue: d.a is there already, and no changefeed made it: drop or rename it, or set"
            " database-prefix",
        ),
        (
            "catalog",
            "b",
            "glue: d.b is there already, of changefeed other: give one of the two another"
            " database-prefix",
        ),
    ]
    assert not any(problem.data_may_differ for problem in found)
    assert read_registration(lake.location, "glue").problems == tuple(p.describe() for p in found)
    entries = glue.list_tables()
    assert {name: entries[f"d.{name}"]["Parameters"] for name in made} == made
    assert entries["d.c"]["Parameters"]["ticdc.changefeed"] == FEED.id
    # Nor are they dropped with the tables of these names, and nor is one that took our place.
    glue.client.update_table(DatabaseName="d", TableInput={"Name": "c", "Parameters": {}})
    drops = [ddl("d", t, 12 + n, "ERASE", f"DROP TABLE {t}") for n, t in enumerate("abc")]
    advance(lake, send_all(*messages, watermark(9), *drops, watermark(19)))
    assert update(lake, glue) == []
    assert glue.list_tables().keys() == {"d.a", "d.b", "d.c"}
    assert glue.calls["DeleteTable"] == 0


def test_two_lakes_with_one_database_share_a_catalog_by_a_prefix(
    tmp_path: Path, glue: GlueServer
) -> None:
    lakes = [open_lake(tmp_path / name) for name in ("first", "second")]
    for lake in lakes:
        advance(lake, send(1))
    assert update(lakes[0], glue) == []
    (one, two) = update(lakes[1], glue)
    assert "d.a is there already, of another lake, at file:///" in one.reason
    assert "d.b is there already, of another lake, at file:///" in two.reason
    assert update(lakes[1], glue, database_prefix="second_") == []
    assert glue.list_tables().keys() == {"d.a", "d.b", "second_d.a", "second_d.b"}
    # A prefix that is changed later takes the entries along.
    assert update(lakes[1], glue, database_prefix="new_") == []
    assert glue.list_tables().keys() == {"d.a", "d.b", "new_d.a", "new_d.b"}


def test_hostile_names_have_entries_or_a_reason_why_not(tmp_path: Path, glue: GlueServer) -> None:
    lake = open_lake(tmp_path)
    names = [*NAMES, "Mixed", "İ", "i̇", "x" * 64, "表" * 64, "👍" * 64]
    created = [
        ddl("d", name, 2 + n, "CREATE", f"CREATE TABLE `{name.replace('`', '``')}` (id INT)")
        for n, name in enumerate(names)
    ]
    advance(lake, send_all(*created, watermark(99)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(register, "_MOST_SHOWN", 99)
        found = update(lake, glue)
    reasons = {problem.table: problem.reason for problem in found}
    entries = glue.list_tables()
    tables = {table.schema.table for table in read_last_snapshot(lake).state.incarnations.values()}
    assert len(tables) > len(NAMES)
    for name in tables:
        assert (f"d.{name.lower()}" in entries) != (name in reasons), name
    assert "as d.i̇ would" in reasons["İ"]
    assert "as d.İ would" in reasons["i̇"]
    assert "up to 255 bytes" in reasons["👍" * 64]
    assert "takes no name with '\\x1b' in it" in reasons[NAMES[1]]
    assert all(problem.describe().isprintable() for problem in found)


def test_a_catalog_that_is_down_is_caught_up_with_by_the_next_run(
    tmp_path: Path, glue: GlueServer
) -> None:
    lake = open_lake(tmp_path)
    advance(lake, send(2))
    down = GlueCatalog(region=REGION, endpoint="http://127.0.0.1:9")
    (problem,) = register_tables(lake.location, read_last_snapshot(lake), open_catalog(down))
    assert problem.describe().startswith("catalog: glue: Glue does not answer: Could not connect")
    assert problem.reason.endswith("; the next run goes on (2 entries)")
    assert update(lake, glue) == []
    assert glue.list_tables().keys() == {"d.a", "d.b"}


def test_an_entry_that_somebody_dropped_is_made_again_within_a_day(
    tmp_path: Path, glue: GlueServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = open_lake(tmp_path)
    advance(lake, send(2))
    update(lake, glue)
    glue.client.delete_table(DatabaseName="d", Name="a")
    assert update(lake, glue) == []
    assert glue.list_tables().keys() == {"d.b"}
    monkeypatch.setattr(register, "_COMPARED_EVERY", register.timedelta())
    assert update(lake, glue) == []
    assert glue.list_tables().keys() == {"d.a", "d.b"}
    assert glue.calls["CreateTable"] == 1
    assert glue.calls["UpdateTable"] == 0
    # Without the file, the entries of tables that are gone are found by their owner.
    Path(lake.path("catalog-glue.json")).unlink()
    advance(lake, send(3))
    assert update(lake, glue) == []
    assert glue.list_tables().keys() == {"d.b", "d.c"}


def test_a_catalog_that_is_slow_is_left_after_a_while(
    tmp_path: Path, glue: GlueServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = open_lake(tmp_path)
    advance(lake, send(2))
    monkeypatch.setattr(register, "_MOST_SECONDS", -1.0)
    (problem,) = update(lake, glue)
    assert problem.reason == "glue: took longer than -1 s; the next run goes on (2 entries)"
    monkeypatch.undo()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "S3CRET")
    assert update(lake, glue) == []


def test_a_catalog_that_cannot_be_opened_or_fails_unforeseen_is_reported(
    tmp_path: Path, glue: GlueServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = open_lake(tmp_path)
    advance(lake, send(1))
    feed = replace(FEED, catalogs=(GlueCatalog(region=REGION, profile="nobody"),))
    (problem,) = update_catalogs(lake.location, feed)
    assert problem.reason == (
        "glue: catalog.glue: cannot be opened: The config profile (nobody) could not be found"
    )
    assert read_registration(lake.location, "glue").problems == (problem.describe(),)

    def fail(*_: object) -> None:
        raise ZeroDivisionError("nobody foresaw it")

    monkeypatch.setattr(register, "map_names", fail)
    feed = replace(FEED, catalogs=(GlueCatalog(region=REGION, endpoint=glue.url),))
    (problem,) = update_catalogs(lake.location, feed)
    assert problem.reason == "glue: unexpected ZeroDivisionError: nobody foresaw it"
    monkeypatch.undo()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "S3CRET")
    assert update_catalogs(lake.location, feed) == []
    assert read_registration(lake.location, "glue").problems == ()


def test_a_changefeed_without_catalogs_calls_none(tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    assert update_catalogs(lake.location, FEED) == []
    assert not Path(lake.path("")).exists()
