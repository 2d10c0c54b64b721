"""Loading an export: rows come into the lake as they were, and what is no row is quarantined."""

import json
import os
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
from deltalake import DeltaTable
from msgspec.structs import replace as replace_struct
from pyspark.sql import SparkSession

from tests.dumpling.exporter import TSO, Exporter, ExportOptions
from tests.dumpling.test_round_trip import DIALECTS, golden_tables
from tests.lake.canal import FEED, change, placed, row, watermark
from tests.lake.reading import read_lines
from tests.truth import Row, truth
from ticdc_assets.changefeed import Changefeed, Dispatcher
from ticdc_assets.dumpling.dialect import Dialect
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import Column, ColumnType, Index, TableSchema
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.lake.maintain import maintain
from ticdc_assets.load import load as load_module
from ticdc_assets.load import load_table, parts
from ticdc_assets.load.load import LoadProgress, TableResult, load_tables
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.log.loads import append_load, read_loads
from ticdc_assets.plan.load import Load
from ticdc_assets.resources.load_source import open_export
from ticdc_assets.rows.lines import format_blocks
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.small_tables import read_table
from ticdc_assets.store.stored_rows import StoredRows
from ticdc_assets.views.asof import as_of

# Types, zero dates, names that need quotes, and a table without a key.
GOLDEN = {"sql": ("t_bin", "t_int", "t_time", "t_enum", "Order"), "parquet": ("t_dec", "t_nopk")}


# TiCDC sends tables without a key, too.
ALL_TABLES = replace(FEED, force_replicate=True)


def open_lake(spark: SparkSession, root: Path, feed: Changefeed = FEED) -> LakeSession:
    return LakeSession(spark, Lake(str(root / "lake"), feed.id), feed)


def read_rows(lake: LakeSession, load: Load) -> list[Row]:
    stored = StoredRows(LakeReader(lake.location), f"current/{load.incarnation}", load.version)
    lines = chain.from_iterable(format_blocks(stored.read(), load.schema))
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_tables_come_into_the_lake(spark: SparkSession, tmp_path: Path, name: str) -> None:
    options = DIALECTS[name]
    chosen = GOLDEN[name]
    tables = {schema: rows for schema, rows in golden_tables() if schema.table in chosen}
    Exporter(tmp_path / "export", options).write(tables)
    lake = open_lake(spark, tmp_path, ALL_TABLES)

    results = load_tables(lake, open_export(str(tmp_path / "export"), options.dialect))

    assert [r for r in results if r.outcome != "loaded" or r.quarantined] == []
    points = truth("types")
    loads = {
        (load.schema.database, load.schema.table): load
        for load in read_loads(LakeReader(lake.location))
    }
    assert {table for _, table in loads} == set(chosen)
    for table, load in loads.items():
        true = points[max(points)][table]
        assert true.strict(read_rows(lake, load)) == true.strict_rows(), table
        assert load.rows == len(true.rows)


def test_what_a_changefeed_renames_is_not_loaded(tmp_path: Path) -> None:
    Exporter(tmp_path / "export").write({SCHEMA: []})
    feed = replace(FEED, dispatchers=(Dispatcher(("*.*",), renames=True),))
    lake = LakeSession(None, Lake(str(tmp_path / "lake"), feed.id), feed)
    with pytest.raises(ConfigError, match="other names"):
        load_tables(lake, open_export(str(tmp_path / "export"), Dialect()))
    assert not (tmp_path / "lake").exists()


