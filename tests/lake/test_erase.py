"""Rows that are erased for good: no byte of them is left, and nothing brings them back.

Without Spark: the lakes are small, and erasing takes none.
"""

import shutil
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from tests.lake.canal import FEED, change, ddl, placed, row, watermark
from tests.lake.erasing import ErasingLake, list_images, start_no_spark
from tests.lake.golden_runs import cuts
from tests.lake.privately import find_in_files
from tests.reference.golden_feeds import feed_of
from tests.truth import Name, Row
from ticdc_assets.events import RowChange
from ticdc_assets.lake.advance import RecordSource, advance, replay_tables
from ticdc_assets.lake.erase import erase as erasing
from ticdc_assets.lake.erase.erase import erase
from ticdc_assets.lake.erase.search import Search, Searched
from ticdc_assets.lake.log.applied import read_last_snapshot
from ticdc_assets.lake.log.erasures import read_erasures
from ticdc_assets.lake.maintain import maintain
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.protocols.message import Message
from ticdc_assets.store import file_rewrites, old_files, purge
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.asof import as_of
from ticdc_assets.views.changes import changes
from ticdc_assets.views.erasure_target import find_row
from ticdc_assets.views.ledger import build_ledger
from ticdc_assets.views.names import LakeNames
from ticdc_assets.views.row_history import RowHistories

CUSTOMERS: Name = ("shop", "customers")
LEAST = 8


def list_telling(dataset: str, name: Name, key: Row) -> set[str]:
    """List the texts of a row in all its events that no other row has."""
    own: set[str] = set()
    others: set[str] = set()
    for table, image in list_images(dataset):
        is_own = table == name and all(image.get(column) == key[column] for column in key)
        (own if is_own else others).update(text for text in image.values() if text)
    together = "\n".join(others)
    return {text for text in own if len(text) >= LEAST and text not in together}


def leave_out(rows: list[Row], key: Row) -> list[Row]:
    return [row for row in rows if any(row[column] != key[column] for column in key)]


@pytest.mark.parametrize(
    "dataset",
    [
        "lifecycle/simple-json",
        "lifecycle/storage-csv-full",
        "lifecycle/open-protocol-replayed",
        "lifecycle/canal-json-ext-delete-handle-key",
    ],
)
def test_no_byte_of_golden_rows_is_left_and_all_others_are(tmp_path: Path, dataset: str) -> None:
    golden = ErasingLake(tmp_path, dataset)
    first, *later = cuts(dataset, [], Random(7), 3)
    golden.advance(first)
    for cut in later[:-1]:
        golden.advance(cut)
    keys = [(CUSTOMERS, {"id": "1"}), (("shop", "inventory"), {"sku": "SKU00", "warehouse": "1"})]
    for name, key in keys:
        before = golden.read()
        telling = list_telling(dataset, name, key)
        if name == CUSTOMERS:
            assert find_in_files(tmp_path / "lake", telling)
        done, searched = golden.erase(".".join(name), key)
        assert done.counts["events"] > 1
        assert searched.left == []
        assert find_in_files(tmp_path / "lake", telling) == {}
        assert golden.read() == {**before, name: leave_out(before[name], key)}
        assert build_ledger(golden.reader, read_last_snapshot(golden.lake)).adds_up
    # Input that comes later is applied as if the rows had never been, but for new changes of them.
    golden.advance(later[-1])
    whole = ErasingLake(tmp_path / "whole", dataset) if (tmp_path / "whole").mkdir() is None else None
    assert whole is not None
    whole.advance(later[-1])
    expected = whole.read()
    through = {e.id: e.through_ts for e in read_erasures(golden.reader)}
    for number, (name, key) in enumerate(keys, 1):
        events = golden.find(".".join(name), key)
        assert events.events == 0 or events.target.newest_ts > through[number]
        if not events.events:
            expected[name] = leave_out(expected[name], key)
    assert golden.read() == expected
    last = read_last_snapshot(golden.lake)
    replay_tables(golden.lake, last, ReplayRequest(frozenset(last.versions), 0), lambda *_: None)
    assert golden.read() == expected
    assert build_ledger(golden.reader, read_last_snapshot(golden.lake)).adds_up
