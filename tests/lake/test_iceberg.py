"""Tables as Iceberg tables: each has the rows that its name has, and states when they were true."""

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from tests.lake.addresses import LIFE, create, send
from tests.lake.canal import change, ddl, row
from tests.lake.iceberg_tables import (
    Stream,
    list_iceberg,
    open_iceberg,
    open_lake,
    read_iceberg,
    read_snapshots,
)
from ticdc_assets.lake.advance import advance
from ticdc_assets.lake.apply import table_features
from ticdc_assets.lake.iceberg import shown_table
from ticdc_assets.lake.iceberg import table as iceberg_table
from ticdc_assets.lake.iceberg.columns import Columns
from ticdc_assets.lake.iceberg.published import publish_iceberg, read_iceberg_problems
from ticdc_assets.lake.maintain import maintain
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources.catalogs import read_catalog_problems
from ticdc_assets.resources.patience import PatientCaller
from ticdc_assets.store.delta_log import TableState

Rows = list[dict[str, Any]]


def test_an_iceberg_table_follows_its_name(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "a b's é+&", "d.*")
    for number, (_, after) in enumerate(LIFE, 1):
        assert advance(lake, send(number)).applied.problems == []
        assert read_iceberg(lake) == after, number
    # Each name had these rows at these ts; it states no ts at which nothing changed.
    for name in "abc":
        table = open_iceberg(lake, f"d.{name}")
        seen = {ts: sorted(rows["id"].to_pylist()) for ts, rows in read_snapshots(table)}
        for number, (_, after) in enumerate(LIFE):
            ts = number * 10 + 9
            if name in after:
                stated = max(known for known in seen if known <= ts)
                assert seen[stated] == (after[name] or []), (name, ts)


