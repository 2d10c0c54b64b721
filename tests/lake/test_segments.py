"""Segments of one table: which rows belong to them, and which of them are one."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.lake.canal import FEED, ddl, placed, watermark
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.lake.apply import table_features
from ticdc_assets.protocols.message import Message
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.views.asof import as_of

_Row = Mapping[str, str]
KEYED = "CREATE TABLE `{}` (`id` int PRIMARY KEY, `v` int)"
UNIQUE = "CREATE TABLE `t` (`id` int, `v` int, UNIQUE KEY `u` (`id`))"


# Parameters: what a message states.
def row(
    place: str, ts: int, new: _Row, *, old: _Row | None = None, kind: str = "INSERT", key: str = ""
) -> Message:
    database, table = place.split(".")
    content = {
        "database": database,
        "table": table,
        "type": kind,
        "isDdl": False,
        "pkNames": [key] if key else None,
        "mysqlType": {name: "decimal" if name == "k" else "int" for name in new},
        "sqlType": dict.fromkeys(new, 12),
        "data": [new],
        "old": [old] if old else None,
        "_tidb": {"commitTs": ts},
    }
    return Message("t", 0, 0, None, json.dumps(content).encode(), 1)


def statement(place: str, ts: int, sql: str) -> Message:
    return ddl(*place.split("."), ts, "ALTER", sql)


def keyed(place: str, ts: int, id: str, v: str = "1") -> Message:
    return row(place, ts, {"id": id, "v": v}, key="id")


def swap(database: str, ts: int) -> list[Message]:
    pairs = (("a", "x"), ("b", "a"), ("x", "b"))
    return [
        statement(f"{database}.{new}", ts + i, f"RENAME TABLE `{old}` TO `{new}`")
        for i, (old, new) in enumerate(pairs)
    ]


def decimals(database: str, key: str) -> tuple[list[Message], ...]:
    """A decimal that Delta holds as a text gets two more places."""
    place, unique = f"{database}.t", ", UNIQUE KEY (`k`)" if key else ""
    create = f"CREATE TABLE `t` (`k` decimal(40,5) NOT NULL, `v` int{unique})"
    widen = "ALTER TABLE `t` MODIFY COLUMN `k` decimal(44,7) NOT NULL"
    first, changed = {"k": "1.50000", "v": "1"}, {"k": "1.5000000", "v": "1"}
    return (
        [
            statement(place, 1, create),
            row(place, 2, first, key=key),
            row(place, 3, {"k": "2.50000", "v": "1"}, key=key),
        ],
        [statement(place, 11, widen)],
        [
            row(place, 21, {**changed, "v": "2"}, old=changed, kind="UPDATE", key=key),
            row(place, 22, {"k": "2.5000000", "v": "1"}, kind="DELETE", key=key),
        ],
    )


WINDOWS = [
    [
        statement("late.t", 5, "CREATE TABLE `t` (`id` int, `v` int)"),
        row("late.t", 6, {"id": "1", "v": "1"}),
    ],
    [
        # Of a ts that was applied.
        row("late.t", 7, {"id": "2", "v": "1"}),
        row("late.t", 15, {"id": "3", "v": "1"}),
    ],
    [
        statement("swap.a", 21, KEYED.format("a")),
        keyed("swap.a", 22, "1"),
        statement("swap.b", 23, KEYED.format("b")),
        *swap("swap", 24),
        keyed("swap.a", 27, "3"),
        keyed("swap.a", 28, "1", "99"),
        *swap("swap", 29),
        keyed("swap.a", 32, "4"),
        statement("back.a", 21, KEYED.format("a")),
        keyed("back.a", 22, "1"),
        statement("back.a", 23, "DROP TABLE `a`"),
        statement("back.a", 24, KEYED.format("a")),
        keyed("back.a", 25, "1", "99"),
        statement("back.new", 26, "RENAME TABLE `a` TO `new`"),
        statement("back.a", 27, "FLASHBACK TABLE `a`"),
        keyed("back.a", 28, "4"),
        statement("less.t", 21, UNIQUE),
        row("less.t", 22, {"id": "1", "v": "1"}),
        row("less.t", 23, {"id": "1", "v": "2"}, kind="UPDATE"),
        statement("less.t", 24, "ALTER TABLE `t` DROP INDEX `u`"),
        row("less.t", 25, {"id": "5", "v": "5"}),
        statement("more.t", 21, UNIQUE),
        row("more.t", 22, {"id": "1", "v": "1"}),
        row("more.t", 23, {"id": "1", "v": "2"}, kind="UPDATE"),
        statement("more.t", 24, "ALTER TABLE `t` ADD UNIQUE KEY `w` (`v`)"),
        row("more.t", 25, {"id": "5", "v": "5"}),
    ],
]
DECIMALS = {"keyed": decimals("keyed", "k"), "plain": decimals("plain", "")}
ROWS = {
    "late.t": ["1 1", "2 1", "3 1"],
    "swap.a": ["1 1", "4 1"],
    "swap.b": ["1 99", "3 1"],
    "back.a": ["1 1", "4 1"],
    "back.new": ["1 99"],
    "less.t": ["1 2", "5 5"],
    "more.t": ["1 2", "5 5"],
    "keyed.t": ["1.5000000 2"],
    "plain.t": ["1.5000000 2"],
}


@pytest.mark.parametrize("writer", ["in this process", "step by step"])
def test_a_segment_has_the_rows_of_its_table_and_no_others(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    if writer == "step by step":
        monkeypatch.setattr(table_features, "LARGE_TABLE", -1)
    feed = replace(FEED, force_replicate=True)
    lake = LakeSession(spark, Lake(str(tmp_path), feed.id), feed)
    sent: list[Message] = []
    for number, window in enumerate(WINDOWS):
        sent += [*window, *(m for each in DECIMALS.values() for m in each[number])]
        sent.append(watermark(10 * number + (19 if number == 2 else 10)))
        done = advance(lake, RecordSource(lambda _, sent=tuple(sent): placed(sent)))
        assert done.applied.problems == []
    view = as_of(lake)
    found = {}
    for table in view.tables():
        rows = map(json.loads, view.lines(table))
        name = f"{table.schema.database}.{table.schema.table}"
        found[name] = sorted(" ".join(each.values()) for each in rows)
    assert found == ROWS
