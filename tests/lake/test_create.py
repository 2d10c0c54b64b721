"""A killed run left a Delta log without a commit: the next run creates the table."""

import shutil
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.lake.canal import FEED, ddl, placed, row, watermark
from tests.lake.reading import read_lines
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.store.contracts import CONTRACTS
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.tables import create_tables
from ticdc_assets.views.asof import as_of

SQL = "CREATE TABLE `t` (`id` INT PRIMARY KEY COMMENT 'it''s', `a.b` VARCHAR(20), `c,d` JSON)"
CAME = placed(
    [
        ddl("d", "t", 10, "CREATE", SQL),
        row("d", "t", 20, **{"id": "1", "a.b": "x", "c,d": "[]"}),
        watermark(30),
    ]
)


def made(lake: LakeSession) -> dict[str, Any]:
    """Advance the changefeed; return every table of the lake as Delta describes it."""
    done = advance(lake, RecordSource(lambda _: CAME))
    assert done.applied.problems == []
    (table,) = as_of(lake).tables()
    assert read_lines(lake, as_of(lake), table) == [b'{"id":"1","a.b":"x","c,d":"[]"}\n']
    return {name: described(lake.spark, lake.path(name)) for name in names(lake)}


def names(lake: LakeSession) -> list[str]:
    folder = Path(lake.path("current"))
    lives = (f"current/{life.parent.name}-{life.name}" for life in folder.glob("*/[0-9]*"))
    return ["raw", *CONTRACTS, *lives]


def described(spark: SparkSession, path: str) -> tuple[Any, ...]:
    rows = spark.read.format("delta").load(path)
    columns = [
        (field.name, field.dataType, field.metadata.get("comment")) for field in rows.schema.fields
    ]
    (detail,) = spark.sql(f"DESCRIBE DETAIL delta.`{path}`").collect()
    properties = {
        name: value
        for name, value in detail["properties"].items()
        if not name.startswith("delta.columnMapping.max")
    }
    return columns, detail["clusteringColumns"], properties, sorted(detail["tableFeatures"])


def test_a_table_begun_and_not_committed_is_created(spark: SparkSession, tmp_path: Path) -> None:
    untouched, begun = (
        LakeSession(spark, Lake(str(tmp_path / name), FEED.id), FEED)
        for name in ("untouched", "begun")
    )
    wanted = made(untouched)
    assert sum(name.startswith("current/") for name in wanted) == 1
    for name in wanted:
        log = Path(begun.path(name), "_delta_log")
        log.mkdir(parents=True)
        (log / ".00000000000000000000.json.5d1f.tmp").write_text('{"commitInfo":')
    assert made(begun) == wanted

    # The last table that is made is not there, but all others are.
    shutil.rmtree(begun.path("applied"))
    events = begun.read("events").count()
    create_tables(begun)
    assert {name: described(spark, begun.path(name)) for name in wanted} == wanted
    assert begun.read("events").count() == events
