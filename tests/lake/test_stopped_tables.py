"""A stopped table states a ts at which upstream had its rows, in commits and at its address."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from msgspec.structs import replace
from pyspark.sql import SparkSession

from tests.lake.history_lake import FEED, HistoryLake
from tests.lake.true_versions import PREPARING_PLAIN, list_stated
from tests.plan.by_hand import RANGE, UNREADABLE, create
from tests.reference.changefeeds import Step, Teller, exchange, put
from ticdc_assets.events import Event, RowChange
from ticdc_assets.lake.apply.apply import DecodedBatches, apply
from ticdc_assets.lake.publish import publish
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.reference.model import Model
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import StoredRows
from ticdc_assets.stream.rules import make_rules

# Nothing states this version.
UNSTATED = 99
# Two windows, and how the tables stand after them; `None` makes the row before it wait.
STOPS: dict[str, tuple[list[Step | None], list[Step | None], dict[str, str]]] = {
    "at a DDL": (
        [create("t"), put("t", id=1, v="a")],
        [put("t", id=2, v="b"), UNREADABLE, put("t", id=3, v="c"), put("t", id=4, v="d")],
        {"t": "paused"},
    ),
    "at a DDL, and it is new": (
        [create("u")],
        [create("t"), put("t", id=1, v="a"), UNREADABLE, put("t", id=2, v="b")],
        {"t": "paused", "u": "live"},
    ),
    "at a row": (
        [create("t"), put("t", id=1, v="a")],
        [put("t", id=2, v="b"), put("t", id=3, v="c"), None, put("t", id=4, v="d")],
        {"t": "waiting"},
    ),
    "at an exchange": (
        [create("t", RANGE), create("u"), put("t", id=1, v="a"), put("u", id=5, v="a"), None],
        [put("t", id=2, v="b"), exchange("t", "p0", "u"), put("t", id=3, v="c")],
        {"t": "waiting", "u": "waiting"},
    ),
}


def no_spark() -> SparkSession:
    raise AssertionError


def tell(teller: Teller, steps: Iterable[Step | None]) -> tuple[list[Event], list[Event]]:
    """Return events as they arrive, and as they would without a wait."""
    arriving, true = list[Event](), list[Event]()
    for step in steps:
        if step is None:
            assert isinstance(true[-1], RowChange)
            arriving[-1] = replace(true[-1], schema_version=UNSTATED)
        else:
            true += (new := teller.tell([step]))
            arriving += new
    return arriving, true


@pytest.mark.parametrize("stop", STOPS)
def test_a_stopped_table_states_a_ts_at_which_it_is_true(tmp_path: Path, stop: str) -> None:
    *windows, statuses = STOPS[stop]
    history = HistoryLake(no_spark, tmp_path, [], FEED)
    lake, teller, events = history.lake, Teller("simple"), list[Event]()
    for batch, steps in enumerate(windows, 1):
        new, true = tell(teller, steps)
        events += true
        history.take(batch, new, new[-1].commit_ts)
        apply(lake, read_last_snapshot(lake), DecodedBatches(batch, batch))
        publish(lake)
    snapshot = read_last_snapshot(lake)
    named = {name[1]: snapshot.state.incarnations[id] for name, id in snapshot.state.names}
    assert {name: table.status for name, table in named.items()} == statuses
    compared = 0
    for id, table in snapshot.state.incarnations.items():
        name = table.schema.table
        for version, ts, _ in list_stated(Path(lake.current_path(id)), PREPARING_PLAIN):
            stored = StoredRows(LakeReader(lake.location), f"current/{id}", version)
            ids = sorted(id for block in stored.read() for id in block["id"].to_pylist())
            assert ids == find_ids(events, name, ts), (name, version, ts)
            compared += 1
    assert compared >= len(named)
    for name, table in named.items():
        shown = DeltaTable(lake.location.address("shop", name))
        stated = int(shown.metadata().configuration["ticdc.resolved_ts"])
        ids = sorted(shown.to_pyarrow_table()["id"].to_pylist())
        assert ids == find_ids(events, name, stated), (name, stated)
        if table.is_stopped:
            assert stated == table.complete_ts < snapshot.ts


def find_ids(events: Iterable[Event], name: str, ts: int) -> list[int]:
    """Return the keys of a table's rows at a ts, as the model has them."""
    model = Model(make_rules(FEED))
    model.add(events)
    model.advance(ts)
    (table,) = (each for each in model.tables if each.schema.table == name)
    assert table.pause_reason is None
    return sorted(int(row["id"] or 0) for row in table)
