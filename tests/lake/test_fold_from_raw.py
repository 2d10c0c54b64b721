"""What is decoded again below a fold stays gone, or in the quarantine if it never was applied."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from tests.lake.canal import FEED, placed, row, watermark
from tests.lake.golden_runs import GoldenLake, cuts, list_truth_points
from tests.lake.privately import KEY
from tests.lake.test_decode_again import rebuild_from_raw, spoil_events
from tests.lake.test_golden_folds import read_all, require_complete
from tests.lake.test_private_tables import VARIABLE, PrivateFeed
from ticdc_assets.errors import BelowFold, ConfigError, MalformedMessage
from ticdc_assets.events import Event, Quarantined, RowChange
from ticdc_assets.lake.advance import RecordSource, advance, decode_again
from ticdc_assets.lake.events import decode_workers
from ticdc_assets.lake.maintain import maintain
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.log.folds import read_folds
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.asof import as_of
from ticdc_assets.views.ledger import build_ledger


def spoil_first(event: Event) -> Event:
    """Let the first row be one that could not be decoded."""
    if isinstance(event, RowChange) and event.commit_ts == 4:
        return Quarantined.from_error(MalformedMessage("spoilt"), event.position)
    return event


def spoil_files(patch: pytest.MonkeyPatch, random: Random) -> None:
    """Let some files have one line that is no row."""
    decode_file: Callable[..., Iterator[Any]] = decode_workers._decode_file

    def decode_wrongly(feed: Any, row: Any, content: bytes, buffer: Any) -> Iterator[Any]:
        spoilt = b"x\n" if random.random() < 0.2 else content
        return decode_file(feed, row, spoilt, buffer)

    patch.setattr(decode_workers, "_decode_file", decode_wrongly)


def fold(lake: LakeSession) -> None:
    done = maintain(lake, read_last_snapshot(lake), retain_days=0, keep_events_days=0)
    assert done.fold.fold is not None, done.fold.held


def count_covered(lake: LakeSession) -> int:
    reader = LakeReader(lake.location)
    covered = read_folds(reader).newest.covers(pc.field)
    return reader.read(reader.open("events"), ["batch"], covered).num_rows


def test_records_below_a_fold_are_not_decoded_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = LakeSession(spark, Lake(str(tmp_path), FEED.id), FEED)
    sent = [row("d", "t", 4, id="1", v="x"), row("d", "t", 5, id="2", v="x"), watermark(9)]
    source = RecordSource(lambda _: placed(sent))
    with monkeypatch.context() as patch:
        spoil_events(patch, spoil_first)
        assert advance(lake, source).decoded.quarantined == 1
    fold(lake)
    sent += [row("d", "t", 14, id="3", v="x"), watermark(19)]
    assert advance(lake, source).applied.problems == []
    rebuild_from_raw(lake, source)
    reader = LakeReader(lake.location)
    faults = reader.read(reader.open("quarantine"), ["stage", "error", "commit_ts"]).to_pylist()
    assert faults == [{"stage": "apply", "error": BelowFold.__name__, "commit_ts": 4}]
    assert count_covered(lake) == 0
    (table,) = as_of(lake).tables()
    assert [*as_of(lake).lines(table)] == [b'{"id":"2","v":"x"}\n', b'{"id":"3","v":"x"}\n']
    assert build_ledger(reader, read_last_snapshot(lake)).adds_up


def test_files_below_a_fold_are_not_decoded_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden, random = GoldenLake(spark, tmp_path, "lifecycle/storage-csv-full"), Random(1)
    points = list_truth_points(golden.dataset)[2:5:2]
    first, second, last = cuts(golden.dataset, points, random)
    with monkeypatch.context() as patch:
        spoil_files(patch, random)
        assert golden.advance(first).decoded.quarantined > 0
    golden.advance(second)
    fold(golden.lake)
    golden.advance(last)
    before = read_all(golden)
    rebuild_from_raw(golden.lake, golden._source(last))
    assert read_all(golden) == before
    reader = LakeReader(golden.lake.location)
    errors = reader.read(reader.open("quarantine"), ["error"])["error"].to_pylist()
    assert errors
    assert set(errors) == {BelowFold.__name__}
    assert count_covered(golden.lake) == 0
    require_complete(golden)


def test_rows_below_a_fold_cannot_get_other_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    rules = {"tables": ["d.t"], "keep": ["id", "email"]}
    feed = PrivateFeed(tmp_path, rules, raw="plain")
    feed.put(1, email="ann@example.com")
    feed.advance()
    fold(feed.lake)
    before = feed.stored()
    feed.declare({**rules, "keep": ["id"], "mask": ["email"]}, raw="plain")
    last = read_last_snapshot(feed.lake)
    with pytest.raises(ConfigError, match=r"rows below the fold .* \(email\).*: load d.t again"):
        decode_again(feed.lake, feed.source(), last, None)
    assert feed.stored() == before
