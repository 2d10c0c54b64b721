"""`--log json`: what a command says about its run, as objects that have the id of the run."""

import json
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.cli.conftest import Run
from tests.cli.inputs import canal_row, canal_watermark, dump_of
from tests.hostile_names import NAMES
from ticdc_assets.cli import lake as command
from ticdc_assets.cli import output
from ticdc_assets.cli.progress import Progress
from ticdc_assets.log.applied_files import read_existing_snapshot
from ticdc_assets.store.commits import decode_metadata
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.last_run import read_last_run
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.run_id import find_run_id, running_as


def declare(tmp_path: Path) -> Path:
    """Declare a changefeed of hostile tables, of which some cannot be applied."""
    rows = [canal_row("d", name, 5) for name in NAMES[:-3] if name != "\ud800"]
    rows += [canal_row("d", name, 6, mysqlType={"id": "no type"}) for name in NAMES[:3]]
    uri = dump_of(tmp_path, *rows, canal_watermark(9))
    file = tmp_path / "changefeeds.toml"
    file.write_text(f'[[changefeed]]\nid = "a"\nsink-uri = "{uri}"\n')
    return file


def read(err: list[str]) -> list[dict[str, Any]]:
    """Read a log: all objects are of one run."""
    found = [json.loads(line) for line in err]
    for entry in found:
        assert list(entry)[:5] == ["time", "level", "run_id", "changefeed", "message"]
        assert abs((datetime.now(UTC) - datetime.fromisoformat(entry["time"])).seconds) < 300
        assert entry["level"] in ("info", "warning", "error")
        assert entry["run_id"] == found[0]["run_id"]
    assert uuid.UUID(found[0]["run_id"])
    return found


def test_a_run_has_one_id_everywhere(run: Run, tmp_path: Path) -> None:
    options = ("--changefeeds", declare(tmp_path), "--lake", tmp_path / "lake")
    code, out, err = run("advance", *options, "--log", "json", "--format", "json")
    log = read(err)
    first, last = log[0], log[-1]
    assert (first["message"], first["command"]) == ("advance begins", "advance")
    assert (last["command"], last["exit_code"]) == ("advance", code)
    assert {entry["changefeed"] for entry in log} == {"a"}
    done = json.loads(out)
    [window] = [entry for entry in log if "rows_applied" in entry]
    for name in ("resolved_ts", "input", "input_bytes", "row_changes", "rows_applied"):
        assert window[name] == done[name] != 0
    assert window["quarantined"] == done["input_quarantined"] + done["rows_quarantined"]
    problems = [entry for entry in log if "kind" in entry]
    assert [entry["kind"] for entry in problems] == [p["kind"] for p in done["problems"]]
    assert [entry.get("table") for entry in problems] == [p["table"] for p in done["problems"]]
    assert {entry["level"] for entry in problems} == {"warning"}
    lake = Lake(str(tmp_path / "lake"), "a")
    ended = read_last_run(lake)
    assert ended is not None
    assert ended.run_id == first["run_id"]
    current = [f"current/{id}" for id in read_existing_snapshot(LakeReader(lake)).versions]
    assert current
    for table in ("raw", "events", "applied", *current):
        newest = DeltaTable(lake.path(table)).history(1)[0]
        assert decode_metadata(newest["userMetadata"])["run_id"] == first["run_id"]
    code, out, _ = run("status", *options, "--format", "json")
    assert json.loads(out)["last_run"]["run_id"] == first["run_id"]
    # The next run has another one; text is as it was.
    code, _, err = run("advance", *options)
    assert "advance begins" not in " ".join(err)
    assert not any(line.startswith("{") for line in err)
    assert find_run_id() is None
    again = read_last_run(lake)
    assert again is not None
    assert again.run_id != first["run_id"]


def test_errors_are_objects_too(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = ("--lake", tmp_path / "lake", "--log", "json")
    code, _, err = run("maintain", *lake)
    *_, error, last = read(err)
    assert (code, error["level"], error["changefeed"]) == (2, "error", None)
    assert "changefeeds.toml" in error["message"]
    assert last["exit_code"] == 2

    def fail(*_: object, **__: object) -> None:
        raise ValueError("password=S3CRET\nand more")

    monkeypatch.setattr(command, "advance_lake", fail)
    code, out, err = run("advance", "--changefeeds", declare(tmp_path), *lake)
    *_, error, last = read(err)
    assert (code, out, last["exit_code"], error["level"]) == (1, b"", 1, "error")
    assert "ValueError" in error["message"]
    assert "in fail" in error["traceback"]
    assert "S3CRET" not in " ".join(err)


def test_progress_is_an_object_per_ten_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a terminal, too: no live line is among the objects.
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with output.log_in_json(run_id=str(uuid.uuid4()), changefeed="a"):
        progress = Progress()
        progress("apply", 1, 9)
        assert capsys.readouterr().err == ""
        progress._last_line -= 11
        progress("apply", 2, 9)
        progress("apply", 3, 9)
        progress.end()
        found = read(capsys.readouterr().err.splitlines())
    assert [(entry["stage"], entry["done"], entry["total"]) for entry in found] == [
        ("apply", 2, 9),
        ("apply", 3, 9),
    ]
    assert found[0]["message"].startswith("apply: 2 of 9 tables")
    assert {entry["level"] for entry in found} == {"info"}


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with output.log_in_json(run_id=str(uuid.uuid4()), changefeed=name):
        output.warn(name, table=name)
    [entry] = read(capsys.readouterr().err.removesuffix("\n").split("\n"))
    assert entry["message"] == entry["changefeed"] == entry["table"] == name


def test_jobs_of_spark_have_the_id(spark: SparkSession, tmp_path: Path) -> None:
    with running_as("3f2a") as id:
        lake = LakeSession(lambda: spark, Lake(str(tmp_path), "a"), None)
        try:
            assert lake.spark.range(3).selectExpr("sum(id)").collect() == [(3,)]
            jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
            # Spark puts the session and the thread before it.
            assert jobs.apply(0).jobTags().mkString("", " ", " ").count(f"-ticdc-run-{id} ") == 1
        finally:
            spark.removeTag(f"ticdc-run-{id}")
