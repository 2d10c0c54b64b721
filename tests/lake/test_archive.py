"""Archived tables keep what was deleted, whatever becomes of runs and in whatever way."""

from pathlib import Path
from random import Random

import duckdb
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import ticdc_assets
from tests.lake.archived_feed import CREATE, IDS, STEP, ArchivedFeed
from tests.usual import usual
from ticdc_assets.changefeed.archive import TableArchive
from ticdc_assets.lake.apply import table_features
from ticdc_assets.log.applied import read_last_snapshot

ALL = TableArchive(("d.*",))


def read(feed: ArchivedFeed) -> list[tuple[int, str, bool]]:
    """Read the address as any reader does: id, value, and whether the row was deleted."""
    rows = DeltaTable(feed.lake.path("current/d.t")).to_pyarrow_table()
    deleted = pc.is_valid(rows["_deleted_ts"]).to_pylist()
    return sorted(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), deleted, strict=True))


def test_deletes_leave_rows_until_their_keys_come_back(tmp_path: Path) -> None:
    feed = ArchivedFeed(tmp_path, ALL)
    feed.run_ddl(CREATE, "CREATE")
    for id in (1, 2, 11):
        feed.put(id, f"v{id}")
    feed.advance()
    assert read(feed) == [(1, "v1", False), (2, "v2", False), (11, "v11", False)]
    feed.delete(1)
    feed.empty_partition(1)
    feed.advance()
    assert read(feed) == [(1, "v1", True), (2, "v2", False), (11, "v11", True)]
    feed.put(1, "again")
    feed.put(3, "short")
    feed.delete(3)
    feed.advance()
    kept = [(3, "short", True), (11, "v11", True)]
    assert read(feed) == [(1, "again", False), (2, "v2", False), *kept]
    feed.truncate()
    feed.put(4, "new")
    feed.advance()
    assert read(feed) == [
        (1, "again", True), (2, "v2", True), (3, "short", True), (4, "new", False),
        (11, "v11", True),
    ]  # fmt: skip
    # DDL concerns kept rows, too: one whose value TiDB did not have to convert is NULL.
    feed.run_ddl("ALTER TABLE {} ADD COLUMN n INT NOT NULL DEFAULT 7")
    feed.advance()
    table = DeltaTable(feed.lake.path("current/d.t"))
    assert set(table.to_pyarrow_table()["n"].to_pylist()) == {7}
    feed.run_ddl("ALTER TABLE {} MODIFY v VARCHAR(5)")
    feed.advance()
    feed.rebuild()
    feed.compare()


@pytest.mark.parametrize("seed", usual(range(2), lambda seed: seed == 0))
def test_killed_and_replayed_runs_keep_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random, feed = Random(seed), ArchivedFeed(tmp_path, ALL)
    feed.run_ddl(CREATE, "CREATE")
    for window in range(8):
        late = None
        for _ in range(random.randrange(1, 15)):
            feed.change_at_random(random)
            # A row of a key of its own that only arrives after its window.
            if late is None and random.random() < 0.05:
                late = feed.ts + 1
        if random.random() < 0.5:
            feed.kill(random.randrange(3), monkeypatch)
            if random.random() < 0.5:
                feed.change_at_random(random)
        feed.advance()
        if late is not None and window > 2:
            feed.send_late(late, IDS + window)
            feed.advance()
    found = read(feed)
    feed.rebuild()
    feed.compare()
    assert read(feed) == found
    assert {True, False} == {deleted for _, _, deleted in found}


def test_a_large_table_is_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    monkeypatch.setattr(table_features, "LARGE_TABLE", -1)
    random, feed = Random(7), ArchivedFeed(tmp_path, ALL, spark=spark)
    feed.run_ddl(CREATE, "CREATE")
    for id in range(12):
        feed.put(id, "v")
    feed.advance()
    for _ in range(16):
        id = random.randrange(IDS)
        if id in feed.there and random.random() < 0.6:
            feed.delete(id)
        else:
            feed.put(id, f"v{feed.ts // STEP}")
    feed.advance()
    feed.run_ddl("ALTER TABLE {} ADD COLUMN n INT")
    feed.delete(next(iter(feed.there)))
    feed.advance()
    (id,) = read_last_snapshot(feed.lake).versions
    table = DeltaTable(feed.lake.current_path(id))
    assert "deletionVectors" in (table.protocol().reader_features or ())
    operations = [commit["operation"] for commit in table.history()]
    assert operations.count("MERGE") >= 2


