"""Entries of a Hive Metastore follow their tables, and nobody else's entries are touched."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.catalogs.test_glue import send_all
from tests.hostile_names import NAMES
from tests.lake.addresses import create, open_lake, send
from tests.lake.canal import ddl, watermark
from tests.lake.life_of_names import Life, read_by_name
from tests.servers import HOST, free_port
from ticdc_assets.catalogs import read_registration, register, register_tables
from ticdc_assets.catalogs.entry import Catalog, FoundEntry
from ticdc_assets.changefeed.catalog import HiveCatalog
from ticdc_assets.lake.advance import advance
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.resources.catalogs import open_catalog
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.stream.problem import Problem


def open_at(uri: str, prefix: str) -> Any:
    return open_catalog(HiveCatalog(uri, prefix))


def update(lake: LakeSession, catalog: Catalog) -> list[Problem]:
    return register_tables(lake.location, read_last_snapshot(lake), catalog)


def test_a_reader_by_name_sees_a_life_of_twenty_tables(tmp_path: Path, metastore: str) -> None:
    lake, catalog, life = open_lake(tmp_path), open_at(metastore, "twenty_"), Life(3)
    client = catalog._client
    for _ in range(4):
        contents = life.live()
        advance(lake, life.send())
        # Hive takes few names.
        strange = {name for name in contents if re.search(r"\W", name[1], re.ASCII)}
        problems = update(lake, catalog)
        assert {(problem.database, problem.table) for problem in problems} == strange
        entries = (
            client.get_table_objects_by_name(database, client.get_all_tables(database))
            for database in ("twenty_d", "twenty_e")
        )
        found = read_by_name(e.sd.location for each in entries for e in each)
        assert found == {name: rows for name, rows in contents.items() if name not in strange}


def test_an_entry_has_what_engines_look_for(tmp_path: Path, metastore: str) -> None:
    lake, catalog = open_lake(tmp_path), open_at(metastore, "what_")
    comment = "x" * 300
    sql = f"CREATE TABLE t (Id BIGINT PRIMARY KEY, `ä-b` DATETIME COMMENT '{comment}')"
    advance(lake, send_all(ddl("d", "t", 2, "CREATE", sql), watermark(9)))
    assert update(lake, catalog) == []
    table = catalog._client.get_table("what_d", "t")
    assert table.tableType == "EXTERNAL_TABLE"
    assert table.parameters["spark.sql.sources.provider"] == "delta"
    assert table.parameters["ticdc.resolved_ts"] == "9"
    columns = [(column.name, column.type, column.comment[:20]) for column in table.sd.cols]
    assert columns[:2] == [
        ("id", "bigint", "bigint NOT NULL"),
        ("ä-b", "timestamp", "datetime: " + "x" * 10),
    ]


def test_only_own_entries_are_changed(tmp_path: Path, metastore: str) -> None:
    lake, catalog = open_lake(tmp_path), open_at(metastore, "own_")
    messages = [create(name, 2 + n) for n, name in enumerate("ab")]
    advance(lake, send_all(*messages, watermark(9)))
    assert update(lake, catalog) == []
    # Somebody takes the place of one.
    table = catalog._client.get_table("own_d", "a")
    table.parameters = {"EXTERNAL": "TRUE"}
    catalog._client.alter_table("own_d", "a", table)
    sql = "ALTER TABLE {} ADD COLUMN v INT"
    more = [ddl("d", name, 12 + n, "ALTER", sql.format(name)) for n, name in enumerate("ab")]
    advance(lake, send_all(*messages, watermark(9), *more, watermark(19)))
    (problem,) = update(lake, catalog)
    assert problem.reason.startswith("hive: own_d.a is there already, and no changefeed made it")
    columns = catalog._client.get_table("own_d", "b").sd.cols
    assert [column.name for column in columns] == ["id", "v", "_commit_ts"]
    drops = [ddl("d", name, 22 + n, "ERASE", f"DROP TABLE {name}") for n, name in enumerate("ab")]
    messages += [watermark(9), *more, watermark(19), *drops, watermark(29)]
    advance(lake, send_all(*messages))
    assert update(lake, catalog) == []
    assert catalog.list_entries("own_d") == {
        "a": FoundEntry(table.sd.location, catalog._client.get_table("own_d", "a").parameters)
    }


def test_hostile_names_have_entries_or_a_reason_why_not(
    tmp_path: Path, metastore: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, catalog = open_lake(tmp_path), open_at(metastore, "odd_")
    monkeypatch.setattr(register, "_MOST_SHOWN", 99)
    created = [
        ddl("d", name, 2 + n, "CREATE", f"CREATE TABLE `{name.replace('`', '``')}` (id INT)")
        for n, name in enumerate([*NAMES, "Mixed", "x" * 64])
    ]
    advance(lake, send_all(*created, watermark(99)))
    reasons = {problem.table: problem.reason for problem in update(lake, catalog)}
    assert catalog.list_entries("odd_d").keys() == {"plain", "mixed", "x" * 64}
    tables = {table.schema.table for table in read_last_snapshot(lake).state.incarnations.values()}
    assert reasons.keys() == tables - {"plain", "Mixed", "x" * 64}
    assert {reason.partition(":")[0] for reason in reasons.values()} == {"hive"}


def test_a_metastore_that_is_down_is_caught_up_with(tmp_path: Path, metastore: str) -> None:
    lake = open_lake(tmp_path)
    advance(lake, send(2))
    (problem,) = update(lake, open_at(f"thrift://{HOST}:{free_port()}", "down_"))
    assert problem.reason.startswith("hive: Hive Metastore does not answer: Could not connect")
    assert update(lake, open_at(metastore, "down_")) == []
    assert read_registration(lake.location, "hive").problems == ()
    assert open_at(metastore, "down_").list_entries("down_d").keys() == {"a", "b"}