SCHEMA = TableSchema(
    "d",
    "t",
    (
        Column("id", ColumnType("int"), nullable=False),
        Column("file", ColumnType("varchar", length=20)),
    ),
    indexes=(Index("PRIMARY", ("id",), unique=True, primary=True),),
)
# A date that is none, and bytes that are not UTF-8.
INEXACT = TableSchema(
    "d",
    "inexact",
    (
        Column("id", ColumnType("int"), nullable=False),
        Column("born", ColumnType("date")),
        Column("t", ColumnType("text")),
    ),
    indexes=(Index("PRIMARY", ("id",), unique=True, primary=True),),
)
GONE = replace_struct(SCHEMA, table="gone", columns=SCHEMA.columns[:1])
KEYLESS = TableSchema("d", "keyless", (Column("id", ColumnType("int")),))
HIDDEN = replace_struct(GONE, table="hidden")
BAD_BYTES = "caf\udce9\\"
INEXACT_ROWS = [("1", "2024-01-01", "x"), ("2", "0000-00-00", "y"), ("3", None, BAD_BYTES)]


class Killed(BaseException):
    """A run ends here."""


def write_export(folder: Path) -> None:
    """Tables to load, of which one has rows that are none; others, and a view."""
    exporter = Exporter(folder, ExportOptions("csv", rows_per_file=2))
    rows = [("1", "a"), ("x", "b"), ("3", "c"), ("4", None)]
    exporter.write({SCHEMA: rows, INEXACT: INEXACT_ROWS})
    with (folder / "d.t.000000001.csv").open("a") as file:
        file.write('5,"no end')
    more = {GONE: [("1",), ("2",)], KEYLESS: [("1",)], HIDDEN: [("1",)]}
    Exporter(folder, ExportOptions("csv", rows_per_file=1)).write(more)
    (folder / "d.odd-schema.sql").write_text("CREATE TABLE `odd` (`a` frobnicate);")
    (folder / "d.v-schema.sql").write_text("CREATE TABLE `v` (`a` int);")
    (folder / "d.v-schema-view.sql").write_text("CREATE VIEW `v` AS SELECT 1;")


