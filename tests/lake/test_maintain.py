"""Maintenance changes files but no snapshot; later runs continue from it."""

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.lake.addresses import LIFE, read_addresses, send
from tests.lake.addresses import open_lake as open_addressed
from tests.lake.canal import FEED, change, ddl, placed, row, watermark
from tests.lake.reading import read_with_spark
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake import maintain as maintenance
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.lake.apply.current_table import CurrentTable
from ticdc_assets.lake.apply.table_features import DELETION_VECTORS
from ticdc_assets.lake.maintain import check_days, maintain
from ticdc_assets.lake.retention import Retention
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources.catalog import read_ingested_offsets
from ticdc_assets.store.contracts import LAYOUT
from ticdc_assets.store.lake import Lake, LakeSession, find_folder
from ticdc_assets.store.lease import LockLost
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.small_tables import read_table
from ticdc_assets.store.stage_commits import StageMark, commit_rows
from ticdc_assets.views.asof import as_of

DAY = 24 * 60 * 60


@pytest.mark.slow
def test_compacting_files_keeps_every_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), FEED)
    messages: list[Message] = []

    def run(ts: int) -> None:
        messages.extend((row("d", "t", ts - 1, id=str(ts)), watermark(ts)))
        advance(lake, RecordSource(lambda _: placed(messages)))

    for ts in (10, 20):
        run(ts)
    before = read_last_snapshot(lake)
    (incarnation,) = before.versions
    done = maintain(lake, before, retain_days=7, expire_days=1, min_files=2)
    after = read_last_snapshot(lake)
    assert done.compacted
    assert done.files_after < done.files_before
    assert (after.ts, after.snapshot_id, after.batch) == (
        before.ts,
        before.snapshot_id + 1,
        before.batch,
    )
    assert after.versions[incarnation] > before.versions[incarnation]
    table = CurrentTable(lake, incarnation)
    assert after.versions[incarnation] == table.version
    # All records are older than a day; the newest one is where reading goes on.
    assert done.expired == 3
    assert [r["offset"] for r in read_table(lake, "raw").collect()] == [3]
    run(30)
    assert read_last_snapshot(lake).ts == 30
    for ts in (10, 20, 30):
        seen = as_of(lake, ts)
        lines = list(seen.lines(seen.find("d.t")[0]))
        assert lines == [b'{"id":"%d"}\n' % id for id in (10, 20, 30) if id <= ts]


def test_removed_snapshots_are_computed_from_the_events(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), FEED)
    messages: list[Message] = []
    windows = [
        [ddl("d", "t", 1, "CREATE", "CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` VARCHAR(20))")],
        [row("d", "t", 11, id="1", v="x"), row("d", "t", 12, id="2", v="y")],
        [change("UPDATE", "d", "t", 21, {"id": "1", "v": "z"}, {"v": "x"})],
        [
            ddl("d", "t", 31, "ALTER", "ALTER TABLE `t` ADD COLUMN `w` INT DEFAULT 7"),
            change("DELETE", "d", "t", 32, {"id": "2", "v": "y"}),
        ],
        [ddl("d", "t", 41, "TRUNCATE", "TRUNCATE TABLE `t`"), row("d", "t", 42, id="3", v="a")],
    ]
    for number, window in enumerate(windows):
        messages += [*window, watermark(10 * number + 9)]
        source = RecordSource(lambda _, sent=tuple(messages): placed(sent))
        assert advance(lake, source).applied.problems == []
    points = [9, 11, 19, 25, 29, 31, 39, 49]

    def read() -> dict[int, list[bytes]]:
        views = {ts: as_of(lake, ts) for ts in points}
        return {ts: list(view.lines(view.find("d.t")[0])) for ts, view in views.items()}

    before = read()
    assert [len(lines) for lines in before.values()] == [0, 1, 2, 2, 2, 2, 1, 1]
    reader = LakeReader(lake.location)
    for id in read_last_snapshot(lake).versions:
        table = reader.open(f"current/{id}")
        table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    assert read() == before
    # An update, a DDL and a delete; Spark computes them by other means.
    for ts in (25, 31, 39):
        view = as_of(lake, ts)
        assert read_with_spark(view, view.find("d.t")[0]) == before[ts]

    # What a change that comes this late would start from is gone.
    messages += [row("d", "t", 13, id="4", v="late"), watermark(59)]
    assert advance(lake, RecordSource(lambda _: placed(messages))).applied.problems == []
    after = read()
    assert [len(lines) for lines in after.values()] == [0, 1, 3, 3, 3, 3, 2, 1]
    assert after[19] == [*before[19], b'{"id":"4","v":"late"}\n']


