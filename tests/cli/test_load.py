"""`load` makes tables of an export, and names what it leaves out."""

import json
from dataclasses import replace as replace_fields
from pathlib import Path

import pymysql
import pytest
from deltalake import DeltaTable
from msgspec.structs import replace

from tests.cli.conftest import Run
from tests.cli.test_mending import dump
from tests.dumpling.exporter import TSO, Exporter, format_metadata
from tests.lake.canal import row, watermark
from tests.mariadb_server import MariaDb
from tests.servers import HOST
from ticdc_assets.cli.load import format_progress
from ticdc_assets.cli.progress import Progress
from ticdc_assets.cli.texts import format_time
from ticdc_assets.events import Column, ColumnType, Index, TableSchema
from ticdc_assets.load.load import LoadProgress

SCHEMA = TableSchema(
    "d",
    "t",
    (Column("id", ColumnType("int"), nullable=False), Column("v", ColumnType("text"))),
    indexes=(Index("PRIMARY", ("id",), unique=True, primary=True),),
)

TO_COME = 1 << 60


def declare(tmp_path: Path) -> None:
    records = dump(tmp_path / "t.jsonl", [row("d", "t", TSO + 1, id="2"), watermark(TSO + 9)])
    uri = f"dump://{records}?protocol=canal-json&enable-tidb-extension=true"
    text = f'[[changefeed]]\nid = "f"\nsink-uri = "{uri}"\nstart-ts = {TSO}\n'
    Path("changefeeds.toml").write_text(text)


def test_a_load_replaces_a_partial_table_that_has_a_history_and_changes(
    here: object, run: Run, tmp_path: Path
) -> None:
    declare(tmp_path)
    with Path("changefeeds.toml").open("a") as file:
        file.write('history = ["d.*"]\nchanges = ["d.*"]\n')
    # The table is partial.
    assert run("advance")[0] in (0, 1)
    assert run("show", "d.t", "--format", "json")[1] == b'{"id":"2"}\n'
    snapshots = [("snapshot", "--into", "now"), ("snapshot", "--into", "then", "--at", TSO + 1)]
    assert [run(*words)[0] for words in snapshots * 2] == [0] * 4
    folder = tmp_path / "export"
    Exporter(folder).write({SCHEMA: [("1", "a")]})
    code, out, _ = run("load", folder, "--format", "json")
    loaded = json.loads(out)
    assert code == 0
    assert (loaded["table"], loaded["result"], loaded["rows"]) == ("d.t", "loaded", 1)
    assert (loaded["load_ts"], loaded["origin"]) == (TSO, str(folder))
    code, out, err = run("advance", "--format", "json")
    assert code == 0, err
    advanced = json.loads(out)
    # The table that ends there, and the one that begins.
    assert (advanced["resolved_ts"], advanced["tables_replayed"]) == (TSO + 9, 2)
    assert (advanced["input"], advanced["what"], advanced["problems"]) == (0, "records", [])
    # The lake has other rows of a ts that it had reached before.
    for words in snapshots:
        code, _, err = run(*words)
        assert code == 2
        assert err[-1].endswith("the lake has other rows of that ts since: choose another folder")
    shown = b'{"id":"1","v":"a"}\n{"id":"2","v":null}\n'
    assert run("show", "d.t", "--format", "json") == (0, shown, [])
    # No ts is that of a snapshot, and the table begins between the first two.
    assert run("show", "--at", f"{TSO},{TSO + 1},{TSO + 2}", "--out", "shown")[0] == 0
    # The lake begins with the load.
    code, _, err = run("show", "--at", TSO - (1 << 18), "--out", "shown")
    assert code == 2
    assert "is before everything in the lake" in err[-1]
    found = [Path(f"shown/{ts}/d/t.jsonl").read_bytes() for ts in (TSO + 1, TSO + 2)]
    assert found == [shown, shown]
    kept = [DeltaTable(str(log.parent)) for log in Path().rglob("changes/*/_delta_log")]
    operations = [table.to_pyarrow_table()["operation"].to_pylist() for table in kept]
    assert sorted(map(sorted, operations)) == [["insert"], ["insert", "load"]]
    code, out, _ = run("maintain", "--format", "json")
    assert (code, json.loads(out)["retain_days"]) == (0, 7)
    assert run("ledger")[0] == 0


