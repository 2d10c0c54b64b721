"""A run says what it quarantines, and why; afterwards `tables`, `advance` and `quarantine` do."""

from pathlib import Path

from tests.cli.conftest import Run
from tests.cli.test_mending import dump
from tests.lake.canal import ddl, row, watermark
from ticdc_assets.protocols.message import Message


def test_what_is_quarantined_is_said_with_the_reason(
    here: object, run: Run, tmp_path: Path
) -> None:
    messages = [
        ddl("d", "t", 5, "CREATE", "CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY)"),
        Message("t", 0, 1, None, b"{"),
        row("d", "t", 6, id="x"),
        row("d", "t", 7, id="x"),
        row("d", "t", 8, id="3"),
        watermark(9),
    ]
    uri = f"dump://{dump(tmp_path / 'records', messages)}?protocol=canal-json"
    declared = f'[[changefeed]]\nid = "f"\nsink-uri = "{uri}&enable-tidb-extension=true"\n'
    Path("changefeeds.toml").write_text(declared)
    row_fault = "quarantined: d.t, commit ts 6, t-0-2-0: column 'id': 'x' is not a int (and 1 more)"
    input_fault = "quarantined: t-0-1-0: "
    note = "3 inputs and rows in the quarantine, which tables may lack: see ticdc-assets quarantine"
    code, out, err = run("advance")
    assert code == 1
    assert err.count(row_fault) == 1
    assert [line.startswith(input_fault) for line in err].count(True) == 1
    assert err[-1] == note

    # Nothing new is wrong, and the tables lack it still.
    code, _, err = run("advance")
    assert (code, err) == (0, [note])
    code, out, err = run("tables")
    assert (code, err) == (0, [note])

    code, out, err = run("quarantine")
    head, first, second = out.decode().splitlines()
    assert (code, err) == (0, [])
    assert head == "3 inputs and rows in the quarantine, for 2 reasons"
    assert first == row_fault
    assert second.startswith(input_fault)
    assert run("quarantine", "--limit", "1")[1].decode().splitlines() == [head, row_fault]
    assert run("quarantine", "D.T")[1].decode().splitlines()[1:] == [row_fault]
    code, out, (line,) = run("quarantine", "d.other")
    assert (code, out) == (2, b"")
    assert "no table d.other in the lake" in line
