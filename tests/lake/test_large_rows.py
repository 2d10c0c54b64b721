"""A lake fetches the rows that the stream holds only the key of, once, and says where it cannot."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from tests.lake.canal import FEED, change, ddl, placed, row, watermark
from tests.lake.fake_tidb import FakeTidb
from tests.mariadb_server import MariaDb
from ticdc_assets.changefeed.upstream import Upstream
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.advance import RecordSource, advance, replay_tables
from ticdc_assets.lake.events.large_rows import NOT_FOUND, TOO_OLD
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources.upstream import UpstreamDatabase
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.small_tables import read_table
from ticdc_assets.stream.problem import KEY_ONLY
from ticdc_assets.upstream.snapshot import OpenUpstream, SnapshotTooOld
from ticdc_assets.views.asof import as_of
from ticdc_assets.views.ledger import build_ledger

CREATE = "CREATE TABLE `a` (`id` INT PRIMARY KEY, `v` VARCHAR(20))"


def by_key(message: Message) -> Message:
    """Mark a message as one that is too large."""
    content = msgspec.json.decode(message.value or b"")
    content["_tidb"]["onlyHandleKey"] = True
    return replace(message, value=msgspec.json.encode(content))


SENT = [
    ddl("d", "a", 10, "CREATE", CREATE),
    row("d", "a", 20, id="1", v="one"),
    by_key(row("d", "a", 20, id="2")),
    by_key(change("UPDATE", "d", "a", 30, {"id": "1"}, {"id": "1"})),
    by_key(row("d", "a", 40, id="3")),
    by_key(change("DELETE", "d", "a", 50, {"id": "3"})),
    by_key(row("d", "a", 60, id="4")),
    watermark(70),
]
# What the table holds upstream at the ts of the rows that the stream lacks; 60 is too old.
HELD = {20: [(1, "one"), (2, "two")], 30: [(1, "new"), (2, "two")], 40: []}


@pytest.fixture
def fake(mariadb: MariaDb) -> FakeTidb:
    def fill(ts: int) -> None:
        if ts not in HELD:
            raise SnapshotTooOld("GC life time is shorter than …")
        mariadb.run(
            "CREATE DATABASE IF NOT EXISTS d",
            "CREATE OR REPLACE TABLE d.a (id int PRIMARY KEY, v varchar(20)) CHARSET utf8mb4",
            *[("INSERT INTO d.a VALUES (%s, %s)", pair) for pair in HELD[ts]],
        )

    return FakeTidb(mariadb, fill=fill)


def source(messages: list[Message], open_upstream: OpenUpstream | None) -> RecordSource:
    return RecordSource(lambda _: placed(messages), open_upstream=open_upstream)


def show(lake: LakeSession) -> list[Any]:
    seen = as_of(lake)
    return sorted(map(msgspec.json.decode, seen.lines(seen.find("d.a")[0])), key=str)


def test_rows_of_a_fake_tidb_are_stored_with_their_events(
    spark: SparkSession, tmp_path: Path, fake: FakeTidb
) -> None:
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), FEED)

    advance(lake, source(SENT, fake.open))

    rows = [{"id": "1", "v": "new"}, {"id": "2", "v": "two"}]
    assert show(lake) == rows
    assert (fake.connections, fake.read) == (1, [20, 30, 40, 60])
    assert reasons(lake) == {40: f"{KEY_ONLY}; {NOT_FOUND}", 60: f"{KEY_ONLY}; {TOO_OLD}"}
    kept = read_table(lake, "events").where("statement = 'fetched'")
    shown = sorted((e["commit_ts"], e["after"], e["handle_key_only"]) for e in kept.collect())
    assert shown == [(20, '{"id":"2","v":"two"}', False), (30, '{"id":"1","v":"new"}', False)]
    # Of the deletes, the key will do.
    counts = check_ledger(lake)
    assert (counts.input, counts.applied, counts.superseded, counts.quarantined) == (6, 3, 1, 2)

    # Neither the next window nor a rebuild reads upstream again.
    advance(lake, source([*SENT, row("d", "a", 80, id="4", v="four"), watermark(90)], fake.open))
    last = read_last_snapshot(lake)
    replay_tables(lake, last, ReplayRequest(frozenset(last.state.incarnations), 0), lambda *_: None)
    assert show(lake) == [*rows, {"id": "4", "v": "four"}]
    assert len(fake.read) == 4


def reasons(lake: LakeSession) -> dict[int, str]:
    kept = read_table(lake, "quarantine").collect()
    assert {(one["stage"], one["error"]) for one in kept} == {("apply", "MissingPayload")}
    assert len(kept) == len({one["commit_ts"] for one in kept})
    return {one["commit_ts"]: one["reason"] for one in kept}


def check_ledger(lake: LakeSession) -> Any:
    ledger = build_ledger(LakeReader(lake.location), read_last_snapshot(lake))
    assert ledger.adds_up
    (table,) = ledger.tables
    return table


def test_without_upstream_rows_are_quarantined_and_say_what_to_declare(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), FEED)
    advance(lake, source(SENT, None))
    # Of these rows the lake knows only that they changed.
    assert show(lake) == []
    declare = f"{KEY_ONLY}; declare the database in [changefeed.upstream]"
    found = reasons(lake)
    assert sorted(found) == [20, 30, 40, 60]
    assert all(reason.startswith(declare) for reason in found.values())
    counts = check_ledger(lake)
    assert (counts.input, counts.applied, counts.superseded, counts.quarantined) == (6, 1, 1, 4)


def test_an_upstream_that_does_not_answer_fails_the_run_and_loses_nothing(
    spark: SparkSession, tmp_path: Path, fake: FakeTidb, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), FEED)
    gone = UpstreamDatabase(FEED.id, Upstream("127.0.0.1", "u", port=1))
    reason = r"changefeed f\.upstream: host: .*127\.0\.0\.1:1 must be reachable"

    with monkeypatch.context() as patched:
        # As with many records: in Spark's workers.
        patched.setattr(LakeReader, "is_small", lambda *_, **__: False)
        with pytest.raises(ConfigError, match=reason):
            advance(lake, source(SENT, gone.open_rows))
    with pytest.raises(ConfigError, match=reason):
        advance(lake, source(SENT, gone.open_rows))
    assert read_table(lake, "events").count() == read_table(lake, "quarantine").count() == 0

    # A stream without such rows does not connect.
    messages = [m for m in SENT if b"onlyHandleKey" not in (m.value or b"")]
    other = LakeSession(spark, Lake(str(tmp_path / "other"), FEED.id), FEED)
    advance(other, source(messages, gone.open_rows))
    assert show(other) == [{"id": "1", "v": "one"}]

    advance(lake, source(SENT, fake.open))
    assert show(lake) == [{"id": "1", "v": "new"}, {"id": "2", "v": "two"}]