def test_rows_of_an_export_come_first_and_changes_follow(
    here: object, run: Run, tmp_path: Path
) -> None:
    declare(tmp_path)
    folder = tmp_path / "export"
    Exporter(folder).write({SCHEMA: [("1", "a")]})
    (folder / "d.odd-schema.sql").write_text("CREATE TABLE `odd` (`a` frobnicate);")
    (folder / "notes.txt").touch()

    code, out, err = run("load", folder, "--table", "D.T")
    assert code == 0
    lines = out.decode().splitlines()
    assert lines[0].startswith(f"f: {folder} at {TSO}")
    assert [line.split() for line in lines[1:3]] == [
        ["table", "rows", "quarantined", "result"],
        ["d.t", "1", "0", "loaded"],
    ]
    assert [line for line in err if not line.startswith("load: ")] == [
        "skipped: notes.txt: not a file of Dumpling's"
    ]
    code, out, err = run("load", folder)
    assert code == 1
    assert "already loaded" in out.decode()
    assert any(line.startswith("failed: d.odd: ") for line in err)
    assert run("advance")[0] == 0
    code, out, _ = run("show", "d.t", "--format", "json")
    assert out == b'{"id":"1","v":"a"}\n{"id":"2","v":null}\n'

    # No event has the row of the load.
    when = f"{TSO}  {format_time(TSO)}"
    code, out, err = run("why", "d.t", "1")
    loaded = f"{when}  load    from {folder}"
    assert (code, out.decode().splitlines(), err) == (0, [loaded, "    id: 1", "    v: a"], [])
    code, out, err = run("why", "d.t", "v=a", "--format", "json")
    (line,) = map(json.loads, out.splitlines())
    assert (line["op"], line["origin"]) == ("load", str(folder))
    assert (line["commit_ts"], line["after"]) == (TSO, {"id": "1", "v": "a"})
    assert run("why", "d.t", "3")[0] == 2
    for log in Path().rglob("current/*/*-load-*/_delta_log"):
        for file in log.parent.glob("*.parquet"):
            file.unlink()
    code, out, _ = run("why", "d.t", "1")
    note = "maintenance has removed the files with its rows"
    assert (code, out.decode()) == (0, f"{loaded}  {note}\n")


def test_an_export_that_cannot_be_loaded_is_an_error_before_spark_starts(
    run: Run, tmp_path: Path
) -> None:
    declare(tmp_path)
    folder = tmp_path / "export"

    def fails_with(*words: object) -> str:
        code, out, (line,) = run("load", *words)
        assert (code, out) == (2, b"")
        return line

    assert "no such folder" in fails_with(folder)
    folder.mkdir()
    reason = "DIR: is no export of Dumpling's: it has no file of a table; expected DB.TABLE-schema"
    assert f"{folder}: {reason}" in fails_with(folder)
    (folder / "notes.txt").touch()
    assert "it has notes.txt; expected" in fails_with(folder)
    Exporter(folder).write({SCHEMA: []})
    assert "export without --no-data" in fails_with(folder)
    Exporter(folder).write({SCHEMA: [("1", "a")]})
    unknown = "--table: the export has no table d.tt; did you mean d.t?"
    assert unknown in fails_with(folder, "--table", "d.tt")
    for table in (replace(SCHEMA, database="x.y"), replace(SCHEMA, database="x", table="y.t")):
        Exporter(folder).write({table: [("1", "a")]})
    ambiguous = "--table: X.y.t may be `x.y`.`t` or `x`.`y.t`: omit --table"
    assert ambiguous in fails_with(folder, "--table", "X.y.t")
    assert "--time-zone: unknown time zone" in fails_with(folder, "--time-zone", "Mars/Base")
    assert "--csv-separator" in fails_with(folder, "--csv-separator", "")
    (folder / "metadata").write_text(format_metadata().partition("Finished")[0])
    assert "did not finish" in fails_with(folder)
    (folder / "metadata").write_text(format_metadata(TO_COME))
    line = fails_with(folder)
    assert f"{folder}/metadata: DIR: {TO_COME} is to come, at 2109-05-15 07:35:11 UTC" in line
    (folder / "metadata").unlink()
    assert "it has no metadata file" in fails_with(folder)
    assert "must be a folder or a bucket" in fails_with("kafka://h:1/t")


