"""Which ts a lake can be shown at: from its first event or load to its last snapshot."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.made_lake import write_snapshot
from ticdc_assets.errors import ConfigError
from ticdc_assets.events.tso import compose
from ticdc_assets.events.tso_text import describe_ts
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.state import State
from ticdc_assets.store.arrow import arrow_schema
from ticdc_assets.store.contracts import CONTRACTS
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.lake_range import require_in_range

MS = 1795749826123
FIRST, LAST = compose(MS, 9), compose(MS + 60_000, 3)


def make_lake(folder: Path, events: Iterable[int | None], loads: Iterable[int] = ()) -> LakeReader:
    lake = Lake(str(folder), "f")
    for number, ts in enumerate((compose(MS + 5_000), LAST), 1):
        write_snapshot(lake, number, ts)
    for table, name, found in (("events", "commit_ts", events), ("loads", "ts", loads)):
        rows = [{name: ts} for ts in found]
        made = pa.Table.from_pylist(rows, schema=arrow_schema(CONTRACTS[table]))
        write_deltalake(lake.path(table), made)
    return LakeReader(lake)


def last(ts: int = LAST) -> Snapshot:
    return Snapshot(State(ts=ts, snapshot_id=2))


@pytest.mark.parametrize(
    ("events", "loads"),
    [([None, FIRST, LAST], []), ([LAST], [FIRST]), ([FIRST + 1], [FIRST, LAST])],
)
def test_a_ts_before_the_lakes_first_or_behind_its_last_is_an_error(
    tmp_path: Path, events: list[int | None], loads: list[int]
) -> None:
    reader = make_lake(tmp_path, events, loads)
    # The time of the first event has no counter.
    for ts in (compose(MS), FIRST, FIRST + 1, compose(MS + 1), LAST):
        require_in_range(reader, ts, last())
    known = f"the lake has {describe_ts(FIRST)} to {describe_ts(LAST)}"
    for ts, reason in (
        (5, "is before everything in the lake"),
        (compose(MS) - 1, "is before everything in the lake"),
        (LAST + 1, "is not applied yet"),
        ((1 << 63) - 1, "is not applied yet"),
    ):
        with pytest.raises(ConfigError) as error:
            require_in_range(reader, ts, last())
        assert str(error.value) == f"--at: {describe_ts(ts)} {reason}; {known}"
    with pytest.raises(ConfigError, match=r"is no TSO but Unix time in milliseconds: .*; the lake"):
        require_in_range(reader, MS, last())


def test_what_looks_like_unix_time_is_a_ts_of_a_lake_that_has_it(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path), "f")
    write_snapshot(lake, 1, MS)
    require_in_range(LakeReader(lake), MS, last(MS))


def test_a_lake_without_a_resolved_ts_has_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not applied yet: nothing is"):
        require_in_range(LakeReader(Lake(str(tmp_path), "f")), 5, Snapshot())
