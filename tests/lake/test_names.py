"""Columns may have any name; a table that Spark cannot take is paused alone."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.lake.canal import FEED, change, ddl, placed, row, watermark
from tests.lake.changes_tables import compare_with_histories
from tests.lake.reading import read_lines
from tests.lake.versions_at import read_histories
from ticdc_assets.errors import CONTENT_ERRORS, TableCannotContinue
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.advance import RecordSource, advance, replay_tables
from ticdc_assets.lake.apply import table_features, table_tasks
from ticdc_assets.lake.apply.current_table import CurrentTable
from ticdc_assets.lake.apply.table_errors import find_pause_reason
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.protocols.message import Message
from ticdc_assets.store.data_files import WrittenFile, write_data_file
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.asof import as_of
from ticdc_assets.views.preview import PreviewedTable, preview_tables

# What Delta, Spark and the lake call columns of their own, and signs that mean something to them.
NAMES = [
    *("_commit_ts", "_commit_version", "_change_type", "_commit_timestamp", "_metadata"),
    "_inexact",
    *("_row_id", "__is_cdc", "⌗put", "#put", "#old", "#copies", "image", "problem", "batch", "op"),
    *("a.b", "`", "a`.`b", "x y", "表", "select", "'", '"', "\\", "a,b;{}()\n\t=", "${env:HOME}"),
    *("👍", "𠮷", "--", "/*", "*/", "*", " CLUSTER BY (`id`)"),
]
ADD = "ADD COLUMN `#added` varchar(20) DEFAULT '5'"
TABLE = "a/b.c\"d`'#👍"
COMMENT = "${env:HOME} 👍𠮷'\"`\\\n--/*) LOCATION '/x' TBLPROPERTIES ('a' = 'b') --"
MEMBERS = ["👍", "𠮷'", "--", "/*", "`"]


def quote(text: str) -> str:
    """Quote a text for MySQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


ENUM = f"enum({','.join(map(quote, MEMBERS))})"


# Length: one table goes through every kind of change.
def test_columns_of_any_name_survive_every_kind_of_change(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A large table is changed by statements.
    monkeypatch.setattr(table_features, "LARGE_TABLE", -1)
    feed = dataclasses.replace(FEED, history=("*.*",), changes=("*.*",))
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), feed)

    def values(id: int, text: str) -> dict[str, str]:
        return {"id": str(id), "e": str(id), **{n: f"{text} {at}" for at, n in enumerate(NAMES)}}

    def changed(kind: str, ts: int, new: dict[str, str], old: Any = None) -> Message:
        return change(kind, "d", TABLE, ts, new, old, e=ENUM)

    def shown(values: dict[str, str]) -> dict[str, str]:
        return {**values, "e": MEMBERS[int(values["e"]) - 1]}

    columns = ", ".join(f"`{name.replace('`', '``')}` varchar(20)" for name in NAMES)
    table = f"`{TABLE.replace('`', '``')}`"
    first = f"id int primary key COMMENT {quote(COMMENT)}, e {ENUM}"
    create = f"CREATE TABLE {table} ({first}, {columns})"
    comment = f"ALTER TABLE {table} MODIFY COLUMN e {ENUM} COMMENT {quote(COMMENT)}"
    windows = [
        [
            ddl("d", TABLE, 1, "CREATE", create),
            *(changed("INSERT", 2, values(id, "old")) for id in (1, 2, 3)),
        ],
        [
            changed("UPDATE", 12, values(1, "new"), values(1, "old")),
            changed("UPDATE", 13, values(4, "moved"), values(2, "old")),
            changed("DELETE", 14, values(3, "old")),
            ddl("d", TABLE, 16, "ALTER", comment),
        ],
        [
            ddl("d", TABLE, 22, "ALTER", f"ALTER TABLE {table} {ADD}"),
            changed("INSERT", 23, {**values(5, "last"), "#added": "6"}),
        ],
    ]
    sent: list[Message] = []
    for end, window in zip((10, 20, 30), windows, strict=True):
        sent += [*window, watermark(end)]
        came = placed(sent)
        done = advance(lake, RecordSource(lambda _, came=came: came))
        assert done.applied.problems == []
        versions = read_last_snapshot(lake).versions
        (current,) = versions
        comments = [field.metadata["comment"] for field in lake.read(f"current/{current}").schema]
        stated = f": {COMMENT}" if end > 10 else ""
        assert comments[:2] == [f"int NOT NULL: {COMMENT}", f"{ENUM}{stated}"]
        (detail,) = spark.sql(f"DESCRIBE DETAIL {lake.sql(f'current/{current}')}").collect()
        assert (detail["clusteringColumns"], detail["location"]) == (
            ["id"] if end > 10 else [],
            Path(lake.path(f"current/{current}")).as_uri().replace("file:///", "file:/"),
        )
        assert "a" not in detail["properties"]
    schema = read_last_snapshot(lake).state.incarnations[current].schema
    previewed = {current: PreviewedTable(schema, versions[current])}
    preview = preview_tables(LakeReader(lake.location), previewed, limit=9)[current]
    assert sorted(row[0] for row in preview.rows) == ["1", "4", "5"]
    expected = {
        15: [shown(values(1, "new")), shown(values(4, "moved"))],
        30: [
            {**shown(values(1, "new")), "#added": "5"},
            {**shown(values(4, "moved")), "#added": "5"},
            {**shown(values(5, "last")), "#added": "6"},
        ],
    }
    kept_at = read_histories(lake)
    assert compare_with_histories(lake)
    for ts, rows in expected.items():
        (kept,) = kept_at(ts).values()
        assert sorted(map(json.loads, kept[1]), key=lambda row: str(row["id"])) == rows
        seen = as_of(lake, ts)
        (found,) = seen.tables()
        assert (found.schema.database, found.schema.table) == ("d", TABLE)
        assert (
            sorted(map(json.loads, read_lines(lake, seen, found)), key=lambda row: row["id"])
            == rows
        )


