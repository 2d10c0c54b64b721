"""A task that is killed or done twice changes nothing, nor does a driver killed between commits."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.lake.crash_runs import Runs
from tests.lake.test_crash import SMALL
from ticdc_assets.lake.advance import advance
from ticdc_assets.lake.apply import table_features, window_work
from ticdc_assets.lake.apply.table_commits import commit_table
from ticdc_assets.lake.maintain import maintain
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.resources.reading import open_source
from ticdc_assets.store.reader import LakeReader


@pytest.mark.slow
def test_tasks_that_are_killed_and_done_twice_change_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    runs = Runs(tmp_path, replace(SMALL, transactions=8, tables=2), 1)
    while runs.continue_feed():
        pass
    died = tmp_path / "died"
    died.mkdir()
    # A task may fail three times.
    runs.run("tests.lake.dying_tasks", str(died), TICDC_SPARK_MASTER="local[2, 4]")
    # When files of events were written, events spread over parts, and tables done.
    assert {note.name.split()[0] for note in died.iterdir()} == {"events", "SpreadDone", "list"}
    assert runs.check_snapshot(spark) == runs.simulation.checkpoints[-1]
    runs.check_once()
    runs.check_applied(spark)

    lake = Path(runs.location.path(""))
    orphans = set(find_orphans(lake))
    assert {path.relative_to(lake).parts[0] for path in orphans} == {"current", "events"}
    for path in orphans:
        os.utime(path, (0, 0))
    opened = runs.open(spark)
    maintain(opened, read_last_snapshot(opened), retain_days=7)
    assert not set(find_orphans(lake))
    assert runs.check_snapshot(spark) == runs.simulation.checkpoints[-1]


def find_orphans(lake: Path) -> Iterator[Path]:
    """Find data files that no commit of their table names."""
    for log in lake.glob("**/_delta_log"):
        lines = [line for file in log.glob("*.json") for line in file.read_text().splitlines()]
        actions = [json.loads(line) for line in lines]
        named = {action["add"]["path"] for action in actions if "add" in action}
        yield from (file for file in log.parent.glob("*.parquet") if file.name not in named)


class Killed(BaseException):
    pass


def test_a_driver_killed_between_the_commits_of_two_tables_changes_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_features, "LARGE_TABLE", 1 << 40)
    # Tables only get more rows: nothing but the restored version tells those of the killed run.
    runs = Runs(tmp_path, replace(SMALL, updates=0.0), 2)
    runs.begin(spark)
    runs.continue_feed()
    before = runs.check_snapshot(spark)
    lake = runs.open(spark)
    snapshot = read_last_snapshot(lake)
    committed: list[str] = []

    def commit_one(location: Any, done: Any, *rest: Any) -> int:
        if committed:
            raise Killed
        committed.append(done.id)
        return commit_table(location, done, *rest)

    with monkeypatch.context() as killed:
        killed.setattr(window_work, "commit_table", commit_one)
        killed.setattr(window_work, "_COMMITS_AT_ONCE", 1)
        with pytest.raises(Killed):
            advance(lake, open_source(runs.feed))
    assert len(snapshot.versions) == 3
    reader = LakeReader(lake.location)
    newest = {id: reader.open(f"current/{id}").version() for id in snapshot.versions}
    assert {id for id in newest if newest[id] != snapshot.versions[id]} == set(committed)
    assert read_last_snapshot(lake) == snapshot
    assert runs.check_snapshot(spark) == before
    runs.finish(spark)
    assert runs.check_snapshot(spark) == runs.simulation.checkpoints[-1]
    runs.check_once()
    runs.check_applied(spark)
