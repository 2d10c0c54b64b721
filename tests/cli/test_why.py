"""`why` against the shop's own truth, and what it says of every kind of event."""

import json
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.cli.conftest import Run, Shop
from tests.lake.canal import FEED, change, ddl, placed, row, watermark
from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.demo import encode_truth
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.names import LakeNames
from ticdc_assets.views.overview import read_schema_versions
from ticdc_assets.views.row_history import RowHistories

Row = dict[str, str | None]


def read_truth(shop: Shop) -> Iterator[tuple[int, str, list[Row]]]:
    """Yield every table at every checkpoint."""
    for ts in shop.simulation.checkpoints:
        for (database, table), lines in encode_truth(shop.simulation.truth(ts)).items():
            yield ts, f"{database}.{table}", [json.loads(line) for line in lines]


def test_the_events_of_a_row_end_in_what_the_shop_has(shop: Shop) -> None:
    """Every row of tables whose columns kept their names, at every checkpoint; gone rows too."""
    reader = LakeReader(Lake(str(shop.root), "shop"))
    (feed,) = load_changefeeds(shop.simulation.changefeeds).values()
    names = LakeNames.open(reader, feed)
    tables: dict[str, dict[int, dict[tuple[str | None, ...], Row]]] = {}
    keys: dict[str, tuple[str, ...]] = {}
    kept: dict[str, set[str]] = {}
    for ts, name, rows in read_truth(shop):
        versions = read_schema_versions(reader, name)
        if any(version.ends for version in versions):
            # A statement emptied it.
            continue
        keys[name] = versions[-1].schema.key
        # The values of others were converted since.
        kept[name] = {
            column.name
            for column in versions[-1].schema.columns
            if {v.schema.column(column.name) for v in versions} == {column}
        }
        tables.setdefault(name, {})[ts] = {tuple(r[c] for c in keys[name]): r for r in rows}
    rows_seen = gone = 0
    for name, by_ts in tables.items():
        histories = RowHistories.open(names, name)
        for key in sorted({key for rows in by_ts.values() for key in rows}, key=str)[:40]:
            wanted = dict(zip(keys[name], map(str, key), strict=True))
            assert histories.find_unsearched(wanted) == []
            events = histories.find(wanted)
            assert {event.status for event in events} <= {"", "repeated"}
            for ts, rows in by_ts.items():
                past = [e for e in events if e.change.commit_ts <= ts and not e.status]
                after = past[-1].after if past else None
                if after is not None and tuple(after[c] for c in keys[name]) != key:
                    # The row has another key since.
                    after = None
                right = rows.get(key)
                assert (after is None) == (right is None), (name, key, ts)
                rows_seen += right is not None
                gone += right is None and bool(past)
                if after is not None and right is not None:
                    same = after.keys() & right.keys() & kept[name]
                    assert {n: after[n] for n in same} == {n: right[n] for n in same}
    assert rows_seen > 100
    assert gone > 0


CREATE = "CREATE TABLE `{}` (`id` INT PRIMARY KEY, `v` VARCHAR(20), `e` ENUM('a','b'))"
FIRST = [
    ddl("d", "old", 10, "CREATE", CREATE.format("old")),
    change("INSERT", "d", "old", 11, {"id": "1", "v": "x", "e": "2"}, e="enum('a','b')"),
    row("d", "old", 12, id="2", v="1"),
    ddl("d", "new", 20, "RENAME", "RENAME TABLE `old` TO `new`"),
    # Another table of the old name.
    ddl("d", "old", 21, "CREATE", CREATE.format("old")),
    row("d", "old", 22, id="1", v="another table's"),
    change("UPDATE", "d", "new", 23, {"id": "1", "v": 'é"\\'}, {"v": "x"}),
    change("UPDATE", "d", "new", 24, {"id": "7", "v": 'é"\\'}, {"id": "1"}),
    row("d", "new", 25, id="1", v="again"),
    change("DELETE", "d", "new", 26, {"id": "1", "v": "again"}),
    ddl("d", "new", 27, "ALTER", "ALTER TABLE `new` RENAME COLUMN `v` TO `w`"),
    watermark(30),
]
SECOND = [
    FIRST[6],
    row("d", "new", 31, id="1", w="too long for varchar(20), by far"),
    change("INSERT", "d", "new", 32, {"id": "x", "w": "1"}),
    watermark(35),
    row("d", "new", 41, id="1", w="later"),
]


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    root = tmp_path_factory.mktemp("why")
    session = LakeSession(spark, Lake(str(root / "lake"), FEED.id), FEED)
    for sent in (FIRST, FIRST + SECOND):
        advance(session, RecordSource(lambda _, sent=tuple(sent): placed(sent)))
    declared = root / "changefeeds.toml"
    uri = "kafka://h:9092/t?protocol=canal-json&enable-tidb-extension=true"
    declared.write_text(f'[[changefeed]]\nid = "f"\nsink-uri = "{uri}"\n')
    return ("--changefeeds", declared, "--lake", root / "lake")


