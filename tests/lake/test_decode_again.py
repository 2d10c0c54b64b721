"""Input that was decoded wrongly is decoded again, and the tables are what they should be."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable
from msgspec.structs import replace
from pyspark.sql import SparkSession

from tests.lake.canal import FEED, ddl, placed, row, watermark
from tests.lake.golden_runs import GoldenLake, compare, cuts, list_truth_points
from ticdc_assets.errors import ConfigError, MalformedMessage
from ticdc_assets.events import Event, Quarantined, RowChange
from ticdc_assets.lake.advance import RecordSource, Source, advance, decode_again, replay_tables
from ticdc_assets.lake.apply import quarantined_rows
from ticdc_assets.lake.events import decode_workers, quarantine
from ticdc_assets.lake.quarantine import list_faults
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.protocols.message import Message
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.small_tables import read_table
from ticdc_assets.views.asof import as_of
from ticdc_assets.views.ledger import build_ledger
from ticdc_assets.views.names import LakeNames


def spoil_events(patch: pytest.MonkeyPatch, spoil: Callable[[Event], Event]) -> None:
    """Make other events of records that are decoded in this process."""
    decode_record: Callable[..., Iterator[Any]] = decode_workers.decode_record

    def decode_wrongly(*arguments: Any) -> Iterator[Any]:
        return map(spoil, decode_record(*arguments))

    patch.setattr(decode_workers, "decode_record", decode_wrongly)


def spoil_files(patch: pytest.MonkeyPatch, random: Random) -> None:
    """Let some files that are decoded in this process have another content."""
    decode_file: Callable[..., Iterator[Any]] = decode_workers._decode_file

    def decode_wrongly(feed: Any, row: Any, content: bytes, buffer: Any) -> Iterator[Any]:
        spoilt = content[::-1] if random.random() < 0.2 else content
        return decode_file(feed, row, spoilt, buffer)

    patch.setattr(decode_workers, "_decode_file", decode_wrongly)


def spoil_some(random: Random, event: Event) -> Event:
    """Return another event, now and then: one that could not be decoded, or other values."""
    if random.random() < 0.1:
        return Quarantined.from_error(MalformedMessage("spoilt"), event.position)
    if isinstance(event, RowChange) and event.after is not None and random.random() < 0.3:
        return replace(event, after=re.sub(r"[1-9]", "8", event.after))
    return event


def rebuild_from_raw(lake: LakeSession, source: Source, *names: str) -> int:
    """Rebuild tables, or all, as `rebuild --from-raw` does; return how many files were gone."""
    applied = read_last_snapshot(lake)
    found = LakeNames(LakeReader(lake.location), lake.feed, applied)
    wanted = {found.find(name).id for name in names} or None
    changed, gone = decode_again(lake, source, applied, wanted)
    replay_tables(lake, applied, ReplayRequest(changed, 0), lambda *_: None)
    return gone


@pytest.mark.slow
@pytest.mark.parametrize(
    "dataset",
    [
        "lifecycle/storage-csv-full",
        pytest.param("lifecycle/canal-json-ext", marks=pytest.mark.all_golden),
        pytest.param("lifecycle/simple-avro", marks=pytest.mark.all_golden),
        pytest.param("lifecycle/storage-canal-json", marks=pytest.mark.all_golden),
    ],
)
def test_a_lake_that_was_decoded_wrongly_equals_tidb_after_a_rebuild_from_raw(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dataset: str
) -> None:
    golden, random = GoldenLake(spark, tmp_path, dataset), Random(1)
    points = list_truth_points(dataset)
    first, last = cuts(dataset, points[4:5], random)
    with monkeypatch.context() as patch:
        if golden.feed.transport == "storage":
            spoil_files(patch, random)
        else:
            spoil_events(patch, partial(spoil_some, random))
        assert golden.advance(first).decoded.quarantined > 0
        golden.advance(last)
    reader = LakeReader(golden.lake.location)
    assert list_faults(reader)
    assert rebuild_from_raw(golden.lake, golden._source(last)) == 0
    # Simple Avro itself gives the rows of a table that was dropped later to wrong columns.
    left = [fault for fault in list_faults(reader) if fault.is_open or fault.stage == "decode"]
    assert left == []
    # From the first event on, as no earlier snapshot has these rows, and as they are now: a
    # watermark that was decoded again counts once there is another one.
    applied = read_last_snapshot(golden.lake)
    newest = max(ts for ts in points if ts <= applied.ts)
    assert newest > points[4]
    for ts in (points[4], newest):
        compare(golden, ts)
    assert build_ledger(reader, applied).adds_up
    # Nothing is new to the next run.
    assert golden.advance(last).decoded.rows == 0


SENT = [
    ddl("d", "a", 1, "CREATE", "CREATE TABLE `d`.`a` (`id` INT PRIMARY KEY, `v` VARCHAR(9))"),
    ddl("d", "b", 2, "CREATE", "CREATE TABLE `d`.`b` (`id` INT PRIMARY KEY, `v` VARCHAR(9))"),
    ddl("d", "c", 3, "CREATE", "CREATE TABLE `d`.`c` (`id` INT PRIMARY KEY, `v` VARCHAR(9))"),
    row("d", "a", 4, id="1", v="x"),
    row("d", "b", 5, id="2", v="x"),
    row("d", "c", 6, id="3", v="x"),
    watermark(9),
]


def read_rows(lake: LakeSession) -> list[bytes]:
    view = as_of(lake)
    return [line for table in view.tables() for line in view.lines(table)]


def test_only_named_tables_and_what_is_quarantined_are_decoded_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), FEED)
    source = RecordSource(lambda _: placed(SENT))

    def spoil(event: Event) -> Event:
        if not isinstance(event, RowChange):
            return event
        if event.table == "c":
            return Quarantined.from_error(MalformedMessage("spoilt"), event.position)
        return replace(event, after=(event.after or "").replace("x", "y"))

    with monkeypatch.context() as patch:
        spoil_events(patch, spoil)
        advance(lake, source)
    assert read_rows(lake) == [b'{"id":"1","v":"y"}\n', b'{"id":"2","v":"y"}\n']
    rebuild_from_raw(lake, source, "d.a")
    a, b, c = b'{"id":"1","v":"x"}\n', b'{"id":"2","v":"x"}\n', b'{"id":"3","v":"x"}\n'
    assert read_rows(lake) == [a, b.replace(b"x", b"y"), c]

    # Records that are gone cannot be decoded again: nothing changes.
    DeltaTable(lake.path("raw")).delete("offset = 4")
    with pytest.raises(ConfigError, match="1 records are not in raw any more"):
        rebuild_from_raw(lake, source)
    rebuild_from_raw(lake, source, "d.a")
    assert read_rows(lake) == [a, b.replace(b"x", b"y"), c]


def test_a_lake_of_which_nothing_was_decoded_begins_when_all_is_decoded_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), FEED)
    in_other_partition = Message("t", 1, 0, None, row("d", "a", 7, id="4", v="x").value, 1)
    sent = [*placed(SENT), in_other_partition]
    source = RecordSource(lambda _: sent)

    def spoil(event: Event) -> Event:
        return Quarantined.from_error(MalformedMessage("of another protocol"), event.position)

    with monkeypatch.context() as patch:
        spoil_events(patch, spoil)
        assert advance(lake, source).applied.resolved_ts == 0
    rebuild_from_raw(lake, source)
    assert list_faults(LakeReader(lake.location)) == []
    assert read_last_snapshot(lake).ts == 0
    # The other partition's watermark is the only new one.
    sent.append(Message("t", 1, 1, None, watermark(9).value, 1))
    assert advance(lake, source).applied.resolved_ts == 9
    assert read_rows(lake) == [b'{"id":"%d","v":"x"}\n' % id for id in (1, 4, 2, 3)]


@pytest.mark.parametrize("writer", ["Spark", "this process"])
def test_rows_that_can_be_applied_after_a_replay_leave_the_quarantine(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    if writer == "Spark":
        for stage in (quarantine, quarantined_rows):
            monkeypatch.setattr(stage, "can_hold", lambda *_: False)
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), FEED)
    sent: list[Message] = [*SENT[:4], row("d", "a", 5, id="q", v="x"), row("d", "b", 6, id="r")]
    unreadable = Message("t", 0, 0, None, b'{"type": "INSERT"', 1)
    source = RecordSource(lambda _: placed([*sent, unreadable, watermark(9)]))

    def spoil(event: Event) -> Event:
        if not isinstance(event, RowChange) or event.commit_ts != 4:
            return event
        return replace(event, after=(event.after or "").replace("1", "z"))

    with monkeypatch.context() as patch:
        spoil_events(patch, spoil)
        advance(lake, source)
    reader = LakeReader(lake.location)
    assert {str(fault.position) for fault in list_faults(reader)} == {
        "t-0-3-0",
        "t-0-4-0",
        "t-0-5-0",
        "t-0-6-0",
    }
    rebuild_from_raw(lake, source, "d.a")
    left = {str(fault.position) for fault in list_faults(reader)}
    assert left == {"t-0-4-0", "t-0-5-0", "t-0-6-0"}
    stored = read_table(lake, "quarantine").where("stage = 'decode'").select("raw").collect()
    assert [bytes(row["raw"]) for row in stored] == [unreadable.value]
    assert read_rows(lake) == [b'{"id":"1","v":"x"}\n']
