"""Every snapshot of the applied log can be read again."""

from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from tests.lake.canal import FEED, placed, row, watermark
from ticdc_assets.events import TableSchema
from ticdc_assets.events.written import write_json
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.log.applied import read_last_snapshot, write_snapshot
from ticdc_assets.log.applied_files import read_snapshot
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.state import Incarnation, State
from ticdc_assets.store.arrow import arrow_schema, make_table
from ticdc_assets.store.contracts import APPLIED
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.writer import LakeWriter
from ticdc_assets.stream.resolved_ts import WatermarkState
from ticdc_assets.views.asof import as_of


def test_a_watermark_before_the_first_table_makes_a_snapshot(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), FEED)
    sent = [watermark(5), watermark(7), row("d", "t", 8, id="1"), watermark(9)]
    for count, resolved in ((1, 5), (2, 7), (4, 9)):
        came = placed(sent[:count])
        advance(lake, RecordSource(lambda _, came=came: came))
        assert read_last_snapshot(lake).ts == resolved
    assert [read_snapshot(LakeReader(lake.location), seq).ts for seq in range(4)] == [0, 5, 7, 9]
    assert as_of(lake, 7).tables() == []
    (table,) = as_of(lake).tables()
    assert list(as_of(lake).lines(table)) == [b'{"id":"1"}\n']


def test_a_state_may_be_any_number_of_snapshots_ago(tmp_path: Path) -> None:
    location = Lake(str(tmp_path / "lake"), "f")
    writer, reader = LakeWriter(location), LakeReader(location)
    watermarks = write_json(WatermarkState())
    whole = write_json(State(skipped_ddls=[(7, ("d", "t", "DROP TABLE t"))]))
    writer.create("applied", arrow_schema(APPLIED), {})
    for id in range(1, 61):
        has_state = id in (1, 51)
        row = (
            *(id, datetime.now(UTC), id * 10, id, id, [], [(f"t{id % 3}", id)], [], None),
            *(1 if id < 51 else 51, watermarks, whole if has_state else None),
        )
        writer.append(reader.open("applied"), make_table(APPLIED, [row]))
    snapshot = read_snapshot(reader, 50)
    assert (snapshot.ts, snapshot.state_snapshot_id) == (500, 1)
    assert snapshot.versions == {"t0": 48, "t1": 49, "t2": 50}
    assert read_snapshot(reader, 60).versions == {"t0": 60, "t1": 58, "t2": 59}
    assert snapshot.state.skipped_ddls == [(7, ("d", "t", "DROP TABLE t"))]


def test_of_two_snapshots_with_one_id_the_first_counts(tmp_path: Path) -> None:
    location = Lake(str(tmp_path / "lake"), "f")
    # No session: nothing here takes Spark.
    lake = LakeSession(None, location, FEED)  # type: ignore[arg-type]
    LakeWriter(location).create("applied", arrow_schema(APPLIED), {})
    table = Incarnation(id="t", schema=TableSchema("d", "t", ()), created_ts=1)
    state = State(ts=5, incarnations={"t": table})
    written = [
        write_snapshot(
            lake,
            Snapshot(),
            state,
            batch=1,
            decoded_batch=1,
            versions={"t": version},
            watermarks={},
            counts=(),
        )
        for version in (3, 4)
    ]
    assert [snapshot.versions for snapshot in written] == [{"t": 3}, {"t": 3}]
