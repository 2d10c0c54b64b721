"""The ledger adds up over repetitions, and not over a lake that was tampered with."""

import json
import shutil
from collections import Counter
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from deltalake import DeltaTable
from msgspec import structs
from pyspark.sql import SparkSession

from tests.lake.canal import FEED, ddl, placed, row, watermark
from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.demo import SimulationOptions, prepare
from ticdc_assets.events import RowChange
from ticdc_assets.lake.advance import FolderSource, RecordSource, advance
from ticdc_assets.lake.apply.control_events import read_control_events
from ticdc_assets.lake.apply.late_rows import find_late_rows
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.log.applied_files import read_snapshot
from ticdc_assets.resources.storage import open_sink_folder
from ticdc_assets.store.event_rows import make_table_name
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.small_tables import read_table
from ticdc_assets.stream.problem import CREATE_NOT_SENT
from ticdc_assets.stream.reading import read_folder_events
from ticdc_assets.views.asof import as_of
from ticdc_assets.views.ledger import Ledger, build_ledger


class Kept(NamedTuple):
    lake: LakeSession

    def build_ledger(self) -> Ledger:
        return build_ledger(LakeReader(self.lake.location), read_last_snapshot(self.lake))

    def source(self) -> FolderSource:
        opened = partial(open_sink_folder, self.lake.feed)
        return FolderSource(opened(), opened)

    def copied(self, root: Path) -> "Kept":
        location, feed = self.lake.location, self.lake.feed
        shutil.copytree(location.root, root)
        copy = Lake(str(root), location.changefeed)
        return Kept(LakeSession(self.lake.spark, copy, feed))