SST = "4_2_31b8_1764291003_write.sst"


@pytest.mark.parametrize(
    ("paths", "what"),
    [
        (["backup.lock", "backupmeta", f"1/{SST}"], "a backup of BR's"),
        # One that did not finish has no `backupmeta`, and of a log backup that is a folder.
        ([f"1/{SST}"], "a backup of BR's"),
        (["v1/backupmeta/063c2-6.meta", "v1/global_checkpoint/1.ts"], "a backup of BR's"),
        (["5a0f/000004.sst", "5a0f/MANIFEST-000001"], "a folder in which TiDB Lightning sorts"),
        (["5a0f/MANIFEST-000001", "5a0f/OPTIONS-000003"], "a folder in which TiDB Lightning sorts"),
    ],
)
def test_a_folder_of_another_tool_is_named_with_what_to_load_in_its_place(
    run: Run, tmp_path: Path, paths: list[str], what: str
) -> None:
    declare(tmp_path)
    folder = tmp_path / "backup"
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(b"x")
    code, out, (line,) = run("load", folder)
    assert (code, out) == (2, b"")
    assert f"{folder}: DIR: is {what}" in line
    assert "read the database with load --from-upstream, or export it with Dumpling" in line


@pytest.mark.parametrize(
    ("size", "seconds", "shown"),
    [
        (1 << 30, 60, "1.0 GB of 5.0 GB, 60 s, 4 min left"),
        (1 << 30, 10, "1.0 GB of 5.0 GB, 10 s, 40 s left"),
        (1 << 30, 3, "1.0 GB of 5.0 GB, 3 s"),
        (1 << 20, 60, "1.0 MB of 5.0 GB, 60 s"),
        (5 << 30, 60, "5.0 GB of 5.0 GB, 60 s"),
    ],
)
def test_progress_says_how_long_the_rest_takes_once_that_is_known(
    size: int, seconds: int, shown: str
) -> None:
    done = LoadProgress(tables=3, all_tables=12, rows=1000, bytes=size, all_bytes=5 << 30)

    assert format_progress(done, seconds) == f"load: 3 of 12 tables, 1,000 rows, {shown}"
    # TiDB without statistics estimates no size.
    unknown = format_progress(replace_fields(done, bytes=0, all_bytes=0), seconds)
    assert unknown == f"load: 3 of 12 tables, 1,000 rows, {seconds} s"


def test_the_last_line_of_progress_is_of_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ticdc_assets.cli.progress._SECONDS_BETWEEN_LINES", 0.0)
    progress = Progress()
    progress.show("1 of 3")
    monkeypatch.setattr("ticdc_assets.cli.progress._SECONDS_BETWEEN_LINES", 60.0)
    progress.show("2 of 3")
    progress.show("3 of 3")
    progress.end()
    # Where nothing was printed yet, nothing is needed.
    progress.show("quick")
    progress.end()
    assert capsys.readouterr().err == "1 of 3\n3 of 3\n"


@pytest.fixture
def database(mariadb: MariaDb) -> MariaDb:
    mariadb.run(
        "CREATE OR REPLACE DATABASE d CHARACTER SET utf8mb4",
        "CREATE TABLE d.t (id int NOT NULL PRIMARY KEY, v text)",
        "INSERT INTO d.t VALUES (1, 'a')",
        "CREATE VIEW d.w AS SELECT 1",
    )
    return mariadb


