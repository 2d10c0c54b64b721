"""A folder as the first servers with a storage sink lay it out, where inserts may be updates."""

import json
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from tests.lake.reading import read_lines
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.lake.advance import FolderSource, advance
from ticdc_assets.resources.storage import open_sink_folder
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.views.asof import as_of

TS = 437752935075545091
CONFIG = """
[sink]
date-separator = "none"
[sink.csv]
include-commit-ts = true
"""
SCHEMA = {
    "Table": "t",
    "Schema": "d",
    "Version": 1,
    "TableVersion": TS,
    "Query": "create table t (id int primary key, v int)",
    "Type": 3,
    "TableColumns": [
        {"ColumnName": "id", "ColumnType": "INT", "ColumnNullable": "false", "ColumnIsPk": "true"},
        {"ColumnName": "v", "ColumnType": "INT"},
    ],
    "TableColumnsTotal": 2,
}


def test_an_insert_of_a_key_that_is_there_overwrites_its_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = tmp_path / "changefeed.toml"
    config.write_text(CONFIG)
    sink = tmp_path / "sink"
    feed = changefeed_from_uri(f"file://{sink}?protocol=csv", config=config)
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), feed.id), feed)
    place = sink / "d" / "t" / str(TS)
    place.mkdir(parents=True)
    (place / "schema.json").write_text(json.dumps(SCHEMA))
    folder = partial(open_sink_folder, feed)

    def run(number: int, rows: list[tuple[int, int, int]]) -> list[bytes]:
        lines = [f'"I","t","d",{TS + after},{id},{v}\r\n' for after, id, v in rows]
        (place / f"CDC{number:06}.csv").write_text("".join(lines), newline="")
        (sink / "metadata").write_text(json.dumps({"checkpoint-ts": TS + 10 * number}))
        done = advance(lake, FolderSource(folder(), folder))
        assert done.applied.problems == []
        (table,) = as_of(lake).tables()
        return sorted(read_lines(lake, as_of(lake), table))

    assert run(1, [(1, 1, 5), (2, 2, 6), (3, 2, 7)]) == [
        b'{"id":"1","v":"5"}\n',
        b'{"id":"2","v":"7"}\n',
    ]
    assert run(2, [(11, 1, 8), (12, 3, 9)]) == [
        b'{"id":"1","v":"8"}\n',
        b'{"id":"2","v":"7"}\n',
        b'{"id":"3","v":"9"}\n',
    ]
