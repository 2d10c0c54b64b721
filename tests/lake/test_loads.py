"""The ts of a load: events have to follow its rows, all of them and in order."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.log.loads import choose_load_ts, find_newest_load, read_loads
from ticdc_assets.lake.store.arrow import arrow_schema, make_table
from ticdc_assets.lake.store.contracts import EVENTS
from ticdc_assets.lake.store.lake import Lake
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.lake.store.writer import LakeWriter

SIMPLE = changefeed_from_uri("kafka://h:9092/t?protocol=simple", id="f")
CANAL = changefeed_from_uri("kafka://h:9092/t?protocol=canal-json", id="f")
CSV = changefeed_from_uri("file:///data?protocol=csv", id="f")
TS = 470608231338082304


def open_lake(root: Path, *events: tuple[str, int]) -> LakeReader:
    """A lake whose first batches have these events: kind and commit ts."""
    lake = Lake(str(root), "f")
    columns = arrow_schema(EVENTS)
    writer = LakeWriter(lake)
    writer.create("events", columns, {})
    for batch, (kind, ts) in enumerate(events, 1):
        stated = {"batch": batch, "seq": batch, "index": 0, "kind": kind, "commit_ts": ts}
        row: list[Any] = [stated.get(name) for name in columns.names]
        table = LakeReader(lake).open("events")
        writer.append(table, make_table(EVENTS, [row]))
    return LakeReader(lake)


def test_rows_from_before_the_first_event_would_leave_a_gap(tmp_path: Path) -> None:
    reader = open_lake(tmp_path, ("bootstrap", 0), ("watermark", 0), ("row", TS))
    assert choose_load_ts(reader, SIMPLE, TS) == TS
    with pytest.raises(ConfigError, match=f"rows to load are of {TS - 1}.*of {TS}: changes"):
        choose_load_ts(reader, SIMPLE, TS - 1)
    # Nothing happened upstream between the changefeed's start and its first event.
    assert choose_load_ts(reader, replace(SIMPLE, start_ts=TS - 1), TS - 1) == TS - 1


def test_an_empty_lake_takes_rows_of_any_ts(tmp_path: Path) -> None:
    assert choose_load_ts(open_lake(tmp_path), SIMPLE, 7) == 7
    reader = LakeReader(Lake(str(tmp_path / "none"), "f"))
    assert choose_load_ts(reader, SIMPLE, 7) == 7
    assert (read_loads(reader), find_newest_load(reader)) == ([], 0)


def test_events_that_state_milliseconds_are_applied_again_from_the_last_one_on(
    tmp_path: Path,
) -> None:
    ts = choose_load_ts(open_lake(tmp_path, ("row", 1 << 18)), CANAL, TS + 5)
    assert ts == (TS >> 18 << 18) - 1


def test_rows_without_a_commit_ts_cannot_follow_a_load(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="include-commit-ts"):
        choose_load_ts(open_lake(tmp_path), CSV, TS)
