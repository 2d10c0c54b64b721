"""A unique key takes over from the primary key, and a primary key from it, in the real lake."""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.lake.canal import placed
from tests.lake.reading import read_lines
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.protocols.message import Message
from ticdc_assets.reference.replay import ModelReplay
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.stream.reading import read_topic_events
from ticdc_assets.views.asof import as_of

FEED = changefeed_from_uri("kafka://h:9092/t?protocol=simple&partition-num=1", id="f")

CREATED = (
    "CREATE TABLE `np` (`id` INT NOT NULL,`v` VARCHAR(10) NOT NULL,"
    "PRIMARY KEY(`id`) /*T![clustered_index] NONCLUSTERED */,UNIQUE `uv`(`v`))"
)


def index(name: str, column: str, *, primary: bool = False) -> dict[str, Any]:
    return {
        "name": name,
        "unique": True,
        "primary": primary,
        "nullable": False,
        "columns": [column],
    }


UNIQUE = index("uv", "v")
# As TiCDC states the table while it has no primary key.
IMPLICIT = index("primary", "v", primary=True)


def ddl(ts: int, kind: str, sql: str, *indexes: dict[str, Any]) -> Message:
    columns = [
        ("id", {"mysqlType": "int", "charset": "binary", "collate": "binary", "length": 11}),
        ("v", {"mysqlType": "varchar", "charset": "utf8mb4", "collate": "utf8mb4_bin"}),
    ]
    stated = {
        "schema": "d",
        "table": "np",
        "tableID": 1,
        "version": ts - 1,
        "columns": [
            {"name": name, "dataType": type, "nullable": False, "default": None}
            for name, type in columns
        ],
        "indexes": list(indexes),
    }
    return message({"type": kind, "sql": sql, "commitTs": ts, "tableSchema": stated})


def row(ts: int, version: int, *images: tuple[int, str] | None) -> Message:
    """Make a row change from the images before and after it."""
    old, new = ({"id": str(i[0]), "v": i[1]} if i else None for i in images)
    kind = "UPDATE" if old and new else "INSERT" if new else "DELETE"
    content = {"database": "d", "table": "np", "tableID": 1, "type": kind, "commitTs": ts}
    content |= {"schemaVersion": version, "data": new, "old": old}
    return message({name: value for name, value in content.items() if value is not None})


def watermark(ts: int) -> Message:
    return message({"type": "WATERMARK", "commitTs": ts})


def message(content: dict[str, Any]) -> Message:
    return Message("t", 0, 0, None, json.dumps({"version": 1, "buildTs": 1, **content}).encode())


SENT = placed(
    [
        ddl(10, "CREATE", CREATED, index("PRIMARY", "id", primary=True), UNIQUE),
        row(20, 9, None, (1, "a")),
        row(21, 9, None, (2, "b")),
        watermark(25),
        ddl(30, "DINDEX", "ALTER TABLE `np` DROP PRIMARY KEY", UNIQUE, IMPLICIT),
        # `id` identifies no row any more.
        row(40, 29, None, (1, "c")),
        row(41, 29, (2, "b"), (1, "b")),
        row(42, 29, (1, "a"), (1, "d")),
        watermark(45),
        ddl(
            50,
            "CINDEX",
            "ALTER TABLE `np` ADD PRIMARY KEY(`v`)",
            UNIQUE,
            index("PRIMARY", "v", primary=True),
        ),
        row(60, 49, (1, "c"), None),
        row(61, 49, None, (1, "e")),
        row(62, 49, (1, "b"), (3, "b")),
        watermark(65),
    ]
)
EXPECTED = [{"id": "1", "v": "d"}, {"id": "1", "v": "e"}, {"id": "3", "v": "b"}]


def test_the_key_that_identifies_rows_follows_the_ddl(spark: SparkSession, tmp_path: Path) -> None:
    model = ModelReplay(FEED)
    model.add(list(read_topic_events(FEED, SENT, None)))
    model.advance(65)
    (expected,) = (model.encode_table(table) for table in model.model.tables)
    for name, cuts in {"one": [65], "three": [25, 45, 65]}.items():
        lake = LakeSession(spark, Lake(str(tmp_path / name), FEED.id), FEED)
        for cut in cuts:
            came = [m for m in SENT if json.loads(m.value or b"")["commitTs"] <= cut]
            assert advance(lake, RecordSource(lambda _, came=came: came)).applied.problems == []
        (table,) = as_of(lake).tables()
        assert (table.status, table.schema.key) == ("live", ("v",))
        lines = read_lines(lake, as_of(lake), table)
        assert sorted((json.loads(line) for line in lines), key=str) == EXPECTED
        assert sorted(lines) == sorted(expected)
