"""The lake of a golden dataset, split anywhere, equals TiDB at every truth point."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from tests.golden import datasets, find_folder, meta, open_lines, released_datasets
from tests.lake.golden_histories import compare_histories, keep_histories
from tests.lake.golden_iceberg import compare_iceberg, keep_iceberg
from tests.lake.golden_runs import (
    GoldenLake,
    advance_in_windows,
    compare,
    cuts,
    list_truth_points,
    unexpected_problems,
)
from tests.lake.true_versions import compare_versions
from tests.reference.golden_feeds import DROPPED_REMAIN, UNUSABLE, allowed, replicated
from tests.truth import truth
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.lake.apply import task_runs, time_spans, window_work
from ticdc_assets.lake.apply.time_spans import SpanFiles
from ticdc_assets.lake.maintain import maintain
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.schema.ddl.reader import read_ddl
from ticdc_assets.schema.ddl.statement import AlterTable, RenameTables, RenameTo
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.small_tables import read_table

_NO_TABLES = ("view", "sequence")
_EVER = 1 << 63
# Every DDL; `test_golden_kafka` has every type, and `-m all_golden` runs the others, at every truth
# point.
USUAL = ["lifecycle/storage-csv-full"]


@pytest.mark.slow
@pytest.mark.parametrize("dataset", USUAL)
def test_the_lake_is_what_tidb_had(spark: SparkSession, tmp_path: Path, dataset: str) -> None:
    random = Random(crc32(dataset.encode()))
    golden = GoldenLake(spark, tmp_path, dataset)
    keep_histories(golden, "shop.orders")
    golden.lake = keep_iceberg(golden.lake)
    apply_dataset(golden, random, 1, 1)
    assert compare_histories(golden) == len(list_truth_points(dataset))
    between = find_unapplied(golden)
    if between:
        compare(golden, random.choice(between), random)
    incarnations = read_last_snapshot(golden.lake).state.incarnations.values()
    assert compare_versions(golden) >= sum(t.status == "live" for t in incarnations)
    # Other files with the same rows.
    assert maintain(golden.lake, read_last_snapshot(golden.lake), min_files=2).compacted
    compare(golden, list_truth_points(dataset)[-1])
    assert compare_iceberg(golden.lake) > len(golden.as_of(None).tables())


@pytest.mark.all_golden
@pytest.mark.parametrize(
    "dataset", [d for d in [*datasets(), *released_datasets()] if UNUSABLE not in allowed(d)]
)
def test_the_lake_is_what_tidb_had_at_every_truth_point(
    spark: SparkSession, tmp_path: Path, dataset: str
) -> None:
    random = Random(crc32(dataset.encode()))
    golden = GoldenLake(spark, tmp_path, dataset)
    apply_dataset(golden, random, 2, 1)
    for ts in find_unapplied(golden):
        compare(golden, ts, random)
    # Later windows do not change an applied snapshot.
    for ts in list_truth_points(dataset):
        if ts in golden.applied:
            compare(golden, ts)


def apply_dataset(golden: GoldenLake, random: Random, resolved: int, others: int) -> None:
    """Apply a dataset in windows; compare its rows and its schema history."""
    advance_in_windows(golden, random, resolved, others)
    compare_history(golden)


def find_unapplied(golden: GoldenLake) -> list[int]:
    """List the truth points between windows."""
    points = list_truth_points(golden.dataset)
    return [ts for ts in points if ts not in golden.applied] if golden.is_dated else []


@pytest.mark.any_spark
def test_the_first_of_a_dataset_on_any_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Workers do all of it, and most tables are large.
    monkeypatch.setattr(task_runs, "FEW_ROWS", 0)
    monkeypatch.setattr(window_work, "EVENTS_PER_PART", 5)
    # One file has the events of all times.
    monkeypatch.setattr(time_spans, "_MOST_READS", 1_000)
    cuts_made: list[bool] = []

    def cut_span(*given: Any) -> tuple[SpanFiles, ...]:
        spans = time_spans.cut_span(*given)
        cuts_made.append(bool(spans))
        return spans

    monkeypatch.setattr(window_work, "cut_span", cut_span)
    dataset = "lifecycle/canal-json-ext"
    random = Random(crc32(dataset.encode()))
    before, point, *_ = list_truth_points(dataset)
    golden = GoldenLake(spark, tmp_path, dataset)
    cut, *_ = cuts(dataset, [point], random)
    assert golden.advance(cut).applied.resolved_ts == point
    compare(golden, point)
    compare(golden, before)
    assert unexpected_problems(golden) == []
    # Tables of inserts alone were made in spans of time, others in parts by their keys.
    assert any(cuts_made)
    # Nothing is left of how their events were spread.
    written = set(Path(golden.lake.path("current")).glob("*/*/part-*"))
    assert written == {Path(path) for path in _list_files(golden)}


def _list_files(golden: GoldenLake) -> Iterator[str]:
    """List the data files of all current tables."""
    reader = LakeReader(golden.lake.location)
    for id in read_last_snapshot(golden.lake).versions:
        for path in reader.list_files(reader.open(f"current/{id}")).paths:
            yield f"{golden.lake.current_path(id)}/{path}"


def compare_history(golden: GoldenLake) -> None:
    """Compare the schema history with TiDB's, and check that versions follow one another."""
    lines = read_table(golden.lake, "schema_history").collect()
    _check_versions(lines)
    lost = 0 if golden.is_dated else 18
    stated: dict[tuple[int, str], set[str]] = defaultdict(set)
    for line in lines:
        if line["sql"]:
            stated[line["valid_from"] >> lost, _kind(line["sql"])].add(fold_name(line["table"]))
    missing = [
        ddl
        for ddl in _ddls(golden.dataset)
        for tables in [stated.get((ddl["commit_ts"] >> lost, _kind(ddl["query"])), set())]
        # The history has a renamed table under its new name, and one dropped with its database
        # under its own.
        if not tables
        or not ("rename" in ddl["type"] or not ddl["table"] or fold_name(ddl["table"]) in tables)
    ]
    assert missing == []