def test_nothing_is_published_without_the_setting(tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    advance(lake, send(2))
    assert not Path(lake.path("iceberg")).exists()


# The statements of a window, what they change, and whether older snapshots leave the table.
DDLS: list[tuple[list[str], dict[str, Any], bool]] = [
    (["ADD COLUMN n BIGINT"], {"n": None}, False),
    (["RENAME COLUMN w TO y"], {"w": ..., "y": "a"}, False),
    # Whole numbers in place of texts, and the other way round.
    (
        ["RENAME COLUMN v TO x", "RENAME COLUMN y TO v", "RENAME COLUMN x TO y"],
        {"v": "a", "y": 10},
        True,
    ),
    (["MODIFY COLUMN y BIGINT"], {}, False),
    (["DROP COLUMN v"], {"v": ...}, False),
    (["ADD COLUMN v VARCHAR(20)"], {"v": None}, False),
    (["MODIFY COLUMN y VARCHAR(20)"], {"y": "10"}, True),
    (["MODIFY COLUMN y INT"], {"y": 10}, True),
]


def test_each_snapshot_has_the_columns_and_rows_of_its_time(tmp_path: Path) -> None:
    lake = open_lake(tmp_path, "d.t")
    stream = Stream(lake)
    sql = "CREATE TABLE t (id INT PRIMARY KEY, v INT, w VARCHAR(20))"
    first = change("INSERT", "d", "t", 3, {"id": "1", "v": "10", "w": "a"}, v="int")
    assert stream.send(ddl("d", "t", 2, "CREATE", sql), first) == []
    rows = {"id": 1, "v": 10, "w": "a"}
    truth, known = {9: dict(rows)}, {9: dict(rows)}
    for number, (actions, changed, is_break) in enumerate(DDLS, 1):
        before = open_iceberg(lake, "d.t").metadata_location
        altered = [
            ddl("d", "t", number * 10 + at, "ALTER", f"ALTER TABLE t {action}")
            for at, action in enumerate(actions)
        ]
        assert stream.send(*altered) == []
        rows |= changed
        rows = {name: value for name, value in rows.items() if value is not ...}
        ts = number * 10 + 9
        if is_break:
            # The file of the table as it was still shows what it had.
            assert {when: _plain(r) for when, r in read_snapshots(open_at(before))} == known
            known.clear()
        truth[ts] = known[ts] = dict(rows)
        table = open_iceberg(lake, "d.t")
        assert {when: _plain(r) for when, r in read_snapshots(table)} == known, actions
        assert _plain(table.scan().to_arrow()) == truth[ts]
    docs = {field.name: field.doc for field in open_iceberg(lake, "d.t").schema().fields}
    assert docs["id"] == "int NOT NULL"


def open_at(metadata: str) -> StaticTable:
    return StaticTable.from_metadata(metadata)


def _plain(rows: Any) -> dict[str, Any]:
    (found,) = rows.drop_columns(["_commit_ts"]).to_pylist()
    return dict(found)


class Killed(BaseException):
    """The run was killed."""


@pytest.mark.parametrize("step", ["write_snapshot", "write_once", "_write_hint"])
@pytest.mark.parametrize("after", [False, True])
def test_a_run_that_is_killed_while_it_publishes_is_made_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    lake = open_lake(tmp_path, "d.*")
    advance(lake, send(4))
    holder = iceberg_table.IcebergTable if step.startswith("_") else iceberg_table
    made: Callable[..., Any] = getattr(holder, step)
    left = 1

    def die(*args: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0 and not after:
            raise Killed
        done = made(*args)
        if left < 0:
            raise Killed
        return done

    with monkeypatch.context() as patched:
        patched.setattr(holder, step, die)
        with pytest.raises(Killed):
            advance(lake, send(6))
    # Nothing new comes, and nothing is applied.
    assert advance(lake, send(6)).is_idle
    assert read_iceberg(lake) == LIFE[5][1]
    assert publish_iceberg(lake, read_last_snapshot(lake)) == []
    for address in list_iceberg(lake):
        hint = Path(lake.path("iceberg"), address, "metadata", "version-hint.text").read_text()
        newest = Path(lake.path("iceberg"), address, "metadata", f"v{int(hint) + 1}.metadata.json")
        assert not newest.exists()


def test_the_setting_can_come_late_change_and_go(tmp_path: Path) -> None:
    advance(open_lake(tmp_path), send(4))
    lake = open_lake(tmp_path, "d.c")
    advance(lake, send(4))
    assert read_iceberg(lake) == {"c": LIFE[3][1]["c"]}
    lake = open_lake(tmp_path, "d.*", "!d.c")
    advance(lake, send(4))
    # A table that nobody keeps at the newest snapshot would be one of another time.
    assert read_iceberg(lake) == {"b": LIFE[3][1]["b"]}
    advance(lake, send(5))
    assert read_iceberg(lake) == {"b": LIFE[4][1]["b"]}
    lake = open_lake(tmp_path)
    advance(lake, send(5))
    assert list_iceberg(lake) == []
    lake = open_lake(tmp_path, "d.*")
    advance(lake, send(9))
    assert read_iceberg(lake) == LIFE[8][1] | {"c": LIFE[8][1]["c"]}


def test_a_table_that_iceberg_does_not_have_is_reported_and_not_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_features, "LARGE_TABLE", 1 << 20)
    lake = open_lake(tmp_path, "d.*")
    stream = Stream(lake)
    assert stream.send(create("t", 2), row("d", "t", 3, id="1"), create("u", 4)) == []
    assert read_iceberg(lake) == {"t": [1], "u": []}
    choose = shown_table.choose_columns

    def map_columns(state: TableState, *known: Any) -> Columns:
        # As Spark does for a column with a space in its name.
        if json.loads(state.schema)["fields"][1]["name"] == "v":
            state = dataclasses.replace(state, properties={"delta.columnMapping.mode": "name"})
        return choose(state, *known)

    monkeypatch.setattr(shown_table, "choose_columns", map_columns)
    (said,) = stream.send(ddl("d", "t", 12, "ALTER", "ALTER TABLE t ADD COLUMN v INT"))
    assert said.startswith("iceberg: d.t: it has no Iceberg table: it has Delta's column mapping")
    assert list_iceberg(lake) == ["d.u"]
    # Also where nothing of it changes.
    assert stream.send(row("d", "u", 22, id="5")) == []
    found = read_catalog_problems([lake.feed], lake.location.root, PatientCaller(60))
    assert found == {lake.feed.id: [said]}
    assert read_iceberg(lake) == {"u": [5]}
    assert stream.send(ddl("d", "t", 32, "ERASE", "DROP TABLE t"), create("t", 33)) == []
    assert read_iceberg(lake) == {"t": [], "u": [5]}
    assert read_iceberg_problems(lake.location) == []


def test_an_error_is_reported_and_the_next_run_goes_on(tmp_path: Path) -> None:
    lake = open_lake(tmp_path, "d.*")
    advance(lake, send(4))
    hint = Path(lake.path("iceberg/d.c/metadata/version-hint.text"))
    hint.write_text("77")
    (said,) = advance(lake, send(6)).applied.problems
    assert said.reason.startswith("iceberg/d.c is not at the last snapshot, and the next run tries")
    assert (said.database, said.table, said.data_may_differ) == ("d", "c", False)
    assert read_iceberg(lake, without="d.c") == {"a": [], "b": LIFE[5][1]["b"]}
    assert read_iceberg_problems(lake.location) == [said]
    # Without a hint, the newest version is found in the folder.
    hint.unlink()
    (hint.parent / "v1.metadata.json").rename(hint.parent / "v5.metadata.json")
    assert advance(lake, send(6)).applied.problems == []
    assert hint.read_text() == "6"
    assert read_iceberg(lake) == LIFE[5][1]
    assert read_iceberg_problems(lake.location) == []


def test_a_large_table_keeps_its_iceberg_table_through_changes_of_rows_and_columns(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_features, "LARGE_TABLE", -1)
    lake = open_lake(tmp_path, "d.*", spark=spark)
    stream = Stream(lake)
    sql = "CREATE TABLE t (id INT PRIMARY KEY, n SMALLINT, w VARCHAR(20))"

    def put(kind: str, ts: int, id: int, n: int, **texts: str) -> Message:
        values = {"id": str(id), "n": str(n), **texts}
        type = "smallint" if ts < 32 else "bigint"
        return change(kind, "d", "t", ts, values, {"n": "0"} if kind == "UPDATE" else None, n=type)

    inserts = [put("INSERT", 3, id, id, w="a") for id in range(400)]
    assert stream.send(ddl("d", "t", 2, "CREATE", sql), *inserts) == []
    expected = {id: (id, "a") for id in range(400)}
    truth = {9: dict(expected)}
    assert stream.send(put("UPDATE", 12, 7, 70, w="b"), put("DELETE", 13, 8, 8, w="a")) == []
    expected[7] = 70, "b"
    del expected[8]
    truth[19] = dict(expected)
    assert stream.send(put("DELETE", 22, 9, 9, w="a"), put("UPDATE", 23, 7, 71, w="c")) == []
    expected[7] = 71, "c"
    del expected[9]
    truth[29] = dict(expected)
    table = open_iceberg(lake, "d.t")
    summary = table.current_snapshot().summary
    assert int(summary["total-position-deletes"]) >= 3
    assert {ts: _by_id(rows, "w") for ts, rows in read_snapshots(table)} == truth
    # What takes column mapping and type widening elsewhere writes the table again here.
    altered = [
        ddl("d", "t", 32, "ALTER", "ALTER TABLE t MODIFY COLUMN n BIGINT"),
        ddl("d", "t", 33, "ALTER", "ALTER TABLE t RENAME COLUMN w TO y"),
    ]
    assert stream.send(*altered, put("UPDATE", 34, 7, 1 << 40, y="c")) == []
    expected[7] = 1 << 40, "c"
    table = open_iceberg(lake, "d.t")
    assert _by_id(table.scan().to_arrow(), "y") == expected
    assert int(table.current_snapshot().summary["total-position-deletes"]) == 0
    assert {ts: _by_id(rows, "w") for ts, rows in read_snapshots(table) if ts < 39} == truth


def _by_id(rows: Any, text: str) -> dict[int, tuple[int, str]]:
    return {row["id"]: (row["n"], row[text]) for row in rows.to_pylist()}


def test_old_snapshots_leave_with_the_files_that_only_they_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = open_lake(tmp_path, "d.*")
    for windows in (2, 3, 4):
        advance(lake, send(windows))
    folder = Path(lake.path("iceberg/d.c"))
    metadata = folder / "metadata" / "v2.metadata.json"
    content = json.loads(metadata.read_text())
    assert len(content["snapshots"]) == 2
    # The first one was made long ago.
    content["snapshots"][0]["timestamp-ms"] -= 8 * 24 * 3600 * 1000
    metadata.write_text(json.dumps(content))
    for path in folder.rglob("*.*"):
        os.utime(path, (0, 0))
    # What a catalog wrote of the table: one file is new, and the others as old as those above.
    written = Path(lake.path("iceberg-catalog/d.c"))
    written.mkdir(parents=True)
    for number in range(104):
        (written / f"{number:03}.metadata.json").touch()
        os.utime(written / f"{number:03}.metadata.json", (number, number))
    (written / "104.metadata.json").touch()
    assert len(open_iceberg(lake, "d.c").snapshots()) == 2
    maintain(lake, read_last_snapshot(lake))
    left_there = sorted(path.name for path in written.iterdir())
    assert left_there == [f"{number:03}.metadata.json" for number in range(4, 105)]
    table = open_iceberg(lake, "d.c")
    assert [snapshot.summary["ticdc.resolved_ts"] for snapshot in table.snapshots()] == ["39"]
    assert read_iceberg(lake) == LIFE[3][1]
    left = {path.name for path in folder.rglob("*.*")} - {"version-hint.text"}
    # The newest metadata, a manifest list, and what it names.
    assert {name for name in left if name.endswith(".json")} == {"v3.metadata.json"}
    assert len([name for name in left if name.startswith("snap-")]) == 1
    # Those of a busy table leave earlier.
    monkeypatch.setattr(iceberg_table, "_MOST_SNAPSHOTS", 1)
    for windows in (5, 6):
        advance(lake, send(windows))
    # The newest one, and that before it.
    assert len(open_iceberg(lake, "d.c").snapshots()) == 2
    assert read_iceberg(lake) == LIFE[5][1]
