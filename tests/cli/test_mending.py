"""`advance` over a statement that nobody understands, and the ways to go on."""

import base64
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.lake.canal import change, ddl, row, watermark
from ticdc_assets.lake.apply import task_runs
from ticdc_assets.protocols.message import Message
from ticdc_assets.store import lock
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.lock import locked
from ticdc_assets.views import asof

ODD = "ALTER TABLE `d`.`t` FROBNICATE `id`"


def dump(path: Path, messages: list[Message]) -> Path:
    lines = []
    for offset, message in enumerate(messages):
        value = base64.b64encode(message.value or b"").decode()
        record = {"topic": "t", "partition": 0, "offset": offset, "value_b64": value}
        lines.append(json.dumps(record) + "\n")
    path.write_text("".join(lines))
    return path


def test_a_changefeed_that_has_written_nothing_yet_is_no_error(
    here: object, run: Run, tmp_path: Path
) -> None:
    sink = tmp_path / "sink"
    sink.mkdir()
    declared = f'[[changefeed]]\nid = "f"\nsink-uri = "file://{sink}?protocol=csv"\n'
    declared += 'server-version = "8.5.0"\n'
    Path("changefeeds.toml").write_text(declared)
    for resolved, said in ((None, b"nothing is resolved yet"), (1 << 40, b"applied up to 109951")):
        if resolved is not None:
            (sink / "metadata").write_text(f'{{"checkpoint-ts":{resolved}}}')
        code, out, err = run("advance")
        assert code == 0
        assert b"f: " + said in out
        # CSV without commit ts is said, and nothing else.
        assert [line.partition(":")[0] for line in err if "ingest" not in line] == ["note"]


# Length: one scenario, in which every part needs the runs before it.
@pytest.mark.slow
def test_a_table_that_stopped_at_a_statement_goes_on_without_it(
    here: object, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = "CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY)"
    messages = [
        ddl("d", "t", 5, "CREATE", create),
        row("d", "t", 6, id="1"),
        row("d", "other", 6, id="7"),
        ddl("d", "t", 7, "ALTER", ODD),
        row("d", "t", 8, id="2"),
        watermark(9),
    ]
    uri = f"dump://{dump(tmp_path / 'records', messages)}?protocol=canal-json"
    declared = f'[[changefeed]]\nid = "f"\nsink-uri = "{uri}&enable-tidb-extension=true"\n'
    Path("changefeeds.toml").write_text(declared)
    code, out, err = run("advance")
    assert code == 1
    assert any(line.startswith("paused: d.t, commit ts 7") and ODD in line for line in err)
    assert b"f: applied up to 9 " in out
    # A lake that is named by no option is ./lake.
    assert Path("lake", "f", "applied").is_dir()

    code, out, err = run("show", "d.t", "--format", "json")
    assert (code, out) == (1, b"")
    assert ODD in err[0]
    code, out, err = run("show", "d.other", "--format", "json")
    # Its CREATE was not sent.
    assert (code, out) == (0, b'{"id":"7"}\n')
    assert [line.partition(": the changefeed")[0] for line in err] == ["partial: d.other"]
    # Once, however many TSOs there are.
    code, _, err = run("show", "--at", "7,8,9", "--out", "shown")
    assert code == 1
    assert [line[:13] for line in err if "note" not in line] == [
        "partial: d.ot",
        "paused: d.t: ",
    ]
    _, out, _ = run("tables")
    assert "ticdc-assets resume d.t --skip-ddl" in out.decode()
    code, out, _ = run("ledger")
    assert code == 0
    assert "`d`.`t`" in out.decode()

    with locked(Lake(str(Path("lake").absolute()), "f"), "advance"), monkeypatch.context() as patch:
        patch.setattr(lock, "WAIT_TIMEOUT", 0.5)
        code, out, err = run("resume", "d.t", "--skip-ddl")
    assert (code, out) == (2, b"")
    assert err[0].endswith("is working on changefeed 'f'; waiting for it to finish")
    assert err[1].endswith("is working on changefeed 'f'")

    # Nothing was mended, so it stops where it stopped.
    code, out, err = run("resume", "d.t")
    assert code == 1
    assert any(ODD in line for line in err)
    code, out, err = run("resume", "d.t", "--skip-ddl")
    assert f"skipped at commit ts 7: {ODD}" in out.decode()
    assert b"d.t: live at 9" in out
    assert run("show", "d.t", "--format", "json") == (0, b'{"id":"1"}\n{"id":"2"}\n', [])
    assert run("ledger")[0] == 0

    # The statement may have emptied the table: a key that comes again is there once.
    dump(tmp_path / "records", [*messages, row("d", "t", 10, id="1"), watermark(12)])
    run("advance")
    assert run("show", "d.t", "--format", "json") == (0, b'{"id":"1"}\n{"id":"2"}\n', [])

    # Made anew, it is the same; the statement stays skipped.
    for words in (["d.t"], ["d.t", "D.T"], ["--all"]):
        assert b"d.t: live at 12" in run("rebuild", *words)[1]
    assert run("show", "d.t", "--format", "json")[1] == b'{"id":"1"}\n{"id":"2"}\n'
    assert run("ledger")[0] == 0


def test_what_spark_fails_at_is_a_line_and_how_to_go_on(
    here: object, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = tmp_path / "records"
    messages = [row("d", "t", 6, id="1"), watermark(9)]
    uri = f"dump://{dump(records, messages)}?protocol=canal-json"
    declared = f'[[changefeed]]\nid = "f"\nsink-uri = "{uri}&enable-tidb-extension=true"\n'
    Path("changefeeds.toml").write_text(declared)
    assert run("advance")[0] == 0
    dump(records, [*messages, change("DELETE", "d", "t", 12, {"id": "1"}), watermark(15)])
    # A file of the lake's own is lost to a disk.
    (file,) = Path("lake/f/current").glob("**/*.parquet")
    kept = file.read_bytes()
    file.write_bytes(b"\0" * len(kept))
    code, _, err = run("advance")
    assert (code, len(err)) == (2, 1)
    assert file.name in err[0]
    # Spark's workers do more work, and meet the same.
    with monkeypatch.context() as patch:
        patch.setattr(task_runs, "FEW_ROWS", 0)
        assert run("advance") == (code, b"", err)
    # Spark itself reads a large table for a snapshot.
    monkeypatch.setattr(asof, "_MOST_VALUES", 0)
    code, _, err = run("snapshot", "--into", tmp_path / "out", "--at", "9")
    assert code == 2
    assert len(err) == 2
    assert err[0].startswith("ticdc-assets: Spark failed: ")
    assert file.name in err[0]
    assert "run the command again" in err[1]
    with monkeypatch.context() as patch:
        patch.setenv("TICDC_SPARK_LOG", "error")
        with pytest.raises(Exception, match=file.name):
            run("snapshot", "--into", tmp_path / "out", "--at", "9")
    file.write_bytes(kept)
    assert run("advance")[0] == 0
    # The applied log is read without Spark.
    file = min(Path("lake/f/applied").glob("**/*.parquet"))
    kept = file.read_bytes()
    file.write_bytes(b"\0" * len(kept))
    for command in ("tables", "advance"):
        code, out, err = run(command)
        assert (code, out, len(err)) == (2, b"", 1)
        assert err[0].startswith(f"ticdc-assets: {Path('lake/f/applied').absolute()}")
        assert file.name in err[0]
    file.write_bytes(kept)
    assert run("tables")[0] == 0
