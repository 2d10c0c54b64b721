"""The load job: what became of each table, and that one which cannot be loaded stops no other."""

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from tests.dumpling.exporter import TSO, Exporter
from tests.mariadb_server import MariaDb
from ticdc_assets.assets.load import load_job
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.events import Column, ColumnType, Index, TableSchema
from ticdc_assets.log.loads import find_newest_load, read_loads
from ticdc_assets.naming import FeedNames
from ticdc_assets.resources.deployment import LakeResource, SparkResource
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader

FEED = changefeed_from_uri("kafka://h:9092/t?protocol=simple", id="shop")
KEY = Index("PRIMARY", ("id",), unique=True, primary=True)
GOOD = TableSchema("d", "good", (Column("id", ColumnType("int"), nullable=False),), (KEY,))


def test_the_job_shows_what_became_of_every_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Exporter(tmp_path / "export").write({GOOD: [("1",), ("2",)]})
    (tmp_path / "export" / "d.odd-schema.sql").write_text("CREATE TABLE `odd` (`a` frobnicate);")
    monkeypatch.setattr(
        SparkResource, "open_lake", lambda self, lake, feed: LakeSession(spark, lake, feed)
    )
    root = str(tmp_path / "lake")

    def run(directory: Path, **more: object) -> dg.ExecuteInProcessResult:
        config = {"directory": str(directory), **more}
        return load_job(FeedNames(FEED)).execute_in_process(
            run_config={"ops": {"start_shop_tables": {"config": config}}},
            resources={"spark": SparkResource(), "lake": LakeResource(root=root)},
            raise_on_error=False,
        )

    result = run(tmp_path / "export")
    assert not result.success
    (failure,) = result.filter_events(lambda event: event.is_step_failure)
    assert "1 of 2 tables were not loaded" in str(failure.event_specific_data)
    assert "d.odd: " in str(failure.event_specific_data)
    reader = LakeReader(Lake(root, FEED.id))
    assert find_newest_load(reader) == 1
    assert [(load.schema.table, load.rows) for load in read_loads(reader)] == [("good", 2)]

    (tmp_path / "export" / "d.odd-schema.sql").unlink()
    result = run(tmp_path / "export")
    assert result.success
    (output,) = result.filter_events(lambda event: event.is_successful_output)
    shown = output.step_output_data.metadata["ticdc/results"].records
    assert [record.data["result"] for record in shown] == ["already loaded"]

    result = run(tmp_path / "nowhere")
    (failure,) = result.filter_events(lambda event: event.is_step_failure)
    assert "no such folder" in str(failure.event_specific_data)

    result = run(tmp_path / "export", from_upstream=True)
    (failure,) = result.filter_events(lambda event: event.is_step_failure)
    assert "directory: names an export: set it, or from_upstream" in str(
        failure.event_specific_data
    )


def test_the_job_reads_the_database(
    spark: SparkSession, tmp_path: Path, mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    mariadb.run("CREATE OR REPLACE DATABASE d", "CREATE TABLE d.good (id int PRIMARY KEY)")
    monkeypatch.setattr(
        SparkResource, "open_lake", lambda self, lake, feed: LakeSession(spark, lake, feed)
    )
    root = str(tmp_path / "lake")

    def run(at: object) -> dg.ExecuteInProcessResult:
        config = {"from_upstream": True, "at": at, "tables": ["d.good"]}
        return load_job(FeedNames(replace(FEED, upstream=mariadb.upstream))).execute_in_process(
            run_config={"ops": {"start_shop_tables": {"config": config}}},
            resources={"spark": SparkResource(), "lake": LakeResource(root=root)},
            raise_on_error=False,
        )

    for wrong, reason in (("soon", "at: 'soon' must be a TSO"), (1795749826, "is no TSO but Unix")):
        (failure,) = run(wrong).filter_events(lambda event: event.is_step_failure)
        assert reason in str(failure.event_specific_data)
    # A time is the TSO of its millisecond.
    assert run("2026-11-21T10:25:33.266+08:00").success
    assert run(TSO).success
    (load,) = read_loads(LakeReader(Lake(root, FEED.id)))
    assert (load.schema.table, load.ts, load.rows) == ("good", TSO, 0)