@pytest.mark.any_spark
def test_a_table_that_spark_cannot_take_is_paused_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), FEED)
    write_whole = CurrentTable.write_whole

    def fail(table: CurrentTable, rows: DataFrame, schema: TableSchema, *rest: Any) -> None:
        if schema.table == "odd":
            spark.sql("SELECT nothing")
        write_whole(table, rows, schema, *rest)

    def write(location: Lake, table: str, *given: Any, **options: Any) -> WrittenFile:
        if "strange" in table:
            raise KeyError("nobody foresaw this")
        return write_data_file(location, table, *given, **options)

    def lines(name: str) -> list[Any]:
        seen = as_of(lake)
        return list(map(json.loads, read_lines(lake, seen, seen.find(name)[0])))

    # A client of Spark Connect sends nothing that is nested as deep as this table is wide.
    even = {"id": "2", **{f"c{at}": str(at) for at in range(150)}}
    # Spark writes a table with such a name.
    odd = {"id": "1", "a b": "1"}
    failing = [row("d", "odd", 5, **odd), row("d", "strange", 5, id="1")]
    # Spark cannot hold a member that is not UTF-8.
    bytes_in_ddl = "CREATE TABLE `raw` (id INT PRIMARY KEY COMMENT 'x', e ENUM(x'ff', 'a'))"
    failing += [ddl("d", "raw", 4, "CREATE", bytes_in_ddl), row("d", "raw", 5, id="1")]
    sent = [*failing, row("d", "even", 5, **even), watermark(9)]
    with monkeypatch.context() as patch:
        patch.setattr(CurrentTable, "write_whole", fail)
        patch.setattr(table_tasks, "write_data_file", write)
        done = advance(lake, RecordSource(lambda _: placed(sent))).applied
    assert {problem.kind for problem in done.problems} == {"paused"}
    reasons = {problem.table: problem.reason for problem in done.problems}
    assert set(reasons) == {"odd", "strange", "raw"}
    assert "UNRESOLVED_COLUMN" in reasons["odd"]
    assert reasons["strange"] == "unexpected KeyError: 'nobody foresaw this'"
    assert (lines("d.odd"), lines("d.even")) == ([], [even])
    assert "of an ENUM or SET is not UTF-8" in reasons["raw"]

    applied = read_last_snapshot(lake)
    stopped = frozenset(t.id for t in applied.state.incarnations.values() if t.is_stopped)
    replay_tables(lake, applied, ReplayRequest(stopped, 0), lambda *_: None)
    assert [lines(f"d.{name}") for name in ("odd", "strange")] == [[odd], [{"id": "1"}]]
    assert lines("d.even") == [even]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TableCannotContinue("it cannot"), "it cannot"),
        (ZeroDivisionError("by zero"), "unexpected ZeroDivisionError: by zero"),
        (
            PySparkException("[ARITHMETIC_OVERFLOW] long overflow. SQLSTATE: 22003\nmore"),
            "Spark does not accept it: [ARITHMETIC_OVERFLOW] long overflow. SQLSTATE: 22003",
        ),
        (PySparkException("[DELTA_CONCURRENT_APPEND] another commit. SQLSTATE: 2D521"), None),
        (PySparkException("Job aborted due to stage failure: the executor is lost"), None),
        (PySparkException("[FAILED_READ_FILE] no such host. SQLSTATE: KD001"), None),
    ],
)
def test_only_errors_of_a_table_pause_it(error: Exception, reason: str | None) -> None:
    assert find_pause_reason(error) == reason


@pytest.mark.parametrize(
    "error", [OSError(), ConnectionError(), MemoryError(), EOFError(), KeyboardInterrupt()]
)
def test_errors_of_the_machine_are_not_errors_of_content(error: BaseException) -> None:
    assert not isinstance(error, CONTENT_ERRORS)
