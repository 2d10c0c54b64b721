"""The ts of a load: events have to follow its rows, all of them and in order."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.lake.upstream_copy import read_schema
from ticdc_assets.changefeed import CsvDialect, changefeed_from_uri
from ticdc_assets.errors import ConfigError
from ticdc_assets.events.written import write_json
from ticdc_assets.load.load import require_loadable
from ticdc_assets.log.loads import choose_load_ts, find_newest_load, read_loads
from ticdc_assets.store.arrow import arrow_schema, make_table
from ticdc_assets.store.contracts import EVENTS, LOADS
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.writer import LakeWriter
from ticdc_assets.views.loaded_rows import find_loaded_rows
from ticdc_assets.views.overview import SchemaVersionRow

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


def test_rows_without_a_commit_ts_cannot_follow_a_load() -> None:
    with pytest.raises(
        ConfigError, match=r"changefeed f: sink\.csv\.include-commit-ts: is not true"
    ):
        require_loadable(CSV)
    require_loadable(replace(CSV, csv=CsvDialect(include_commit_ts=True)))
    require_loadable(CANAL)


DDL = """CREATE TABLE t (id bigint unsigned PRIMARY KEY, v varchar(9), at datetime, day date,
    b blob, d decimal(4,2), e enum('x','y'))"""
ROWS = {
    "id": pa.array([Decimal(1), Decimal(1 << 63), Decimal(3)], pa.decimal128(20, 0)),
    "v": pa.array(["a", "1", None]),
    "at": pa.array([0, 1_500_000, None], pa.timestamp("us")),
    "day": pa.array([0, None, 1], pa.date32()),
    "b": pa.array([b"\0\xff", b"", None]),
    "d": pa.array([Decimal("1.50"), None, Decimal("0.07")], pa.decimal128(4, 2)),
    "e": pa.array(["x", "y", None]),
    "_inexact": pa.array([None, [("day", "0000-00-00")], None], pa.map_(pa.string(), pa.string())),
}


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        ({"id": str(1 << 63)}, [str(1 << 63)]),
        ({"ID": "1", "V": "a"}, ["1"]),
        ({"v": "1", "id": "1"}, []),
        ({"id": "x"}, []),
        ({"at": "1970-01-01 00:00:00"}, ["1"]),
        ({"at": "1970-01-01 00:00:01.5"}, [str(1 << 63)]),
        ({"day": "1970-01-02"}, ["3"]),
        ({"day": "0000-00-00"}, [str(1 << 63)]),
        ({"b": "00ff"}, ["1"]),
        ({"b": "no"}, []),
        ({"d": "0.07"}, ["3"]),
        ({"d": "0.070"}, []),
        ({"e": "y"}, [str(1 << 63)]),
        ({"none": "1"}, []),
    ],
)
def test_rows_of_a_load_are_found_by_values_of_any_type(
    tmp_path: Path, wanted: dict[str, str], ids: list[str]
) -> None:
    lake = Lake(str(tmp_path), "f")
    schema = read_schema("d", DDL)
    write_deltalake(lake.current_path("t-1-load"), pa.table(ROWS))
    writer = LakeWriter(lake)
    columns = arrow_schema(LOADS)
    writer.create("loads", columns, {})
    stated = {"id": 1, "ts": TS, "incarnation": "t-1-load", "version": 0, "rows": 3}
    stated |= {"quarantined": 0, "loaded_at": datetime.now(UTC), "schema": write_json(schema)}
    row = [stated.get(name, "") for name in columns.names]
    writer.append(LakeReader(lake).open("loads"), make_table(LOADS, [row]))
    version = SchemaVersionRow("t-1-load", schema, TS, "load", "", "", False)
    (found,) = find_loaded_rows(LakeReader(lake), [version], wanted)
    assert [row["id"] for row in found.rows or ()] == ids