def _check_versions(lines: Sequence[Any]) -> None:
    by_table: dict[str, list[Any]] = defaultdict(list)
    for line in lines:
        if line["incarnation"]:
            by_table[line["incarnation"]].append(line)
    for versions in by_table.values():
        # A version that ends where it begins was replaced at the same ts, or dropped.
        versions.sort(key=lambda v: (v["valid_from"], v["valid_to"] or _EVER))
        for one, following in pairwise(versions):
            assert one["valid_to"] == following["valid_from"]
        assert versions[-1]["valid_to"] in (None, versions[-1]["valid_from"])


def _kind(sql: str) -> str:
    """Classify a statement by its effect, however it is written."""
    kinds = []
    for statement in read_ddl(sql):
        actions = statement.actions if isinstance(statement, AlterTable) else ()
        if any(isinstance(action, RenameTo) for action in actions):
            # Newer servers write RENAME TABLE.
            kinds.append(RenameTables.__name__)
        else:
            kinds += [type(part).__name__ for part in (statement, *actions)]
    return " ".join(kinds)


def _ddls(dataset: str) -> list[dict[str, Any]]:
    """List the DDLs of TiDB that a dataset must contain."""
    workload, about = dataset.split("/")[0], meta(dataset)
    # The changefeed sends nothing of tables without a key.
    silent = set(about.get("filtered_out", []))
    for tables in truth(workload).values():
        silent |= {".".join(name) for name in set(tables) - set(replicated(dataset, tables))}
    return [
        ddl
        for ddl in open_lines(find_folder(workload) / "ddl_history.jsonl")
        if ddl["commit_ts"] > about["changefeed_start_ts"]
        and not any(word in ddl["type"] for word in _NO_TABLES)
        and f"{ddl['schema']}.{ddl['table']}" not in silent
        and not (DROPPED_REMAIN in allowed(dataset) and not ddl["table"])
        and ("force-replicate" in dataset or not _creates_without_key(ddl))
    ]


def _creates_without_key(ddl: dict[str, Any]) -> bool:
    """Return whether a table gets its first key later, if at all."""
    has_key = re.search(r"\b(key|unique|like)\b", ddl["query"], re.IGNORECASE)
    return ddl["type"] == "create table" and has_key is None