@pytest.fixture(scope="module")
def kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A lake of a small shop whose sender goes back after every checkpoint."""
    folder = tmp_path_factory.mktemp("ledger")
    options = SimulationOptions(transactions=30, flush_every=15, statements=False, replays=1.0)
    simulation = prepare(folder / "feed", options)
    feed = next(iter(load_changefeeds(simulation.changefeeds).values()))
    kept = Kept(LakeSession(spark, Lake(str(folder / "lake"), feed.id), feed))
    for step in simulation:
        if step.transactions:
            advance(kept.lake, kept.source())
    return kept


def test_the_ledger_adds_up_to_the_rows_in_the_folder(kept: Kept) -> None:
    done = kept.build_ledger()
    assert done.adds_up, done
    folder = open_sink_folder(kept.lake.feed)
    sent = Counter(
        make_table_name(event.database, event.table)
        for event in read_folder_events(kept.lake.feed, folder.paths(), folder.read)
        if isinstance(event, RowChange)
    )
    assert {table.name: table.input for table in done.tables} == dict(sent)
    for table in done.tables:
        parts = table.applied + table.superseded + table.quarantined + table.waiting
        assert table.input == parts + table.repeated
    data = [path for path in folder.paths() if path.endswith(".csv")]
    assert (done.source.input, done.source.decoded) == (len(data), len(data))
    # The sender did go back, within a window or behind one.
    assert sum(table.superseded + table.repeated for table in done.tables) > 0


def test_the_ledger_reports_where_a_lake_was_tampered_with(kept: Kept, tmp_path: Path) -> None:
    copy = kept.copied(tmp_path / "copy")
    lake = copy.lake
    events, applied = lake.sql("events"), lake.sql("applied")

    def first_of(name: str) -> str:
        rows = read_table(lake, "events").where(f"kind = 'row' AND name = '{name}'")
        seq, index = rows.orderBy("seq", "index").select("seq", "index").collect()[0]
        return f"kind = 'row' AND seq = {seq} AND index = {index}"

    gone, twice, uncounted = (f"`shop`.`{name}`" for name in ("customers", "orders", "inventory"))
    DeltaTable(lake.path("events")).delete(first_of(gone))
    lake.spark.sql(f"INSERT INTO {events} SELECT * FROM {events} WHERE {first_of(twice)}")
    counts = f"filter(counts, c -> c.name <> '{uncounted}')"
    lake.spark.sql(f"UPDATE {applied} SET counts = {counts}")
    DeltaTable(lake.path("events")).delete("kind IN ('batch', 'file') AND batch = 1")
    done = copy.build_ledger()
    assert not done.adds_up
    before = {table.name: table for table in kept.build_ledger().tables}
    missing = {table.name: table.missing for table in done.tables if not table.adds_up}
    read = before[uncounted].applied + before[uncounted].superseded
    assert missing[uncounted] == read
    assert missing[gone]
    assert set(missing) <= {gone, twice, uncounted}
    said = " ".join(done.source.faults)
    assert "batch 1 was considered, and is not marked as decoded" in said
    assert "1 row events are in the lake more than once" in said
    assert "files were considered decoded, and are not marked" in said


def test_a_row_sent_again_under_another_schema_version_is_repeated(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), FEED)
    sql = "CREATE TABLE `a` (`id` INT PRIMARY KEY)"
    sent = [ddl("d", "a", 10, "CREATE", sql), row("d", "a", 20, id="1"), watermark(30)]
    for again in ([], [row("d", "a", 20, id="1"), watermark(40)]):
        sent += again
        messages = placed(sent)
        done = advance(lake, RecordSource(lambda _, messages=messages: messages)).applied
        assert (done.problems, done.replayed) == ([], 0)
    changed = {"schema_version": "9", "table_id": "7"}
    DeltaTable(lake.path("events")).update(changed, predicate="kind = 'row' AND batch = 2")
    first = read_snapshot(LakeReader(lake.location), 1)
    assert find_late_rows(read_control_events(lake, first, 2), first, 2) == []
    (table,) = build_ledger(LakeReader(lake.location), read_last_snapshot(lake)).tables
    assert (table.input, table.applied, table.repeated, table.missing) == (2, 1, 1, 0)


def test_a_contradicting_row_is_quarantined_and_a_partial_table_is_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), FEED)
    damaged = row("d", "old", 20, id="2", v="7")
    assert damaged.value is not None
    damaged = structs.replace(damaged, value=damaged.value.replace(b"varchar(20)", b"int"))
    sql = "CREATE TABLE `new` (`id` INT PRIMARY KEY)"
    sent = [row("d", "old", 10, id="1", v="abc"), damaged, row("d", "old", 30, id="3", v="x")]
    sent += [ddl("d", "new", 40, "CREATE", sql), watermark(50)]
    advance(lake, RecordSource(lambda _: placed(sent)))
    applied = read_last_snapshot(lake)
    (kept,) = read_table(lake, "quarantine").collect()
    assert (kept["error"], kept["commit_ts"]) == ("MalformedMessage", 20)
    assert kept["reason"] == (
        "column 'v': the row states int, the table has varchar, and no DDL has changed it"
    )
    seen = as_of(lake)
    assert [json.loads(line)["v"] for line in seen.lines(seen.find("d.old")[0])] == ["abc", "x"]
    done = build_ledger(LakeReader(lake.location), applied)
    assert done.adds_up
    assert done.partial == [("`d`.`old`", CREATE_NOT_SENT)]
    rows = read_table(lake, "tables").select("table", "status", "reason").collect()
    assert {tuple(row) for row in rows} == {
        ("old", "partial", CREATE_NOT_SENT),
        ("new", "live", None),
    }


def test_a_late_drop_undoes_what_was_applied_to_the_table_after_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), FEED)
    sql = "CREATE TABLE `t` (`id` INT PRIMARY KEY)"
    sent = [ddl("d", "t", 5, "CREATE", sql), row("d", "t", 10, id="1"), watermark(12)]
    advance(lake, RecordSource(lambda _: placed(sent)))
    (first,) = read_last_snapshot(lake).versions.values()
    sent += [row("d", "t", 20, id="2"), watermark(22)]
    advance(lake, RecordSource(lambda _: placed(sent)))
    sent += [ddl("d", "t", 15, "ERASE", "DROP TABLE `t`"), watermark(32)]
    assert advance(lake, RecordSource(lambda _: placed(sent))).applied.replayed == 2
    applied = read_last_snapshot(lake)
    dropped, _ = sorted(applied.state.incarnations.values(), key=lambda t: t.status)
    assert (dropped.status, applied.versions[dropped.id]) == ("dropped", first)
    seen = as_of(lake)
    assert list(seen.lines(seen.find("d.t")[0])) == [b'{"id":"2"}\n']
    (table,) = build_ledger(LakeReader(lake.location), applied).tables
    assert (table.input, table.applied, table.missing) == (2, 2, 0)
