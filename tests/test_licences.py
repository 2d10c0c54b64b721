"""docs/licences.md lists all that is installed and loaded, under licences that we may use."""

import re
from importlib.metadata import Distribution, distributions
from pathlib import Path

from ticdc_assets.resources import jars

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "licences.md").read_text()
ROWS = dict(re.findall(r"(?m)^\| `([^`]+)` \| ([^|]+) \|", TEXT))
LOCKED = set(re.findall(r"(?m)^([a-z0-9][\w.-]*)==", (ROOT / "requirements.lock").read_text()))
LOADED = [jar for store in (None, *jars.STORES) for jar in jars.read_lock(store)]
FOR_TESTS = [jar for part in jars.FOR_TESTS for jar in jars.read_test_lock(part)]
JARS = {jar.coordinate for jar in [*LOADED, *FOR_TESTS]}
# They ask to keep notices; MPL and EPL also to publish changes to their own files.
FAMILIES = ("0BSD", "Apache", "BSD", "CC0", "EPL", "ISC", "MIT", "MPL", "PSF", "Zlib")
SPELT_OUT = {"Mozilla Public License": "MPL", "Python Software Foundation": "PSF", "ISCL": "ISC"}


def families(text: str) -> set[str]:
    """The licences that a text names, whatever their version."""
    for name, short in SPELT_OUT.items():
        text = text.replace(name, short)
    return {family for family in FAMILIES if re.search(rf"\b{family}", text)}


def declared(package: Distribution) -> str:
    """What a package says of its licence: an expression, or a line and classifiers."""
    metadata = package.metadata
    lines = (metadata.get("License-Expression"), (metadata.get("License") or "")[:60])
    classifiers = (c for c in metadata.get_all("Classifier") or () if c.startswith("License ::"))
    return " ".join([*filter(None, lines), *classifiers])


def normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_everything_that_is_locked_is_listed() -> None:
    assert set(ROWS) == LOCKED | JARS


def test_every_licence_is_one_that_we_may_use() -> None:
    words = {
        name: set(re.findall(r"[\w.-]+", licence)) - {"OR", "AND"} for name, licence in ROWS.items()
    }
    foreign = {
        name: found
        for name, found in words.items()
        if not found or any(not families(word) for word in found)
    }
    assert foreign == {}


INSTALLED = {normalise(package.name): package for package in distributions()}


def test_packages_say_the_same_of_their_licences() -> None:
    said = {name: families(declared(INSTALLED[name])) for name in LOCKED & INSTALLED.keys()}
    assert said == {name: families(ROWS[name]) for name in said}
