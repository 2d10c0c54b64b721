"""docs/glossary.md is true: its terms are in use, and no word that it retired is in use."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
# Words that had a meaning of this project's own, or several.  They are matched as whole words in
# any case; identifiers are split into their words first.
RETIRED = re.compile(
    r"""\b(
        asked | balanced | books | compiling | condensed? | doubt(ed)? | heard
        | (un)?honou?r(ed|able)? | looked | pictures? | refuse[ds]? | reject(ed|s)? | scene
        | settled? | strayed | told
        | due(?!\ to\b) | carr(y|ies|ied|ying)\ out | ts\ kind
    )\b""",
    re.VERBOSE,
)
SUFFIXES = {".md", ".py", ".toml", ".xml", ".yaml", ".yml", ".properties", ""}
PLACES = [
    *("ticdc_assets", "bench", "tests", "docs", "examples"),
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", "dagster.yaml", "workspace.yaml"),
    "workspace-server.yaml",
    *("pyproject.toml", ".pre-commit-config.yaml"),
]
MOST_TERMS = 30

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def files(*places: str) -> list[Path]:
    found = []
    for place in places or PLACES:
        path = ROOT / place
        found += sorted(path.rglob("*")) if path.is_dir() else [path]
    return [
        path
        for path in found
        if path.is_file() and path.suffix in SUFFIXES and path != Path(__file__)
    ]


def plain_words(line: str) -> str:
    """A line in lower case, its identifiers split into their words."""
    return _CAMEL.sub(" ", line).replace("_", " ").lower()


def without_renames(path: Path, text: str) -> str:
    """The changelog has to name what it renames."""
    if path.name != "CHANGELOG.md":
        return text
    return re.sub(r"(?ms)^### Changed\n.*?(?=^##|\Z)", "", text)


def terms() -> list[str]:
    rows = re.findall(r"(?m)^\| (.+?) \| .+ \|$", GLOSSARY)
    return [row for row in rows if row != "term"]


@pytest.mark.parametrize("place", PLACES)
def test_no_retired_word_is_in_use(place: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}, line {number}: {line.strip()[:100]}"
        for path in files(place)
        for number, line in enumerate(without_renames(path, path.read_text()).splitlines(), 1)
        if RETIRED.search(plain_words(line))
    ]
    assert found == []


def test_the_glossary_is_short() -> None:
    assert 0 < len(terms()) <= MOST_TERMS


@pytest.mark.parametrize("term", [word for row in terms() for word in row.split(", ")])
def test_every_term_is_in_use(term: str) -> None:
    wanted = re.compile(rf"\b{re.escape(term.lower())}s?\b")
    assert any(
        wanted.search(plain_words(path.read_text()))
        for path in files()
        if path.name != "glossary.md"
    )
