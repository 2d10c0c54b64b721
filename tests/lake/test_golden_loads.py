"""A start on a database that has data: the truth of a point as an export, then what came later."""

import dataclasses
from pathlib import Path
from random import Random
from zlib import crc32

import pytest
from msgspec import json
from pyspark.sql import SparkSession

from tests.dumpling.exporter import Exporter, ExportOptions, Row
from tests.dumpling.test_round_trip import DIALECTS, images_of
from tests.golden import datasets
from tests.lake.golden_histories import compare_histories, keep_histories
from tests.lake.golden_runs import (
    Cut,
    GoldenLake,
    compare,
    cuts,
    list_truth_points,
    unexpected_problems,
)
from tests.reference.golden_feeds import allowed, messages, replayed, replicated
from tests.truth import truth
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.advance import RecordSource, Source
from ticdc_assets.load.load import load_tables
from ticdc_assets.log.applied_files import read_existing_snapshot
from ticdc_assets.log.loads import read_loads
from ticdc_assets.resources.load_source import open_export
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.ledger import build_ledger

# Every DDL, with a changefeed that begins after the export; and one that was applied before it.
USUAL = "lifecycle/canal-json-ext"


class LaterLake(GoldenLake):
    """A lake of the part of a topic that a changefeed would send which began at a ts."""

    def __init__(self, spark: SparkSession, root: Path, dataset: str, start_ts: int) -> None:
        super().__init__(spark, root, dataset)
        feed = dataclasses.replace(self.feed, start_ts=start_ts)
        self.feed = feed
        self.lake = LakeSession(spark, self.lake.location, feed)
        self._start_ts = start_ts

    def _source(self, cut: Cut) -> Source:
        sent = [m for m in messages(self.feed)[: cut.records] if self._is_sent(m.value)]
        return RecordSource(lambda _: iter(sent))  # type: ignore[arg-type]

    def _is_sent(self, value: bytes | None) -> bool:
        stated = json.decode(value or b"{}")["_tidb"]
        return stated.get("commitTs", stated.get("watermarkTs")) > self._start_ts


# Parameters: what is exported, and how.
def export(
    dataset: str, ts: int, folder: Path, options: ExportOptions, table: str | None = None
) -> None:
    """Write the truth of a point as an export, with schemas from the statements before it."""
    replay = replayed(dataset)
    replay.advance(ts)
    schemas = {(t.schema.database, t.schema.table): t.schema for t in replay.model.tables}
    tables: dict[TableSchema, list[Row]] = {}
    for name, true in replicated(dataset, truth(dataset.split("/")[0])[ts]).items():
        if table not in (None, name[1]):
            continue
        schema = schemas[name]
        stored = [c.name for c in schema.columns if c.generated != "virtual"]
        by_name = [dict(zip(true.names, row, strict=True)) for row in images_of(true)]
        tables[schema] = [[row[column] for column in stored] for row in by_name]
    Exporter(folder, options).write(tables, tso=ts)


# Parameters: those of `export`.
def load(
    golden: GoldenLake, ts: int, root: Path, options: ExportOptions, table: str | None = None
) -> None:
    export(golden.dataset, ts, root / "export", options, table)
    results = load_tables(golden.lake, open_export(str(root / "export"), options.dialect))
    assert [r for r in results if r.outcome != "loaded" or r.quarantined] == []


def finish(golden: GoldenLake, ts: int, random: Random, between: int) -> None:
    """Apply the rest; compare the rows at the load, at the end, and at some points between."""
    points = [point for point in list_truth_points(golden.dataset) if point >= ts]
    later = points[1:-1]
    for cut in cuts(golden.dataset, random.sample(later, min(1, len(later))), random):
        golden.advance(cut)
    for point in (ts, *random.sample(later, min(between, len(later)))):
        compare(golden, point, random)
    compare(golden, points[-1])
    assert unexpected_problems(golden) == []
    reader = LakeReader(golden.lake.location)
    ledger = build_ledger(reader, read_existing_snapshot(reader))
    assert [table for table in ledger.tables if not table.adds_up] == []
    assert ledger.adds_up
    assert ledger.partial == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "begins",
    # The plan's tests replay loads that come late, of random histories.
    ["after the export", pytest.param("before the export", marks=pytest.mark.all_golden)],
)
def test_tables_that_begin_with_an_export_are_what_tidb_had(
    spark: SparkSession, tmp_path: Path, begins: str
) -> None:
    random = Random(7)
    points = list_truth_points(USUAL)
    ts = points[len(points) // 3]
    if begins == "after the export":
        golden: GoldenLake = LaterLake(spark, tmp_path, USUAL, ts)
        load(golden, ts, tmp_path, DIALECTS["csv"])
    else:
        golden = GoldenLake(spark, tmp_path, USUAL)
        golden.advance(cuts(USUAL, [points[len(points) // 2]], random)[0])
        load(golden, ts, tmp_path, DIALECTS["sql"])
    finish(golden, ts, random, 1)


def _can_be_loaded(dataset: str) -> bool:
    return not allowed(dataset)


@pytest.mark.all_golden
@pytest.mark.parametrize("dataset", [*filter(_can_be_loaded, datasets())])
def test_any_dataset_goes_on_from_an_export(
    spark: SparkSession, tmp_path: Path, dataset: str
) -> None:
    random = Random(crc32(dataset.encode()))
    golden = GoldenLake(spark, tmp_path, dataset)
    keep_histories(golden, "*.*")
    points = list_truth_points(dataset)
    ts = random.choice(points[:-1])
    options = DIALECTS[random.choice(["sql", "csv", "csv, base64"])]
    if random.random() < 0.5:
        load(golden, ts, tmp_path, options)
    else:
        golden.advance(cuts(dataset, [random.choice(points[:-1])], random)[0])
        load(golden, ts, tmp_path, options)
    finish(golden, ts, random, 2)
    assert compare_histories(golden)


def test_rows_that_a_timestamp_identifies_are_loaded(spark: SparkSession, tmp_path: Path) -> None:
    # The table t_pk_ts has a row then.  Arrow types it: no text says that it is one of two moments.
    golden = GoldenLake(spark, tmp_path, "types/storage-csv-full")
    load(golden, 470608231161659392, tmp_path, DIALECTS["csv"], "t_pk_ts")
    loads = read_loads(LakeReader(golden.lake.location))
    assert [(each.schema.table, each.rows > 0) for each in loads] == [("t_pk_ts", True)]