def age(folder: Path) -> None:
    """Make all files 40 days old, and their removal 10 days old."""
    now = time.time()
    for file in folder.glob("*.parquet"):
        os.utime(file, (now - 40 * DAY, now - 40 * DAY))
    for log in folder.glob("_delta_log/*.json"):
        actions = list(map(json.loads, log.read_text().splitlines()))
        committed = log.stat().st_mtime
        for action in actions:
            if "remove" in action:
                action["remove"]["deletionTimestamp"] = int(now - 10 * DAY) * 1000
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))
        os.utime(log, (committed, committed))
        # Spark's checksum of the text before.
        log.with_name(f".{log.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("writer", ["Spark", "this process"])
def test_files_remain_that_a_table_had_when_the_retention_began(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), FEED)
    messages: list[Message] = []
    began = []
    for ts in (10, 20, 30):
        value = {"id": "1", "v": str(ts)}
        messages.extend((change("UPDATE", "d", "t", ts - 1, value, value), watermark(ts)))
        advance(lake, RecordSource(lambda _: placed(messages)))
        began.append(datetime.now(UTC))
        if writer == "Spark" and ts == 10:
            (id,) = read_last_snapshot(lake).versions
            CurrentTable(lake, id)._set(DELETION_VECTORS)
            maintain(lake, read_last_snapshot(lake), retain_days=30)
    (id,) = read_last_snapshot(lake).versions
    folder = Path(lake.current_path(id))
    age(folder)
    (folder / "part-of-a-killed-run.parquet").touch()
    os.utime(folder / "part-of-a-killed-run.parquet", (0, 0))
    if writer == "this process":
        # The log says no more which files were removed.
        DeltaTable(str(folder)).create_checkpoint()
    monkeypatch.setattr(maintenance, "_now", lambda: began[1] + timedelta(days=30))
    maintain(lake, read_last_snapshot(lake), retain_days=30)

    files = {path.name for path in folder.glob("*.parquet")}
    assert "part-of-a-killed-run.parquet" not in files
    seen = [as_of(lake, ts) for ts in (20, 30)]
    assert [list(view.lines(view.find("d.t")[0])) for view in seen] == [
        [b'{"id":"1","v":"20"}\n'],
        [b'{"id":"1","v":"30"}\n'],
    ]
    newest = {Path(uri).name for uri in DeltaTable(str(folder)).file_uris()}
    assert len(files - newest) == 1


def test_a_large_table_of_the_lake_is_clustered_and_still_written(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), FEED)
    messages = [row("d", "t", 9, id="1"), watermark(10)]
    advance(lake, RecordSource(lambda _: placed(messages)))
    monkeypatch.setattr(maintenance, "_LARGE_TABLE", 1)
    maintain(lake, read_last_snapshot(lake))
    for name, columns in LAYOUT.items():
        (detail,) = spark.sql(f"DESCRIBE DETAIL {lake.sql(name)}").collect()
        assert tuple(detail["clusteringColumns"]) == columns
    messages += [row("d", "t", 19, id="2"), watermark(20)]
    advance(lake, RecordSource(lambda _: placed(messages)))
    seen = as_of(lake, 20)
    assert list(seen.lines(seen.find("d.t")[0])) == [b'{"id":"1"}\n', b'{"id":"2"}\n']
    # A commit may have no rows, as of offsets without a record.
    raw = LakeReader(lake.location).open("raw")
    none = read_table(lake, "raw").limit(0).toArrow()
    assert commit_rows(lake, "raw", none, StageMark("ingest", 9, {"offsets": {"t-0": [[0, 4]]}}))
    assert read_ingested_offsets(lake.location) == {"t-0": 5}
    assert LakeReader(lake.location).open("raw").version() == raw.version() + 1


@pytest.mark.parametrize(
    ("days", "reason"),
    [
        ({"retain_days": 6}, "--retain-days: must be at least 7"),
        ({"retain_days": 36_501}, "--retain-days: must be at most 36500"),
        ({"expire_days": 0}, "--expire-days: must be at least 1"),
        ({"expire_days": -5}, "--expire-days: must be at least 1"),
        ({"expire_days": 10**12}, "--expire-days: must be at most 36500"),
    ],
)
def test_unsafe_days_are_an_error(days: dict[str, int], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        check_days(days.get("retain_days", 7), days.get("expire_days"))


def test_a_table_that_cannot_be_maintained_is_named_and_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = open_addressed(tmp_path)
    for windows in (1, 2, 4):
        assert advance(lake, send(windows)).applied.problems == []
    last = read_last_snapshot(lake)
    broken = "quarantine"
    names = ["raw", "events", broken, *(f"current/{id}" for id in last.versions)]
    for name in names:
        Path(lake.path(find_folder(name)), "left.parquet").touch()
    retention = Retention(LakeReader(lake.location), 0)
    before = {name: retention.find(name).number for name in names}
    assert all(before.values())
    (log,) = Path(lake.path(find_folder(broken))).glob("_delta_log/*00.json")
    whole = log.read_bytes()
    log.write_bytes(b'{"add":{')

    def lose(*_: object) -> None:
        raise LockLost("lost")

    with monkeypatch.context() as patch:
        patch.setattr(maintenance, "check_lock", lose)
        with pytest.raises(LockLost):
            maintain(lake, last, retain_days=0)
    assert {n: retention.find(n).number for n in names if n != broken} == {
        name: number for name, number in before.items() if name != broken
    }
    done = maintain(lake, last, retain_days=0)
    assert [fault.split(":")[0] for fault in done.faults] == [broken]
    with pytest.raises(ConfigError, match=f"^all was maintained but for {broken}: "):
        done.require_whole()
    log.write_bytes(whole)
    left = {name: Retention(LakeReader(lake.location), 0).find(name).number for name in names}
    assert left == {**dict.fromkeys(names, 0), broken: before[broken]}
    mended = maintain(lake, read_last_snapshot(lake), retain_days=0)
    mended.require_whole()
    assert mended.removed_files >= before[broken]
    assert advance(lake, send(6)).applied.problems == []
    assert read_addresses(lake) == LIFE[5][1]
