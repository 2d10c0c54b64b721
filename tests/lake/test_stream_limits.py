"""What the rows in a lake show of the limits of its changefeed; no Spark."""

from pathlib import Path

import pyarrow as pa
import pytest

from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.events import (
    Event,
    FilePosition,
    Op,
    Ordering,
    RowChange,
    SchemaChange,
    TopicPosition,
    Watermark,
)
from ticdc_assets.store.arrow import arrow_schema
from ticdc_assets.store.contracts import EVENTS, STATISTICS
from ticdc_assets.store.event_rows import Arrival, to_arrow
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.writer import LakeWriter
from ticdc_assets.views.stream_limits import describe_lake_limits

TOPIC, FOLDER = (
    "kafka://h:9092/t?protocol=canal-json",
    "file:///data?protocol=canal-json",
)
IS_CERTAIN, IS_NOT, IS_NOT_ALWAYS = "every row has", ", rows carry", "some rows carry"


def row(at: int, ordering: Ordering) -> RowChange:
    return RowChange(
        op=Op.INSERT,
        commit_ts=at,
        database="d",
        table="t",
        position=TopicPosition("t", 0, at),
        after="{}",
        ordering=ordering,
    )


# A DDL of a schema file always has a commit ts, which says nothing of rows.
DDL = SchemaChange(
    commit_ts=1,
    database="d",
    table="t",
    sql="CREATE TABLE t (id int)",
    position=FilePosition("schema"),
)


@pytest.mark.parametrize("has_statistics", [True, False])
@pytest.mark.parametrize("uri", [TOPIC, FOLDER])
@pytest.mark.parametrize(
    ("batches", "note"),
    [
        ([], IS_NOT),
        ([["commit_ts"], ["commit_ts", "commit_ts"]], IS_CERTAIN),
        ([["milliseconds"], ["table_version"]], IS_NOT),
        ([["milliseconds"], ["commit_ts"]], IS_NOT_ALWAYS),
        ([["commit_ts", "milliseconds"]], IS_NOT_ALWAYS),
    ],
)
def test_the_rows_in_the_lake_decide_what_is_said_of_their_order(
    tmp_path: Path,
    uri: str,
    batches: list[list[Ordering]],
    note: str,
    has_statistics: bool,
) -> None:
    lake, feed = Lake(str(tmp_path), "f"), changefeed_from_uri(uri, id="f")
    assert [IS_NOT in each for each in describe_lake_limits(feed, lake)] == [True]
    columns = ",".join(STATISTICS["events"]) if has_statistics else "batch"
    writer = LakeWriter(lake)
    writer.create("events", arrow_schema(EVENTS), {"delta.dataSkippingStatsColumns": columns})
    for number, orderings in enumerate([[], *batches], 1):
        events: list[Event] = [DDL, Watermark(ts=1, position=TopicPosition("t", 0, 0))]
        events += [row(at, ordering) for at, ordering in enumerate(orderings)]
        arrivals = [Arrival(number, seq, 0, event) for seq, event in enumerate(events)]
        writer.append(LakeReader(lake).open("events"), pa.Table.from_batches(to_arrow(arrivals)))
    (found,) = describe_lake_limits(feed, lake)
    assert note in found
    declared = changefeed_from_uri(f"{uri}&enable-tidb-extension=true", id="f")
    assert describe_lake_limits(declared, lake) == []