def declare_upstream(server: MariaDb) -> None:
    with Path("changefeeds.toml").open("a") as file:
        file.write(server.declared)


def test_rows_of_the_database_come_first_and_changes_follow(
    here: object, run: Run, tmp_path: Path, database: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(tmp_path)
    declare_upstream(database)

    monkeypatch.setattr("ticdc_assets.resources.upstream._LOCK_WAIT", 0)
    with pymysql.connect(host=HOST, port=database.port, user="root") as holder:
        holder.query("LOCK TABLES d.t WRITE")
        code, out, err = run("load", "--from-upstream", "--at", TSO, "--table", "D.T")
        assert code == 1
        assert any("failed: d.t: " in line and "another session locks" in line for line in err)
    code, out, err = run("load", "--from-upstream", "--at", TSO, "--table", "D.T")
    assert code == 0
    lines = out.decode().splitlines()
    assert lines[0].startswith(f"f: 127.0.0.1:{database.port} at {TSO}")
    assert lines[2].split() == ["d.t", "1", "0", "loaded"]
    assert "skipped: d.w: a view: it has no rows of its own" in err
    assert run("advance")[0] == 0
    assert run("show", "d.t", "--format", "json")[1] == (
        b'{"id":"1","v":"a"}\n{"id":"2","v":null}\n'
    )


def test_a_database_that_cannot_be_loaded_is_an_error_before_spark_starts(
    here: object, run: Run, tmp_path: Path, database: MariaDb
) -> None:
    declare(tmp_path)

    def fails_with(*words: object) -> str:
        code, out, (line,) = run("load", *words)
        assert (code, out) == (2, b"")
        return line

    assert "DIR: is missing: name an export, or give --from-upstream" in fails_with()
    assert "--from-upstream: is needed for --at" in fails_with("x", "--at", TSO)
    assert "--from-upstream: is needed for" in fails_with("x", "--max-connections", 2)
    undeclared = "changefeed f: declares no database upstream: add [changefeed.upstream]"
    assert undeclared in fails_with("--from-upstream")
    declare_upstream(database)
    assert "DIR: cannot be combined" in fails_with("x", "--from-upstream")
    assert "cannot be combined" in fails_with("--from-upstream", "--no-header")
    assert "--at: is missing: the server is not TiDB" in fails_with("--from-upstream")
    at = ("--from-upstream", "--at", TSO)
    assert "has no table d.none" in fails_with(*at, "--table", "d.none")
    database.run("CREATE TABLE d.`T` (id int NOT NULL PRIMARY KEY)")
    assert "D.T may be `d`.`T` or `d`.`t`" in fails_with(*at, "--table", "D.T")
    seconds = (TSO >> 18) // 1000
    assert f"{seconds} is no TSO but Unix" in fails_with("--from-upstream", "--at", seconds)
    assert f"--at: {TO_COME} is to come, at 2109" in fails_with("--from-upstream", "--at", TO_COME)
    assert "--table: d.w is a view: it has no rows" in fails_with(*at, "--table", "d.w")


def test_rows_without_a_commit_ts_are_an_error_before_anything_is_read(
    here: object, run: Run, tmp_path: Path
) -> None:
    uri = f"file://{tmp_path}/none?protocol=csv"
    text = f'[[changefeed]]\nid = "f"\nsink-uri = "{uri}"\n[changefeed.upstream]\n'
    Path("changefeeds.toml").write_text(f'{text}host = "127.0.0.1"\nport = 1\nuser = "u"\n')
    for source in ("--from-upstream", tmp_path / "none"):
        code, out, (line,) = run("load", source)
        assert (code, out) == (2, b"")
        assert "changefeed f: sink.csv.include-commit-ts: is not true" in line
        assert "create the changefeed anew, with include-commit-ts = true" in line
