"""A load from a real TiDB, killed with -9 while clients write, and started again."""

from pathlib import Path
from random import Random

import pytest

from tests.cli.kills import run_killed
from tests.lake.tidb_feed import TidbFeed, TidbLake, busy, read_truth
from tests.tidb_server import Tidb

TABLES = [f"t{n}" for n in range(5)]
DECLARED = """[[changefeed]]
id = "f"
sink-uri = "kafka://h:9092/t?protocol=canal-json&enable-tidb-extension=true"
config = "feed.toml"
"""


@pytest.mark.parametrize("kills", [1, pytest.param(12, marks=pytest.mark.soak)])
def test_a_load_that_is_killed_while_clients_write_is_finished_by_the_next(
    tidb: Tidb, tmp_path: Path, kills: int
) -> None:
    rows = ", ".join(f"({id}, 'old')" for id in range(1_000_000, 1_000_300))
    tidb.run(
        *("DROP DATABASE IF EXISTS killed", "CREATE DATABASE killed", "USE killed"),
        *(f"CREATE TABLE {name} (id int PRIMARY KEY, v varchar(20))" for name in TABLES),
        *(f"INSERT INTO {name} VALUES {rows}" for name in TABLES),
    )
    declared = tmp_path / "changefeeds.toml"
    declared.write_text(DECLARED + tidb.declared)
    (tmp_path / "feed.toml").write_text('[filter]\nrules = ["killed.*"]\n')
    lake = TidbLake.make(TidbFeed(tidb, "killed"), tmp_path / "lake", lambda: None)
    (tmp_path / "lake").mkdir()
    command = ["load", "--from-upstream", "--lake", tmp_path / "lake", "--changefeeds", declared]
    with busy(lake.feed, *TABLES):
        done, code = run_killed(
            command, tmp_path / "lake", Random(kills), kills=kills, most_files=40
        )
    assert done
    assert code == 0
    loaded = lake.read_loaded()
    assert sorted(loaded) == TABLES
    for table, (ts, found) in loaded.items():
        assert found == read_truth(lake.feed, table, ts), table
    until = tidb.now()
    assert lake.advance(until) == []
    assert lake.show() == {table: read_truth(lake.feed, table, until) for table in TABLES}