def test_which_deletes_are_kept_is_a_setting(tmp_path: Path) -> None:
    feed = ArchivedFeed(tmp_path, TableArchive(("d.t",), ("drop-partition",)))
    feed.run_ddl(CREATE, "CREATE")
    for id in (1, 2, 11):
        feed.put(id, f"v{id}")
    feed.delete(1)
    feed.empty_partition(1)
    feed.advance()
    assert read(feed) == [(2, "v2", False), (11, "v11", True)]
    # What was kept stays, whatever ends the other rows, unless its key comes back.
    feed.truncate()
    feed.advance()
    assert read(feed) == [(11, "v11", True)]
    feed.put(11, "again")
    feed.delete(11)
    feed.advance()
    assert read(feed) == []


def test_a_table_is_archived_from_the_next_run_on(tmp_path: Path) -> None:
    feed = ArchivedFeed(tmp_path)
    feed.run_ddl(CREATE, "CREATE")
    for id in (1, 2, 3):
        feed.put(id, f"v{id}")
    feed.delete(1)
    feed.try_advance()
    columns = DeltaTable(feed.lake.path("current/d.t")).schema().fields
    assert "_deleted_ts" not in [field.name for field in columns]
    feed.declare(ALL)
    assert feed.try_advance().is_idle
    assert read(feed) == [(2, "v2", False), (3, "v3", False)]
    feed.delete(2)
    feed.try_advance()
    assert read(feed) == [(2, "v2", True), (3, "v3", False)]
    # Without the setting, what is kept stays, and nothing more is.
    feed.declare()
    feed.delete(3)
    feed.try_advance()
    assert read(feed) == [(2, "v2", True)]
    feed.declare(ALL)
    feed.rebuild()
    assert read(feed) == [(1, "v1", True), (2, "v2", True), (3, "v3", True)]
    feed.declare()
    feed.rebuild()
    columns = DeltaTable(feed.lake.path("current/d.t")).schema().fields
    assert [field.name for field in columns] == ["id", "v", "_commit_ts"]


def test_a_column_of_the_same_name_pauses_the_table(tmp_path: Path) -> None:
    feed = ArchivedFeed(tmp_path, ALL)
    feed.run_ddl(CREATE, "CREATE")
    feed.put(1, "v")
    feed.advance()
    feed.delete(1)
    feed.run_ddl("ALTER TABLE {} ADD COLUMN _Deleted_TS INT")
    (problem,) = feed.try_advance().applied.problems
    text = problem.describe()
    assert "it has a column _Deleted_TS, and [[changefeed.archive]] adds a column of" in text
    assert read(feed) == [(1, "v", False)]


def test_readers_by_name_get_kept_rows_and_their_columns(tmp_path: Path) -> None:
    feed = ArchivedFeed(tmp_path, ALL)
    feed.run_ddl(CREATE, "CREATE")
    feed.put(1, "a")
    feed.put(2, "b")
    feed.delete(2)
    feed.advance()
    between = feed.ts
    feed.truncate()
    feed.put(3, "c")
    feed.advance()
    lake = ticdc_assets.open_lake(tmp_path / "lake", feed.feed)
    for at, wanted in ((lake, [3]), (lake.at(between), [1])):
        table = at.table("d.t")
        rows = table.arrow()
        assert rows.schema == table.arrow_schema
        there = rows.filter(pc.is_null(rows["_deleted_ts"]))
        assert there["id"].to_pylist() == wanted
        with duckdb.connect() as connection:
            relation = table.duckdb(connection).filter("_deleted_ts IS NULL")
            assert [row[0] for row in relation.fetchall()] == wanted
    assert lake.table("d.t").arrow(["id", "_deleted_at"]).num_rows == 3