def test_every_event_of_a_row_is_there_with_what_became_of_it(
    lake: tuple[object, ...], run: Run
) -> None:
    code, out, err = run("why", "d.new", "1", "--format", "json", *lake)
    assert (code, err) == (0, [])
    found = [json.loads(line) for line in out.splitlines()]
    assert [(e["commit_ts"], e["op"], e.get("status")) for e in found] == [
        (11, "insert", None),
        (23, "update", None),
        (23, "update", "repeated"),
        (24, "update", None),
        (25, "insert", None),
        (26, "delete", None),
        (31, "insert", None),
        (41, "insert", "waiting"),
    ]
    assert found[0]["after"] == {"id": "1", "v": "x", "e": "b"}
    assert found[1]["after"]["v"] == 'é"\\'
    assert (found[0]["position"], found[2]["position"]) == ("t-0-1-0", "t-0-12-0")

    code, out, err = run("why", "d.new", "id=7", *lake)
    assert (code, err) == (0, [])
    assert out.decode().splitlines() == [
        "24  1970-01-01 00:00:00 UTC  update  t-0-7-0",
        "    id: 1 → 7",
        "27  1970-01-01 00:00:00 UTC  ddl     ALTER TABLE `new` RENAME COLUMN `v` TO `w`",
    ]
    # Events print values as `why` does, and as JSON lines as the stream states them.
    _, out, _ = run("events", "d.old", *lake)
    assert "insert  id=1, v=x, e=b" in out.decode()
    _, out, _ = run("events", "d.old", "--format", "json", *lake)
    rows = [event for event in map(json.loads, out.splitlines()) if "after" in event]
    assert rows[0]["after"] == {"id": "1", "v": "x", "e": "2"}
    # What cannot be applied is there with the reason.
    code, out, _ = run("why", "d.new", "id=x", "--format", "json", *lake)
    (quarantined,) = map(json.loads, out.splitlines())
    assert quarantined["status"].startswith("quarantined: ")


def test_other_columns_name_rows_too_and_what_is_not_searched_is_said(
    lake: tuple[object, ...], run: Run
) -> None:
    code, out, err = run("why", "d.old", "V=1", "--format", "json", *lake)
    # A column that the table no longer has names rows, too.
    assert b"again" in run("why", "d.new", "v=again", *lake)[1]
    note = "not searched: d.new from 27 (1970-01-01 00:00:00 UTC) on, which has no column v"
    assert (code, err) == (0, [note])
    assert [json.loads(line)["commit_ts"] for line in out.splitlines()] == [12]
    code, out, err = run("why", "d.new", "w=later", *lake)
    assert code == 0
    assert b"41" in out
    assert [line.split(",")[1] for line in err] == [" which has no column w"] * len(err)
    assert len(err) > 1
    for words, reason in (
        (("d.new", "id=99"), "no event of a row with id=99 in d.new"),
        (("d.new", "1", "2"), "KEY: must be id=VALUE, not '1'"),
        (("d.new", "nope=1", "id=1"), "KEY: d.new has no column 'nope'; it has id, w, e, v"),
        (("d.new", "iid=1"), "KEY: d.new has no column 'iid'; did you mean id?"),
        (("d.nothing", "1"), "no table d.nothing in the lake: the changefeed has sent nothing of"),
    ):
        code, out, err = run("why", *words, *lake)
        assert (code, out, len(err)) == (2, b"", 1), words
        assert reason in err[0]
