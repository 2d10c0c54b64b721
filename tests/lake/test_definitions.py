"""A lake fetches how upstream defines tables that are older than the changefeed, and uses it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.lake.canal import FEED, change, ddl, placed, watermark
from tests.lake.fake_tidb import FakeTidb
from tests.lake.recorded_tidb import RecordedTidb, read_recordings
from tests.mariadb_server import MariaDb
from ticdc_assets.changefeed import CsvDialect, changefeed_from_uri
from ticdc_assets.changefeed.upstream import Upstream
from ticdc_assets.demo.change import ChangedRow, CommittedTransaction, Ddl, DdlKind
from ticdc_assets.demo.csv_lines import CsvLines
from ticdc_assets.demo.delivery import Delivery
from ticdc_assets.demo.storage import StorageWriter
from ticdc_assets.lake.advance import (
    AdvanceResult,
    FolderSource,
    RecordSource,
    advance,
    replay_tables,
)
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.log.definitions import read_definitions
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources.storage import open_sink_folder
from ticdc_assets.resources.upstream import UpstreamDatabase
from ticdc_assets.storage_sink.path import Layout
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.small_tables import read_table
from ticdc_assets.upstream.definition import read_definition
from ticdc_assets.upstream.snapshot import OpenUpstream
from ticdc_assets.views.asof import as_of
from ticdc_assets.views.ledger import build_ledger

DEFINED = (
    "CREATE OR REPLACE TABLE d.t (id int NOT NULL, v varchar(20) DEFAULT 'x', n decimal(10,2),"
    " UNIQUE KEY k (id)) CHARSET utf8mb4 COLLATE utf8mb4_bin PARTITION BY RANGE (id)"
    " (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))"
)
TYPES = {"n": "decimal", "w": "int"}
SENT = [
    change("INSERT", "d", "t", 40, {"id": "1", "v": "low", "n": "1.50"}, **TYPES),
    change("INSERT", "d", "t", 41, {"id": "11", "v": "high", "n": "2.50"}, **TYPES),
    watermark(50),
]
NEW = {"id": "11", "v": "new", "n": "3.50", "w": "8"}
MORE = [
    ddl("d", "t", 60, "ALTER", "ALTER TABLE `t` ADD COLUMN `w` INT NOT NULL DEFAULT 7"),
    ddl("d", "t", 61, "ALTER", "ALTER TABLE `t` DROP PARTITION `p0`"),
    change("UPDATE", "d", "t", 62, NEW, {"v": "high", "n": "2.50", "w": "7"}, **TYPES),
    watermark(70),
]


@pytest.fixture
def fake(mariadb: MariaDb) -> FakeTidb:
    def fill(ts: int) -> None:
        mariadb.run("CREATE DATABASE IF NOT EXISTS d", DEFINED)

    return FakeTidb(mariadb, fill=fill)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> LakeSession:
    return LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), FEED)


def run(
    lake: LakeSession, messages: Sequence[Message], open_upstream: OpenUpstream | None
) -> AdvanceResult:
    return advance(lake, RecordSource(lambda _: placed(messages), open_upstream=open_upstream))


def show(lake: LakeSession, ts: int | None = None) -> list[Any]:
    seen = as_of(lake, ts)
    return sorted(map(msgspec.json.decode, seen.lines(seen.find("d.t")[0])), key=str)


def status(lake: LakeSession) -> str:
    (table,) = read_last_snapshot(lake).state.incarnations.values()
    return table.shown_status


def test_a_table_is_defined_just_before_its_first_event(lake: LakeSession, fake: FakeTidb) -> None:
    done = run(lake, SENT, fake.open)
    assert done.applied.problems == []
    assert fake.read == [39]
    (definition,) = read_definitions(LakeReader(lake.location))
    assert (definition.id, definition.ts, definition.schema.table) == (1, 39, "t")
    (version,) = read_table(lake, "schema_history").collect()
    assert (version["origin"], version["key"]) == ("upstream", ["id"])
    assert version["columns"][1]["default"] == "x"

    done = run(lake, [*SENT, *MORE], fake.open)
    assert (done.applied.problems, status(lake)) == ([], "partial")
    assert show(lake) == [NEW]
    # Between two snapshots, the definition counts as well.
    assert len(show(lake, 45)) == 2
    ledger = build_ledger(LakeReader(lake.location), read_last_snapshot(lake))
    assert ledger.adds_up

    # Neither the next run nor a rebuild reads upstream again.
    last = read_last_snapshot(lake)
    replay_tables(lake, last, ReplayRequest(frozenset(last.state.incarnations), 0), lambda *_: None)
    assert show(lake) == [NEW]
    assert (fake.connections, fake.read) == (1, [39])


def test_a_run_without_upstream_goes_on_and_the_next_one_completes_the_table(
    lake: LakeSession, fake: FakeTidb
) -> None:
    gone = UpstreamDatabase(FEED.id, Upstream("127.0.0.1", "u", port=1))
    done = run(lake, [*SENT, *MORE], gone.open_rows)
    texts = [problem.describe() for problem in done.applied.problems]
    assert [text.partition(":")[0] for text in texts] == ["definition", "paused"]
    assert "must be reachable" in texts[0]
    assert "partitions are unknown" in texts[1]
    assert status(lake) == "paused"

    # Without the right to read which DDL is unfinished, it says so, and does what it can.
    fake.may_read_jobs = False
    (problem,) = run(lake, [*SENT, *MORE], fake.open).applied.problems
    assert problem.kind == "definition"
    assert "GRANT SELECT ON mysql.tidb_ddl_job" in problem.reason
    assert (status(lake), show(lake)) == ("partial", [NEW])


def test_events_that_state_milliseconds_are_preceded_by_a_definition(
    lake: LakeSession, fake: FakeTidb
) -> None:
    plain = changefeed_from_uri("kafka://h:9092/t?protocol=canal-json", id=FEED.id)
    lake = LakeSession(lake.spark, lake.location, plain)
    # Without the extension, there is no watermark.
    sent = [without_extension(message) for message in (*SENT[:-1], *MORE[:-1])]
    assert run(lake, sent, fake.open).applied.problems == []
    # All moments of the millisecond before the first row.
    assert fake.read == [(40 << 18) - 1]
    assert (status(lake), show(lake)) == ("partial", [NEW])


def without_extension(message: Message) -> Message:
    """Return a message whose commit ts is a number of milliseconds."""
    content = json.loads(message.value or b"")
    ts = content.pop("_tidb")
    value = json.dumps(content | {"es": ts["commitTs"]}).encode()
    return msgspec.structs.replace(message, value=value)


DROP_COLUMN = read_recordings()["alter table t drop column v"]


def test_a_definition_of_a_ts_in_the_middle_of_a_ddl_has_nothing_of_it(lake: LakeSession) -> None:
    """TiDB shows the column no more from some time before the ts of its DROP on."""
    tidb, start, end = RecordedTidb(DROP_COLUMN), DROP_COLUMN.changes[0], DROP_COLUMN.done + 9
    first = {"id": "1", "v": "2", "w": "3"}
    sent = [
        change("INSERT", "rec", "t", start, first, v="int", w="int"),
        watermark(DROP_COLUMN.middle),
    ]
    # The table is known up to there, and its definition is not.
    assert run(lake, sent, None).applied.problems == []
    sent += [
        ddl("rec", "t", DROP_COLUMN.done, "ALTER", DROP_COLUMN.sql),
        change("INSERT", "rec", "t", end - 1, {"id": "2", "w": "4"}, w="int"),
        watermark(end),
    ]
    assert run(lake, sent, tidb.open).applied.problems == []
    (definition,) = read_definitions(LakeReader(lake.location))
    assert definition.ts == DROP_COLUMN.middle
    assert [column.name for column in definition.schema.columns] == ["id", "v", "w"]
    shown = as_of(lake)
    lines = sorted(shown.lines(shown.find("rec.t")[0]))
    assert lines == [b'{"id":"1","w":"3"}\n', b'{"id":"2","w":"4"}\n']


def test_rows_that_the_version_of_their_table_dates_follow_its_ddl_and_its_definition(
    spark: SparkSession, tmp_path: Path
) -> None:
    done, folder = DROP_COLUMN.done, tmp_path / "folder"
    folder.mkdir()
    schemas = [
        read_definition(RecordedTidb(DROP_COLUMN, ts).query, "rec", "t")
        for ts in (DROP_COLUMN.changes[0], done)
    ]
    dialect = CsvDialect(include_commit_ts=False)
    begin = Delivery(DROP_COLUMN.changes[0])
    writer = StorageWriter(folder, partial(CsvLines, dialect=dialect), Layout(), begin)
    writer.take(Ddl(done, DdlKind(6, "ALTER"), DROP_COLUMN.sql, "rec", *schemas))
    row = ChangedRow(schemas[1], None, ("1", "3"))
    writer.take(CommittedTransaction(done + 5, [row]))
    writer.flush(done + 9)
    feed = changefeed_from_uri(f"file://{folder}?protocol=csv", id="f")
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), "f"), feed)
    tidb = RecordedTidb(DROP_COLUMN)
    open_folder = partial(open_sink_folder, feed)
    result = advance(lake, FolderSource(open_folder(), open_folder, tidb.open))
    assert result.applied.problems == []
    assert tidb.read == [done]
    shown = as_of(lake)
    assert list(shown.lines(shown.find("rec.t")[0])) == [b'{"id":"1","w":"3"}\n']


def test_what_cannot_be_read_is_reported_and_nothing_waits_for_it(
    lake: LakeSession, fake: FakeTidb, mariadb: MariaDb
) -> None:
    fake.fill = lambda ts: mariadb.run("CREATE OR REPLACE DATABASE d") and None
    (problem,) = run(lake, SENT, fake.open).applied.problems
    assert (problem.kind, problem.table) == ("definition", "t")
    assert "doesn't exist" in problem.reason
    # Only TiDB shows a definition at a ts; of other columns or names, there is none.
    fake.is_tidb = False
    assert run(lake, [*SENT, watermark(60)], fake.open).applied.problems == []
    selecting = replace(FEED, may_lack_columns=True)
    lake = LakeSession(lake.spark, lake.location, selecting)
    assert run(lake, [*SENT, watermark(60), watermark(70)], fake.open).applied.problems == []
    assert fake.connections == 2
    assert len(show(lake)) == 2
