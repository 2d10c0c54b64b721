"""A killed run left a Delta log without a commit: the next run creates the table."""

import json
import shutil
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.lake.canal import FEED, ddl, placed, row, watermark
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
    assert list(as_of(lake).lines(table)) == [b'{"id":"1","a.b":"x","c,d":"[]"}\n']
    return {name: described(lake.path(name)) for name in names(lake)}


def names(lake: LakeSession) -> list[str]:
    folder = Path(lake.path("current"))
    lives = (f"current/{life.parent.name}-{life.name}" for life in folder.glob("*/[0-9]*"))
    return ["raw", *CONTRACTS, *lives]


def described(path: str) -> tuple[Any, ...]:
    table = DeltaTable(path)
    fields = [
        (field.name, str(field.type), field.nullable, field.metadata.get("comment"))
        for field in table.schema().fields
    ]
    lines = [
        json.loads(line)
        for file in sorted(Path(path, "_delta_log").glob("*.json"))
        for line in file.read_text().splitlines()
    ]
    # Clustering is such a domain.
    domains = [
        (line["domainMetadata"]["domain"], line["domainMetadata"]["configuration"])
        for line in lines
        if "domainMetadata" in line
    ]
    properties = {
        name: value
        for name, value in table.metadata().configuration.items()
        if not name.startswith("delta.columnMapping.max")
    }
    protocol = table.protocol()
    features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    versions = protocol.min_reader_version, protocol.min_writer_version
    return fields, domains, properties, versions, features


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
    events = count_events(begun)
    create_tables(begun)
    assert {name: described(begun.path(name)) for name in wanted} == wanted
    assert count_events(begun) == events


def count_events(lake: LakeSession) -> int:
    return DeltaTable(lake.path("events")).to_pyarrow_table().num_rows
