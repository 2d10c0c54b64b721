"""Rows are erased of tables that Spark writes, with deletion vectors.

And what is decoded again from `raw`, or from the files of the source, has none of them.
"""

import dataclasses
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.lake.canal import ddl, placed, watermark
from tests.lake.erasing import LEFT, PERSON_FEED, ErasingLake, Person, PersonLake
from tests.lake.golden_runs import cuts
from tests.lake.privately import find_in_files
from tests.lake.test_decode_again import rebuild_from_raw
from tests.lake.test_erase import (
    CUSTOMERS,
    leave_out,
    list_telling,
)
from tests.usual import usual
from ticdc_assets.lake.advance import RecordSource
from ticdc_assets.lake.apply import table_features
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.store.delta_log import read_state
from ticdc_assets.views.ledger import build_ledger


@pytest.mark.parametrize("names", usual([(("d.p",),), ((),)], lambda names: not names))
def test_large_tables_and_records_decoded_again_have_nothing_of_an_erased_row(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    monkeypatch.setattr(table_features, "LARGE_TABLE", -1)
    person = Person()
    person.live()
    lived = [*person.messages]
    # The key has another name from now on.
    person.ts += 1
    sql = "ALTER TABLE `p` RENAME COLUMN `pk` TO `who`"
    person.messages += [ddl("d", "p", person.ts, "ALTER", sql), watermark(person.ts)]
    feed = dataclasses.replace(PERSON_FEED, iceberg=())
    lake = PersonLake(tmp_path, feed, spark)
    lake.fill(person, windows=1)
    lake.advance(lived)
    lake.advance(person.messages)
    (id,) = (snapshot := read_last_snapshot(lake.lake)).versions
    state = read_state(lake.reader, f"current/{id}", snapshot.versions[id])
    assert "deletionVectors" in state.reader_features
    assert find_in_files(tmp_path, {Person.ID, *Person.TEXTS})
    _, searched = lake.erase({"who": Person.ID})
    assert searched.left == []
    left = [{"who" if n == "pk" else n: text for n, text in row.items()} for row in LEFT]

    def require_erased() -> None:
        assert find_in_files(tmp_path, {Person.ID, *Person.TEXTS}) == {}
        shown = {row["who"]: row for row in lake.rows()}
        assert shown == {row["who"]: row for row in left}
        assert build_ledger(lake.reader, read_last_snapshot(lake.lake)).adds_up

    require_erased()
    # Spark reads logs that begin with a checkpoint of ours.
    assert lake.lake.read(f"current/{id}").count() == len(LEFT)
    history = lake.lake.read(f"history/{id}")
    assert history.where("_valid_to IS NULL").count() == len(LEFT)
    # Whatever its size was.
    monkeypatch.setattr(table_features, "LARGE_TABLE", 1 << 20)
    rebuild_from_raw(lake.lake, RecordSource(lambda _: placed(person.messages)), *names)
    require_erased()


def test_files_decoded_again_have_nothing_of_an_erased_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    dataset, key = "lifecycle/storage-csv-full", {"id": "1"}
    golden = ErasingLake(tmp_path, dataset, spark, history=(), changes=(), iceberg=())
    (last,) = cuts(dataset, [], Random(3))
    golden.advance(last)
    before = golden.read()
    golden.erase("shop.customers", key)
    expected = {**before, CUSTOMERS: leave_out(before[CUSTOMERS], key)}
    assert rebuild_from_raw(golden.lake, golden._source(last)) == 0
    assert golden.read() == expected
    telling = list_telling(dataset, CUSTOMERS, key)
    assert telling
    assert find_in_files(tmp_path / "lake", telling) == {}
    assert build_ledger(golden.reader, read_last_snapshot(golden.lake)).adds_up
