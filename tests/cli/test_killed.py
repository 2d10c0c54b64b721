"""Commands killed with -9 at any moment and started again: as if they had never been killed."""

import json
from collections import Counter
from itertools import chain
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from tests.cli.conftest import Run, Shop
from tests.cli.kills import run_killed
from tests.cli.test_load import SCHEMA, declare, declare_upstream
from tests.cli.test_snapshot import read_exported
from tests.dumpling.exporter import TSO, Exporter, ExportOptions, Row
from tests.lake.copies import ITEMS, make_items, make_table, put_items, write_parquet
from tests.lake.upstream_copy import UpstreamCopy, read_schema
from tests.mariadb_server import MariaDb
from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.demo import SimulationOptions, encode_truth, prepare
from ticdc_assets.log.copy_progress import CopyProgress
from ticdc_assets.log.loads import read_loads
from ticdc_assets.rows.lines import format_blocks
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import StoredRows
from ticdc_assets.views.asof import as_of

_TABLES, _ROWS = 4, 300
ROWS = [(str(n), f"text {n}") for n in range(_ROWS)]


def make_export(folder: Path) -> list[object]:
    """Write an export; each table has a row that is none."""
    rows: list[Row] = [*ROWS, ("none", "bad")]
    tables = {replace(SCHEMA, table=f"t{n}"): rows for n in range(_TABLES)}
    Exporter(folder, ExportOptions("csv", rows_per_file=100)).write(tables)
    return [folder]


def fill_database(server: MariaDb) -> list[object]:
    """Write the same to a database, but for the rows that are none."""
    server.run("CREATE OR REPLACE DATABASE d CHARACTER SET utf8mb4")
    values = ", ".join(f"({id}, '{text}')" for id, text in ROWS)
    for number in range(_TABLES):
        ddl = f"CREATE TABLE t{number} (id int NOT NULL PRIMARY KEY, v text)"
        server.run("USE d", ddl, f"INSERT INTO t{number} VALUES {values}")
    declare_upstream(server)
    return ["--from-upstream", "--at", TSO]


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("source", ["export", "database"])
def test_a_load_that_is_killed_anywhere_is_finished_by_the_next(
    here: object, tmp_path: Path, seed: int, source: str, request: pytest.FixtureRequest
) -> None:
    declare(tmp_path)
    lake, is_export = tmp_path / "lake", source == "export"
    what = (
        make_export(tmp_path / "export")
        if is_export
        else fill_database(request.getfixturevalue("mariadb"))
    )
    lake.mkdir()
    command = ["load", *what, "--lake", lake]
    kills, code = run_killed(command, lake, Random(seed), kills=8, most_files=30)
    assert kills > 1
    # Rows in the quarantine make the exit code 1, unless all tables had been loaded before.
    assert code in ((0, 1) if is_export else (0,))

    reader = LakeReader(Lake(str(lake), "f"))
    loads = read_loads(reader)
    assert sorted(load.schema.table for load in loads) == [f"t{n}" for n in range(_TABLES)]
    assert {(load.rows, load.quarantined) for load in loads} == {(_ROWS, int(is_export))}
    for load in loads:
        stored = StoredRows(reader, f"current/{load.incarnation}", load.version)
        lines = chain.from_iterable(format_blocks(stored.read(), load.schema))
        found = Counter(tuple(json.loads(line).values()) for line in lines)
        assert found == Counter(ROWS)
    kept = reader.read(reader.open("quarantine"), ["table"])["table"].to_pylist()
    assert sorted(kept) == ([f"t{n}" for n in range(_TABLES)] if is_export else [])


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_a_snapshot_that_is_killed_anywhere_is_finished_by_the_next(
    shop: Shop, here: SparkSession, tmp_path: Path, seed: int
) -> None:
    folder, ts = tmp_path / "out", shop.simulation.checkpoints[1]
    folder.mkdir()
    command = ["snapshot", "--at", ts, "--into", folder, *shop.options]
    kills, code = run_killed(command, folder, Random(seed), kills=8, most_files=20)
    assert kills > 1
    assert code == 0
    (feed,) = load_changefeeds(shop.simulation.changefeeds).values()
    view = as_of(LakeSession(here, Lake(str(shop.root), feed.id), feed), ts)
    assert read_exported(folder, "delta", view) == encode_truth(shop.simulation.truth(ts))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("more", [(), ("--from-raw",)], ids=["from events", "from raw"])