def test_a_killed_load_is_done_again_and_changes_follow(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_export(tmp_path / "export")
    lake = open_lake(spark, tmp_path, replace(FEED, filter_rules=("*.*", "!d.hid*")))
    source = open_export(str(tmp_path / "export"), Dialect())
    (tmp_path / "export" / "d.gone.000000001.csv").unlink()

    def load() -> dict[str, tuple[str, int, int]]:
        results = load_tables(lake, source)
        return {r.name: (r.outcome, r.rows, r.quarantined) for r in results}

    def fail(lake: LakeSession, load: Load) -> Load | None:
        """Be killed between the rows of a table and its row in `loads`."""
        if load.schema.table == "t":
            raise Killed
        return append_load(lake, load)

    with monkeypatch.context() as patch:
        patch.setattr(load_module, "append_load", fail)
        with pytest.raises(Killed):
            load()
    assert [load.schema.table for load in read_loads(LakeReader(lake.location))] == ["inexact"]

    assert load() == {
        "d.gone": ("failed", 0, 0),
        "d.hidden": ("left out", 0, 0),
        "d.inexact": ("already loaded", 0, 0),
        "d.keyless": ("left out", 0, 0),
        "d.odd": ("failed", 0, 0),
        "d.t": ("loaded", 3, 2),
    }
    gone, odd, table = load_tables(lake, source, ["d.gone", "d.odd", "D.T"])
    assert gone.reason == "the file does not exist"
    assert "frobnicate" in (odd.reason or "")
    assert table.outcome == "already loaded"

    quarantined = read_table(lake, "quarantine").orderBy("source").collect()
    assert [
        (row["stage"], row["source"], row["number"], row["error"], row["raw"])
        for row in quarantined
    ] == [
        ("load", "d.t.000000000.csv", 20, "InvalidValue", b'{"id":"x","file":"b"}'),
        ("load", "d.t.000000001.csv", 26, "MalformedMessage", b'5,"no end'),
    ]
    assert {row["commit_ts"] for row in quarantined} == {TSO}
    loads = {load.schema.table: load for load in read_loads(LakeReader(lake.location))}
    assert read_rows(lake, loads["inexact"]) == [
        dict(zip(("id", "born", "t"), row, strict=True)) for row in INEXACT_ROWS
    ]

    assert advance_with_changes(lake) == [
        b'{"id":"1","file":"new"}\n',
        b'{"id":"4","file":null}\n',
        b'{"id":"9","file":"z"}\n',
    ]
    check_that_maintenance_removes_what_was_killed(lake)


def check_that_maintenance_removes_what_was_killed(lake: LakeSession) -> None:
    current = Path(lake.current_path("d.t-1-load-0123abcd")).parent
    tables = {Path(lake.current_path(id)) for id in read_last_snapshot(lake).versions}
    killed = list_lives(current) - tables
    assert any(life.parent == current for life in killed)
    for file in chain.from_iterable(life.rglob("*") for life in killed):
        os.utime(file, (0, 0))
    running = Path(lake.current_path("d.t-1-load-0123abcd"))
    running.joinpath("_delta_log").mkdir(parents=True)
    running.joinpath("_delta_log", "0.json").touch()
    maintain(lake, read_last_snapshot(lake), retain_days=7)
    assert list_lives(current) == {*tables, running}


def list_lives(address: Path) -> set[Path]:
    """List the folders of current tables, where one has an address."""
    found = address.parent.glob("*/*/_delta_log")
    return {log.parent for log in found}


# From before and after the export.
CHANGES = [
    row("d", "t", TSO - 5, id="3", file="part of the load"),
    change("UPDATE", "d", "t", TSO + 1, {"id": "1", "file": "new"}, {"file": "a"}),
    change("DELETE", "d", "t", TSO + 2, {"id": "3", "file": "c"}),
    row("d", "t", TSO + 3, id="9", file="z"),
    watermark(TSO + 9),
]


def advance_with_changes(lake: LakeSession) -> list[bytes]:
    """Apply the changes; return the rows of `d.t`."""
    done = advance(lake, RecordSource(lambda _: placed(CHANGES)))
    assert done.applied.problems == []
    shown = as_of(lake)
    tables = {table.schema.table: table for table in shown.tables()}
    return read_lines(lake, shown, tables["t"])


def test_tables_of_which_a_killed_load_quarantined_rows_are_loaded_side_by_side(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = {replace_struct(GONE, table=f"t{n}"): [("1",), ("none",)] for n in range(4)}
    Exporter(tmp_path / "export", ExportOptions("csv")).write(tables)
    lake = open_lake(spark, tmp_path)
    source = open_export(str(tmp_path / "export"), Dialect())
    everything = [(f"d.t{n}", "loaded", 1, 1) for n in range(4)]
    for _ in range(2):
        results = load_tables(lake, source)
        assert sorted((r.name, r.outcome, r.rows, r.quarantined) for r in results) == everything
        # As if it had been killed when all rows were written, and no load had taken effect.
        for commit in Path(lake.path("loads"), "_delta_log").glob("*[1-9].json"):
            commit.unlink()
    kept = read_table(lake, "quarantine").select("table").collect()
    assert sorted(row[0] for row in kept) == [f"t{n}" for n in range(4)]


@pytest.mark.parametrize("few", [True, False])
def test_a_table_in_several_portions_may_get_its_first_inexact_value_in_any(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: bool
) -> None:
    """A file is a portion here."""
    monkeypatch.setattr(parts, "_BYTES_PER_PORTION", 1)
    if not few:
        monkeypatch.setattr(load_table, "_FEW_BYTES", 0)
    options = ExportOptions("sql", rows_per_file=1, compression=".gz")
    Exporter(tmp_path / "export", options).write({INEXACT: INEXACT_ROWS})
    lake = open_lake(spark, tmp_path)
    seen: list[LoadProgress] = []

    load_tables(lake, open_export(str(tmp_path / "export"), Dialect()), show=seen.append)

    (load,) = read_loads(LakeReader(lake.location))
    rows = [dict(zip(("id", "born", "t"), row, strict=True)) for row in INEXACT_ROWS]
    assert sorted(read_rows(lake, load), key=str) == sorted(rows, key=str)
    assert load.rows == 3
    assert [progress.rows for progress in seen] == [1, 2, 3, 3]
    assert seen[-1].bytes == seen[-1].all_bytes
    assert seen[-1].tables == 1


def test_of_two_loads_of_a_table_that_run_together_the_first_to_end_counts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is a portion here: the second load begins and ends, and counts, between two."""
    monkeypatch.setattr(parts, "_BYTES_PER_PORTION", 1)
    rows = [("1", "a"), ("3", "c"), ("4", "d")]
    Exporter(tmp_path / "export", ExportOptions(rows_per_file=1)).write({SCHEMA: rows})
    lake = open_lake(spark, tmp_path)
    source = open_export(str(tmp_path / "export"), Dialect())
    expected = [
        b'{"id":"1","file":"new"}\n',
        b'{"id":"4","file":"d"}\n',
        b'{"id":"9","file":"z"}\n',
    ]
    others: list[TableResult] = []

    def load_meanwhile(progress: LoadProgress) -> None:
        if progress.rows == 1:
            others.extend(load_tables(lake, source))
            assert advance_with_changes(lake) == expected

    (result,) = load_tables(lake, source, show=load_meanwhile)

    assert others == [TableResult("d.t", "loaded", 3)]
    assert result == TableResult("d.t", "already loaded")
    (load,) = read_loads(LakeReader(lake.location))
    assert sorted(read_rows(lake, load), key=str) == [
        dict(zip(("id", "file"), row, strict=True)) for row in rows
    ]
    assert advance_with_changes(lake) == expected


def test_older_rows_of_a_load_that_maintenance_removed_are_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    Exporter(tmp_path / "export").write({SCHEMA: [("1", "a"), ("3", "c")]})
    lake = open_lake(spark, tmp_path)
    load_tables(lake, open_export(str(tmp_path / "export"), Dialect()))
    assert advance_with_changes(lake) == [
        b'{"id":"1","file":"new"}\n',
        b'{"id":"9","file":"z"}\n',
    ]
    (load,) = read_loads(LakeReader(lake.location))
    seen = as_of(lake, TSO + 1)
    before = list(seen.lines(seen.find("d.t")[0]))
    assert before == [b'{"id":"1","file":"new"}\n', b'{"id":"3","file":"c"}\n']

    # Maintenance never removes what a load wrote, though a day of no time needs the newest only.
    newest = read_last_snapshot(lake)
    assert load.version < newest.versions[load.incarnation]
    maintain(lake, newest, retain_days=0)
    seen = as_of(lake, TSO + 1)
    assert list(seen.lines(seen.find("d.t")[0])) == before

    table = DeltaTable(lake.current_path(load.incarnation))
    assert table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    seen = as_of(lake, TSO + 1)
    oldest = f"the oldest TSO that can be shown is {TSO + 9}"
    with pytest.raises(ConfigError, match=f"d.t began with a load.*{oldest}"):
        list(seen.lines(seen.find("d.t")[0]))

    # A change that comes this late concerns this table alone.
    late = [row("d", "t", TSO + 2, id="7", file="late"), row("d", "u", TSO + 11, id="1")]
    messages = [*CHANGES, *late, watermark(TSO + 12)]
    problems = advance(lake, RecordSource(lambda _: placed(messages))).applied.problems
    assert ["load the table again" in str(problem) for problem in problems] == [True]
    seen = as_of(lake)
    assert list(seen.lines(seen.find("d.u")[0])) == [b'{"id":"1"}\n']
    assert seen.find("d.t")[0].is_stopped
    Exporter(tmp_path / "newer").write({SCHEMA: [("1", "new"), ("7", "late")]}, tso=TSO + 11)
    load_tables(lake, open_export(str(tmp_path / "newer"), Dialect()))
    assert advance(lake, RecordSource(lambda _: placed(messages))).applied.problems == []
    seen = as_of(lake)
    lines = [b'{"id":"1","file":"new"}\n', b'{"id":"7","file":"late"}\n']
    assert list(seen.lines(seen.find("d.t")[0])) == lines
