"""Hostile names on a terminal: a command prints them as text."""

import json
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.inputs import canal_row, canal_watermark, dump_of
from tests.hostile_names import NAMES
from ticdc_assets.cli.output import say, warn, write_data
from ticdc_assets.cli.show import format_paths, format_tables, make_table
from ticdc_assets.events import FilePosition
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.safe_text import escape_control
from ticdc_assets.store.lake import Lake
from ticdc_assets.stream.problem import Problem
from ticdc_assets.views.overview import TableOverview


@pytest.mark.parametrize("name", NAMES)
def test_lines_for_people_are_printable(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    say(name)
    warn(name)
    printed = capsys.readouterr()
    assert printed.out == printed.err == escape_control(name) + "\n"


class Terminal(TextIOWrapper):
    def isatty(self) -> bool:
        return True


def test_data_is_escaped_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [name for name in NAMES if name.isprintable() or name != "\ud800"]
    lines = [json.dumps({name: name}, ensure_ascii=False).encode() + b"\n" for name in names]
    for make in (TextIOWrapper, Terminal):
        buffer = BytesIO()
        monkeypatch.setattr(sys, "stdout", make(buffer, encoding="utf-8"))
        write_data(lines)
        if make is TextIOWrapper:
            assert buffer.getvalue() == b"".join(lines)
        printed = buffer.getvalue().decode().split("\n")[:-1]
        assert [json.loads(line) for line in printed] == [{name: name} for name in names]
    assert all(line.isprintable() for line in printed)


@pytest.mark.parametrize("name", NAMES)
def test_problems_and_tables_are_printable(name: str) -> None:
    problem = Problem("paused", name, name, name, 1, FilePosition(name))
    assert problem.describe().isprintable()
    line = TableOverview(name, name, "live", None, 1, 1, 1, "t0")
    table = make_table(Lake("/lake", "shop"), Snapshot(versions={"t0": 1}), line, {})
    assert all(text.isprintable() for text in (*format_tables([table]), *format_paths([table])))


def test_a_command_prints_hostile_tables(run: Run, tmp_path: Path) -> None:
    rows = [canal_row(name, name, 5, mysqlType={"id": "no type"}) for name in NAMES[:-3]]
    uri = dump_of(tmp_path, *rows, canal_watermark(9))
    code, _, err = run("replay", "--sink-uri", uri, "--out", tmp_path / "out")
    assert code == 1
    assert len(err) >= len(rows) - 1
    assert all(line.isprintable() for line in err)
    outside = [path for path in tmp_path.rglob("*") if path.is_file() and "out" not in path.parts]
    assert [path.name for path in outside] == ["kcat.jsonl"]