def test_a_rebuild_that_is_killed_anywhere_is_finished_by_the_next(
    here: object, run: Run, tmp_path: Path, seed: int, more: tuple[str, ...]
) -> None:
    options = SimulationOptions(transactions=120, flush_every=40, seed=seed, replays=0.5)
    simulation, lake = prepare(tmp_path / "feed", options), tmp_path / "lake"
    *_, last = simulation
    given = ["--changefeeds", simulation.changefeeds, "--lake", lake]
    assert run("advance", *given)[0] == 0
    command = ["rebuild", "--all", *more, *given]
    kills, code = run_killed(command, lake, Random(seed), kills=8, most_files=12)
    assert kills > 1
    assert code == 0
    assert run("ledger", *given)[0] == 0
    assert run("show", "--out", tmp_path / "out", *given)[::2] == (0, [])
    written = (tmp_path / "out").rglob("*.jsonl")
    shown = {path.relative_to(tmp_path / "out").parts[1:]: path.read_bytes() for path in written}
    truth = encode_truth(simulation.truth(last.checkpoint))
    assert shown == {
        (database, f"{table}.jsonl"): b"".join(lines) for (database, table), lines in truth.items()
    }


def test_a_verification_that_is_killed_anywhere_is_finished_by_the_next(
    mariadb: MariaDb, tmp_path: Path
) -> None:
    names = [f"t{n}" for n in range(6)]
    copy = UpstreamCopy.make(None, tmp_path / "lake", mariadb)
    mariadb.run("CREATE OR REPLACE DATABASE killed CHARACTER SET utf8mb4", "USE killed")
    for name in names:
        ddl = f"CREATE TABLE {name} (id int NOT NULL PRIMARY KEY, title varchar(20))"
        rows = pa.table({"id": pa.array(range(1, 1001), pa.int32()), "title": ["one"] * 1000})
        copy.put_arrow(read_schema("killed", ddl), rows)
        fill = f"INSERT INTO {name} SELECT seq, IF(seq = 500, 'other', 'one') FROM seq_1_to_1000"
        mariadb.run("USE killed", ddl, fill)
    mariadb.run("USE killed", "DELETE FROM t3 WHERE id = 7", "UPDATE t4 SET title = 'one'")
    declared = mariadb.declare(tmp_path / "changefeeds.toml")
    command = ["verify", "--wait", 0, "--lake", tmp_path / "lake", "--changefeeds", declared]
    kills, code = run_killed(command, tmp_path / "lake", Random(1), kills=2, most_files=6)
    assert kills > 1
    assert code == 1
    reader = LakeReader(copy.lake.location)
    columns = ["verification", "table", "verdict", "run", "verified_at"]
    found = reader.read(reader.open("verifications"), columns).sort_by("verified_at").to_pylist()
    verdicts = {name: "equal" if name == "t4" else "differs" for name in names}
    differences = [(name, '{"id": "500"}', "differs") for name in names if name != "t4"]
    differences.append(("t3", '{"id": "7"}', "extra"))
    columns = ["verification", "table", "key", "what"]
    rows = reader.read(reader.open("differences"), columns).to_pylist()
    # A MariaDB may have changed since a run was killed: the next one begins anew.
    *killed, last = {row["run"]: None for row in found}
    for run in (*killed, last):
        of_run = {row["verification"]: row["table"] for row in found if row["run"] == run}
        tables = sorted(of_run.values())
        assert tables == names if run == last else set(tables) <= set(names)
        assert len(tables) == len(set(tables))
        assert all(row["verdict"] == verdicts[row["table"]] for row in found)
        stated = [(r["table"], r["key"], r["what"]) for r in rows if r["verification"] in of_run]
        assert sorted(stated) == sorted(each for each in differences if each[0] in tables)


def test_a_comparison_with_a_copy_that_is_killed_anywhere_is_finished_by_the_next(
    tmp_path: Path,
) -> None:
    lake = UpstreamCopy.make(None, tmp_path / "lake", None)  # type: ignore[arg-type]
    names = [f"t{n}" for n in range(6)]
    for name in names:
        put_items(lake, make_items(50), ddl=ITEMS.replace("items", name))
        rows = make_table(make_items(50, {} if name == "t4" else {7: "other"}))
        uri = write_parquet(tmp_path, "shop", name, rows)
    declared = tmp_path / "changefeeds.toml"
    declared.write_text('[[changefeed]]\nid = "f"\nsink-uri = "file:///nowhere?protocol=csv"\n')
    command = ["verify", "--against", uri, "--lake", tmp_path / "lake", "--changefeeds", declared]
    kills, code = run_killed(command, tmp_path / "lake", Random(2), kills=2, most_files=6)
    assert kills > 1
    assert code == 1
    reader = LakeReader(lake.lake.location)
    rows = reader.read(reader.open("verifications"), ["run", "table", "verdict"]).to_pylist()
    # Whatever was killed, it was one run, and each table has one result.
    assert len({row["run"] for row in rows}) == 1
    found = sorted((row["table"], row["verdict"]) for row in rows)
    assert found == [(name, "equal" if name == "t4" else "differs") for name in names]
    rows = reader.read(reader.open("differences"), ["table", "what", "key"]).to_pylist()
    stated = sorted((row["table"], row["what"], row["key"]) for row in rows)
    assert stated == [(name, "differs", '{"id": "7"}') for name in names if name != "t4"]
    assert CopyProgress(lake.lake.location).read() == (None, {})
