"""Tables of a real TiDB, older than a changefeed of folders, whose first events are DDLs."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.lake.test_tidb_changefeed import assert_equal, read_lake
from tests.lake.tidb_recording import Recording, declare, execute, read_all, recorder_of, write
from tests.tidb_server import Tidb
from ticdc_assets.changefeed import CsvDialect, load_changefeeds
from ticdc_assets.demo import SimulationOptions
from ticdc_assets.demo.change import Ddl
from ticdc_assets.demo.recorder import Recorder
from ticdc_assets.lake.advance import advance
from ticdc_assets.resources.reading import open_source
from ticdc_assets.store.lake import Lake, LakeSession

PARTS = " PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS"
PARTS += " THAN (20))"
COLUMNS = "(id int PRIMARY KEY, v int, w int)"
OLDER = {
    "narrowed": COLUMNS,
    "parted": COLUMNS + PARTS,
    "emptied": COLUMNS + PARTS,
    "renamed": COLUMNS + PARTS,
    "recast": COLUMNS,
}
# What each table's first events are; rows follow each.
DDLS: Sequence[tuple[str, str]] = [
    ("narrowed", "ALTER TABLE `narrowed` DROP COLUMN `v`"),
    ("parted", "ALTER TABLE `parted` DROP PARTITION `p0`"),
    ("emptied", "ALTER TABLE `emptied` TRUNCATE PARTITION `p1`"),
    ("moved", "RENAME TABLE `{database}`.`renamed` TO `{database}`.`moved`"),
    ("moved", "ALTER TABLE `moved` DROP PARTITION `p0`"),
    ("recast", "ALTER TABLE `recast` MODIFY COLUMN `v` VARCHAR(9) NOT NULL DEFAULT 'x'"),
    ("narrowed", "ALTER TABLE `narrowed` DROP COLUMN `w`"),
]


def record_ddls(recorder: Recorder) -> Recording:
    """Record DDLs of tables that are older than the recording, and rows after each."""
    recording = Recording()
    recorder.execute(f"CREATE DATABASE `{recorder.database}`")
    for table, columns in OLDER.items():
        recorder.execute(f"CREATE TABLE `{table}` {columns}")
    for number, (table, sql) in enumerate(DDLS):
        execute(recording, recorder, sql.format(database=recorder.database))
        columns = [column.name for column in recorder.tables[table].schema.columns]
        rows = [", ".join([str(id)] + ["7"] * (len(columns) - 1)) for id in (10 + number, 19)]
        change = recorder.transact(
            [f"REPLACE INTO `{table}` VALUES ({row})" for row in rows], {table: ""}
        )
        assert change is not None
        recording.changes.append(change)
        if number == 2:
            recording.checkpoints.append(recorder.now())
    recording.checkpoints.append(recorder.now())
    return recording


@pytest.mark.parametrize(
    "dialect",
    [CsvDialect(), CsvDialect(include_commit_ts=True)],
    ids=["without commit ts", "with commit ts"],
)
def test_a_first_event_may_be_any_ddl(
    request: pytest.FixtureRequest, tidb: Tidb, dialect: CsvDialect, tmp_path: Path
) -> None:
    with recorder_of(tidb) as recorder:
        recording = record_ddls(recorder)
    options = SimulationOptions(csv=dialect, tables_exist=True)
    (feed,) = load_changefeeds(declare(tmp_path / "feed", options)).values()
    feed = replace(feed, upstream=tidb.upstream)
    start_spark = partial(request.getfixturevalue, "spark")
    lake = LakeSession(start_spark, Lake(str(tmp_path / "lake"), feed.id), feed)
    for checkpoint in write(recording, tmp_path / "feed", options):
        applied = advance(lake, open_source(feed)).applied
        assert [problem.describe() for problem in applied.problems] == []
        # The changefeed says nothing of the others yet.
        tables = {
            change.after.table
            for change in recording.changes
            if isinstance(change, Ddl) and change.after is not None and change.ts <= checkpoint
        }
        truth = read_all(tidb, checkpoint)
        assert_equal(read_lake(lake, checkpoint), {t: truth[t] for t in tables}, checkpoint)
