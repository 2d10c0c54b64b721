"""Dates that are none, and texts that are not UTF-8, are in current tables as they are upstream."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession

from tests.lake.history_lake import HistoryLake
from tests.lake.reading import read_lines
from tests.lake.test_old_rows import FEED
from tests.reference.changefeeds import Ddl, Step, Teller, cut, edit, exchange, put
from ticdc_assets.events import Event, Op, RowChange
from ticdc_assets.lake.apply import table_features
from ticdc_assets.lake.apply.apply import DecodedBatches, apply
from ticdc_assets.lake.apply.current_table import CurrentTable
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.reference.model import Model
from ticdc_assets.reference.row_lines import encode_rows
from ticdc_assets.rows.columns import INEXACT
from ticdc_assets.store.small_tables import read_table
from ticdc_assets.views.asof import as_of

ZERO, PARTIAL, IMPOSSIBLE = "0000-00-00", "2024-00-10", "2024-02-31"
E9, FF = "caf\udce9", "caf\udcff"
BY_DAY = """PARTITION BY RANGE COLUMNS (day) (PARTITION old VALUES LESS THAN ('2000-01-01'),
    PARTITION new VALUES LESS THAN (MAXVALUE))"""
PARTITIONED = f"(id int, day date, primary key (id, day)) {BY_DAY}"

BEFORE: list[Step] = [
    Ddl("CREATE TABLE `exact` (id int primary key, day date, s varchar(20))", "exact"),
    put("exact", id=1, day="2024-01-01", s="x\\xe9"),
    Ddl("CREATE TABLE `copies` (v int, day date)", "copies"),
    put("copies", v=1, day="2024-01-01"),
    Ddl("CREATE TABLE `days` (day date primary key, v int)", "days"),
    put("days", day="2024-01-01", v=1),
    Ddl("CREATE TABLE `unique` (day date, v int, unique key (day))", "unique"),
    Ddl("CREATE TABLE `moved` (id int primary key, a date, b date, c varchar(20), v int)", "moved"),
    Ddl("CREATE TABLE `converted` (id int primary key, day date, s varchar(20))", "converted"),
    put("converted", id=9, day="2024-01-01", s="x"),
    Ddl(f"CREATE TABLE `emptied` {PARTITIONED}", "emptied"),
    put("emptied", id=1, day="1999-01-01"),
    Ddl(f"CREATE TABLE `giver` {PARTITIONED}", "giver"),
    Ddl("CREATE TABLE `taker` (id int, Day date, primary key (id, Day))", "taker"),
    put("giver", id=1, day="1999-01-01"),
    put("giver", id=2, day="2024-01-01"),
]
FIRST: list[Step] = [
    put("exact", id=2, day="2024-01-02", s="\\udce9"),
    # Of rows that differ in such a value only, one goes and another changes below.
    put("copies", v=1, day=ZERO),
    put("copies", v=1, day=PARTIAL),
    put("copies", v=1, day=PARTIAL),
    put("copies", v=1, day=None),
    put("days", day=ZERO, v=2),
    put("days", day=PARTIAL, v=3),
    Ddl("CREATE TABLE `names` (s varchar(20) primary key, v int)", "names"),
    *(put("names", s=s, v=1) for s in (E9, FF, "caf?", "caf\\xe9", "café")),
    put("unique", day=ZERO, v=1),
    put("unique", day=PARTIAL, v=1),
    put("moved", id=1, a=ZERO, b=PARTIAL, c=E9 + "\\", v=1),
    put("moved", id=2, a=None, b=IMPOSSIBLE, c="x", v=1),
    put("converted", id=1, day=ZERO, s=FF),
    put("emptied", id=2, day=PARTIAL),
    put("taker", id=3, Day=ZERO),
]
THEN: list[Step] = [
    edit("exact", {"id": 1, "day": "2024-01-01", "s": "x\\xe9"}, s="y"),
    cut("copies", v=1, day=PARTIAL),
    edit("copies", {"v": 1, "day": ZERO}, day=IMPOSSIBLE),
    edit("days", {"day": ZERO, "v": 2}, day="2024-11-00"),
    cut("days", day=PARTIAL, v=3),
    put("days", day=ZERO, v=4),
    edit("names", {"s": E9, "v": 1}, v=2),
    cut("names", s=FF, v=1),
    edit("names", {"s": "caf?", "v": 1}, s="\ud800"),
    edit("unique", {"day": ZERO, "v": 1}, v=7),
    Ddl(
        "ALTER TABLE `moved` RENAME COLUMN a TO d, RENAME COLUMN b TO a",
        "moved",
        now="id int primary key, d date, a date, c varchar(20), v int",
    ),
    edit("moved", {"id": 1, "d": ZERO, "a": PARTIAL, "c": E9 + "\\", "v": 1}, d="2024-01-01"),
    Ddl("ALTER TABLE `moved` DROP COLUMN c", "moved"),
    Ddl("ALTER TABLE `converted` MODIFY day datetime(3), MODIFY s varbinary(20)", "converted"),
    Ddl("ALTER TABLE `converted` ADD COLUMN since date NOT NULL DEFAULT '0000-00-00'", "converted"),
    Ddl("ALTER TABLE `emptied` TRUNCATE PARTITION new", "emptied"),
    exchange("giver", "old", "taker"),
]

# The tables that keep inexact values after each window.
SECOND = {"copies", "days", "names", "unique", "moved", "converted", "emptied", "taker"}
HAVE_MAP = [set(), SECOND, SECOND | {"giver"}]


def without_old_row(event: Event) -> Event:
    if isinstance(event, RowChange) and event.table == "unique" and event.op is Op.UPDATE:
        return replace(event, before=None)
    return event


def shown(lake: HistoryLake, ts: int) -> dict[str, list[bytes]]:
    seen = as_of(lake.lake, ts)
    return {
        table.schema.table: sorted(read_lines(lake.lake, seen, table)) for table in seen.tables()
    }


def in_model(model: Model) -> dict[str, list[bytes]]:
    assert all(table.pause_reason is None for table in model.tables)
    return {table.schema.table: sorted(encode_rows(table)) for table in model.tables}


def current_tables(lake: HistoryLake) -> dict[str, DataFrame]:
    snapshot = read_last_snapshot(lake.lake)
    return {
        snapshot.state.incarnations[id].schema.table: CurrentTable(lake.lake, id).rows(version)
        for id, version in snapshot.versions.items()
    }


@pytest.mark.parametrize("large", [False, pytest.param(True, marks=pytest.mark.all_golden)])
def test_every_value_is_in_the_lake_as_in_the_model(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    monkeypatch.setattr(table_features, "LARGE_TABLE", -1 if large else 1 << 20)
    teller = Teller("canal")
    windows = [list(map(without_old_row, teller.tell(steps))) for steps in (BEFORE, FIRST, THEN)]
    lake, model = HistoryLake(spark, tmp_path, (), FEED), Model()

    for batch, events in enumerate(windows, 1):
        ts = events[-1].commit_ts
        lake.take(batch, events, ts)
        done = apply(lake.lake, read_last_snapshot(lake.lake), DecodedBatches(batch, batch))
        model.add(events)
        model.advance(ts)
        assert (done.problems, done.quarantined) == ([], 0)
        assert shown(lake, ts) == in_model(model)
        has_map = {name for name, rows in current_tables(lake).items() if INEXACT in rows.columns}
        assert has_map == HAVE_MAP[batch - 1]
    assert "0000-00-00 00:00:00.000" in str(shown(lake, ts)["converted"])
    names = current_tables(lake)["names"].where("v = 2").select("s", INEXACT).collect()
    assert [tuple(row) for row in names] == [("caf?", {"s": r"caf\xe9"})]
    # Between two snapshots the same is computed, not read.
    between = windows[2][-3].commit_ts
    earlier = Model()
    for events in windows:
        earlier.add(events)
    earlier.advance(between)
    assert shown(lake, between) == in_model(earlier)
    counts = {
        count["name"]: count["inexact"]
        for row in read_table(lake.lake, "applied").where("snapshot_id = 2").collect()
        for count in row["counts"]
    }
    assert (counts["`shop`.`copies`"], counts["`shop`.`moved`"]) == (3, 4)
