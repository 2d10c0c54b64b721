"""Rules for columns: the golden truth with the rules applied is what the lake has, and no more."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.dumpling.test_round_trip import DIALECTS
from tests.golden import storage_tree
from tests.lake.golden_runs import GoldenLake, cuts, list_truth_points, unexpected_problems
from tests.lake.privately import KEY, apply_rules, find_in_files, list_values
from tests.lake.reading import read_lines
from tests.lake.test_golden_loads import export
from tests.reference.golden_feeds import difference, feed_of, messages, replicated
from tests.truth import Name, Row, truth
from tests.usual import usual
from ticdc_assets.changefeed.privacy import Privacy, read_privacy
from ticdc_assets.events import RowChange
from ticdc_assets.events.row_image import load
from ticdc_assets.load.load import load_tables
from ticdc_assets.resources.load_source import open_export
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.stream.reading import read_folder_events, read_topic_events

VARIABLE = "TESTS_PRIVACY"
# `phone` is renamed to `phone_number`; `first_col` is added and dropped; `balance` is NOT NULL.
DECLARED: dict[str, Any] = {
    "key-env": VARIABLE,
    "table": [
        {"tables": ["*.*"], "keep": ["*"]},
        {
            "tables": ["shop.customers"],
            "keep": ["id", "after_name", "tier", "level", "updated_at", "loyalty", "vip"],
            "hash": ["email", "name"],
            "mask": ["phone", "phone_number"],
            "null": ["balance"],
            "drop": ["first_col"],
        },
        {
            "tables": ["shop.orders"],
            "keep": ["*"],
            "hash": ["order_id"],
            "mask": ["customer_id"],
            "drop": ["note"],
            "null": ["meta"],
        },
        {"tables": ["shop.inventory"], "keep": ["*"], "hash": ["sku", "blobv"]},
        {"tables": ["shop.audit_nokey"], "hash": ["msg"], "keep": ["at"]},
    ],
}
# `created_at` and `region` are in no list.
RULES = {
    ("shop", "customers"): {
        **dict.fromkeys(("email", "name"), "hash"),
        **dict.fromkeys(("phone", "phone_number"), "mask"),
        "balance": "null",
        **dict.fromkeys(("first_col", "created_at", "region"), "drop"),
    },
    ("shop", "orders"): {
        "order_id": "hash",
        "customer_id": "mask",
        "note": "drop",
        "meta": "null",
    },
    ("shop", "inventory"): {"sku": "hash", "blobv": "hash"},
    ("shop", "audit_nokey"): {"msg": "hash"},
}
DATASETS = [
    "lifecycle/storage-csv-full",
    "lifecycle/canal-json-ext-force-replicate",
    "lifecycle/simple-avro",
    "lifecycle/simple-json",
    "lifecycle/open-protocol",
    "lifecycle/storage-canal-json",
]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)


class PrivateLake(GoldenLake):
    """The lake of a dataset under the rules."""

    def __init__(self, spark: SparkSession, root: Path, dataset: str) -> None:
        super().__init__(spark, root, dataset)
        has_records = self.feed.transport != "storage"
        every = ("*.*",)
        self.feed = dataclasses.replace(
            self.feed,
            privacy=declare(has_records=has_records),
            history=every,
            changes=every,
            iceberg=every,
        )
        self.lake = LakeSession(spark, self.lake.location, self.feed)


def declare(*, has_records: bool) -> Privacy:
    raw = {"raw": "encrypted"} if has_records else {}
    return read_privacy({**DECLARED, **raw}, has_records=has_records)


def compare_private(golden: PrivateLake, ts: int) -> None:
    shown = golden.as_of(ts)
    tables = {(t.schema.database, t.schema.table): t for t in shown.tables()}
    for name, true in replicated(golden.dataset, truth(golden.dataset.split("/")[0])[ts]).items():
        table = tables[name]
        assert not table.is_stopped, table.reason
        expected = apply_rules(true, RULES)
        rows = [msgspec.json.decode(line) for line in read_lines(golden.lake, shown, table)]
        ours, theirs = expected.strict(rows), expected.strict_rows()
        assert difference(ours, theirs) == ([], []), name
        if rows:
            assert set(rows[0]) == set(expected.names), name


@pytest.mark.slow
@pytest.mark.parametrize("dataset", usual(DATASETS, lambda dataset: dataset in DATASETS[:2]))
def test_a_lake_has_what_the_rules_leave_of_the_truth(
    spark: SparkSession, tmp_path: Path, dataset: str
) -> None:
    random = Random(crc32(dataset.encode()))
    golden = PrivateLake(spark, tmp_path, dataset)
    points = list_truth_points(dataset)
    for cut in cuts(dataset, random.sample(points[:-1], 2), random, 1):
        golden.advance(cut)
    for ts in (points[-1], random.choice(points[:-1])):
        compare_private(golden, ts)
    assert unexpected_problems(golden) == []
    values = list_values(_true_rows(dataset), RULES, 6)
    assert len(values) > 50
    assert find_in_files(tmp_path / "lake", values) == {}


def _true_rows(dataset: str) -> Iterator[tuple[Name, Row]]:
    """Yield all rows that a dataset states, before any rule."""
    feed = feed_of(dataset)
    if feed.transport == "storage":
        tree = storage_tree(dataset)
        events = read_folder_events(feed, tree, tree.__getitem__)
    else:
        sent = messages(feed)
        events = read_topic_events(feed, sent, None)  # type: ignore[arg-type]
    for event in events:
        if isinstance(event, RowChange):
            for image in (event.before, event.after):
                if image is not None:
                    yield (event.database, event.table), load(image)


@pytest.mark.slow
def test_what_is_loaded_is_as_the_rules_leave_it_and_changes_find_its_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    dataset = "lifecycle/canal-json-ext"
    points = list_truth_points(dataset)
    ts = points[len(points) // 3]
    golden = PrivateLake(spark, tmp_path, dataset)
    feed = golden.feed = dataclasses.replace(golden.feed, start_ts=ts)
    golden.lake = LakeSession(spark, golden.lake.location, feed)
    options = DIALECTS["csv, base64"]
    export(dataset, ts, tmp_path / "export", options)
    results = load_tables(golden.lake, open_export(str(tmp_path / "export"), options.dialect))
    assert [r for r in results if r.outcome != "loaded" or r.quarantined] == []
    for cut in cuts(dataset, [], Random(3)):
        golden.advance(cut)
    compare_private(golden, ts)
    compare_private(golden, points[-1])
    values = list_values(_true_rows(dataset), RULES, 6)
    assert find_in_files(tmp_path / "lake", values) == {}
