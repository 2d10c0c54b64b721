"""The README names nothing that is not there: commands, options, targets, variables, pictures.

That the commands do what it says of them is for the tests of each; here a command line must parse,
and the declaration it shows must be one.
"""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.cli.command_line import parser

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"(?m)^    (\S.*)$", README)
PHRASES = [" ".join(text.split()) for text in re.findall(r"`([^`]+)`", README)]
PROGRAM = re.compile(r"(?:\.venv/bin/)?ticdc-assets (.+)")
LINES = [found[1] for text in (*BLOCKS, *PHRASES) if (found := PROGRAM.fullmatch(text))]


@pytest.mark.parametrize("line", LINES)
def test_command_lines_parse(line: str) -> None:
    parser().parse_args(shlex.split(line))


def test_the_table_of_commands_names_commands() -> None:
    section = README.split("### The lake")[1].split("A table that cannot be kept")[0]
    named = re.findall(r"(?m)^\| `(.+?)` \|", section)
    assert len(named) >= 10
    for cell in named:
        for line in cell.split("`, `"):
            words = ["shop.orders" if w == "TABLE" else w for w in shlex.split(line)]
            parser().parse_args(words)


def test_targets_are_in_the_makefile() -> None:
    rules = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))
    named = {m[1] for text in (*BLOCKS, *PHRASES) if (m := re.fullmatch(r"make ([a-z-]+)", text))}
    assert {"demo", "dev", "setup", "test"} <= named <= rules


def test_variables_are_read_by_the_code() -> None:
    code = "".join(
        path.read_text()
        for room in ("ticdc_assets", "resources", "tests")
        for path in (ROOT / room).rglob("*.py")
        if path != Path(__file__)
    )
    named = {name.rstrip("_") for name in re.findall(r"TICDC_[A-Z_]+", README)}
    assert named
    assert [name for name in sorted(named) if name not in code] == []


def test_files_are_there() -> None:
    shown = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README)
    assert shown
    assert [path for path in shown if not (ROOT / path).is_file()] == []


def test_the_declaration_is_one(tmp_path: Path) -> None:
    shown = re.search(r"```toml\n(.+?)```", README, re.DOTALL)
    assert shown is not None
    assert tomllib.loads(shown[1])
    (tmp_path / "changefeeds.toml").write_text(shown[1])
    (tmp_path / "shop-changefeed.toml").write_text("")
    assert list(load_changefeeds(tmp_path / "changefeeds.toml")) == ["shop"]
