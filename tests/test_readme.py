"""The documents name nothing that does not exist: commands, targets, variables, files, sections.

Whether a command does what a document says is for the tests of that command; here its command line
must parse, and the declaration that the README shows must load.
"""

import re
import shlex
import tomllib
from itertools import chain
from pathlib import Path

import pytest
import yaml

from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.cli.command_line import make_parser

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "examples/README.md"])
TEXTS = [path.read_text() for path in DOCUMENTS]
BLOCKS = [block for text in TEXTS for block in re.findall(r"(?m)^    (\S.*)$", text)]
PHRASES = [" ".join(phrase.split()) for text in TEXTS for phrase in re.findall(r"`([^`]+)`", text)]
PROGRAM = re.compile(r"(?:\.venv/bin/)?ticdc-assets (.+)")
LINES = sorted(
    {match[1] for text in (*BLOCKS, *PHRASES) if (match := PROGRAM.fullmatch(text))}
    - {"--help", "--version"}  # end the parser
)


@pytest.mark.parametrize("line", LINES)
def test_command_lines_parse(line: str) -> None:
    words = [
        {"TABLE": "shop.orders", "TSO": "447984124732375041", "<name>": "simple"}.get(w, w)
        for w in shlex.split(line)
    ]
    make_parser().parse_args(words)


def test_the_table_of_commands_names_commands() -> None:
    section = OPERATIONS.split("These work on the lake:")[1].split("| exit code |")[0]
    named = re.findall(r"(?m)^\| `(.+?)` \|", section)
    assert len(named) >= 10
    for cell in named:
        for line in cell.split("`, `"):
            words = ["shop.orders" if w == "TABLE" else w for w in shlex.split(line)]
            make_parser().parse_args(words)


def test_targets_are_in_the_makefile() -> None:
    rules = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))
    named = {m[1] for text in (*BLOCKS, *PHRASES) if (m := re.fullmatch(r"make ([a-z-]+)", text))}
    assert {"demo", "dev", "setup", "test"} <= named <= rules


def test_variables_are_read_by_the_code() -> None:
    code = "".join(
        path.read_text()
        for room in ("ticdc_assets", "tests")
        for path in (ROOT / room).rglob("*.py")
        if path != Path(__file__)
    )
    named = {name.rstrip("_") for text in TEXTS for name in re.findall(r"TICDC_[A-Z_]+", text)}
    assert named
    assert [name for name in sorted(named) if name not in code] == []


def test_the_architecture_says_what_every_dependency_is_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = chain.from_iterable(project["optional-dependencies"].values())
    names = {re.split(r"[^\w-]", text)[0] for text in (*project["dependencies"], *extras)}
    names.remove(project["name"])
    text = (ROOT / "docs" / "architecture.md").read_text()
    table = text.split("## What each dependency does")[1].split("\n## ")[0]
    described = {name for row in re.findall(r"(?m)^\| (.+?) \|", table) for name in row.split(", ")}
    assert described >= {f"`{name}`" for name in names}


def test_hooks_need_no_network() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repo["repo"] for repo in hooks] == ["local"]
    entries = [hook["entry"] for repo in hooks for hook in repo["hooks"]]
    assert entries
    assert all(entry.startswith(".venv/bin/python -") for entry in entries)


def test_files_are_there() -> None:
    shown = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README)
    assert shown
    assert [path for path in shown if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_and_sections(document: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)]+)\)", document.read_text()):
        path, _, section = link.partition("#")
        if "://" in path:
            continue
        target = (document.parent / path) if path else document
        if not target.exists() or (section and section not in anchors(target)):
            broken.append(link)
    assert broken == []


def anchors(document: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a document."""
    headings = re.findall(r"(?m)^#+ (.+)$", document.read_text())
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_paths_in_the_documents_exist(document: Path) -> None:
    phrases = re.findall(r"`([^`\s]+)`", document.read_text())
    roots = ("ticdc_assets/", "resources/", "tests/", "bench/", "docs/", "examples/")
    named = [
        phrase for phrase in phrases if phrase.startswith(roots) and not set(phrase) & set("<*…")
    ]
    # A test is named by its file and its function.
    assert [path for path in named if not (ROOT / path.partition("::")[0]).exists()] == []


def test_the_declaration_is_one(tmp_path: Path) -> None:
    shown = re.search(r"```toml\n(.+?)```", README, re.DOTALL)
    assert shown is not None
    assert tomllib.loads(shown[1])
    (tmp_path / "changefeeds.toml").write_text(shown[1])
    (tmp_path / "shop-changefeed.toml").write_text("")
    assert list(load_changefeeds(tmp_path / "changefeeds.toml")) == ["shop"]
