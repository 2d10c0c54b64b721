"""The arrows between the rooms as assertions: which package may import which.

The sources say what each room imports, imports inside a function included: as arrows are followed,
a room that imports only what it may loads no other room either, however indirectly.  Which engines
are loaded by what it imports shows an interpreter, one for all rooms that may load the same.
"""

import ast
import json
import pkgutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib.util import resolve_name
from pathlib import Path

import pytest

import ticdc_assets

PROJECT = Path(__file__).resolve().parents[1]

# Each room and the rooms it may import; what those import, it may import too.
ARROWS: dict[str, set[str]] = {
    "definitions": {"graph"},
    "component": {"graph", "translation"},
    "translation": {"naming"},
    "graph": {"assets", "sensors"},
    "pipes": {"assets"},
    "sensors": {"assets"},
    "assets": {"checks", "run"},
    "run": {"resources"},
    "checks": {"resources", "naming"},
    "naming": {"changefeed", "key_parts"},
    "cli": {"resources", "erase", "demo", "reference", "extras", "version"},
    "extras": set(),
    "reading": {"resources"},
    "dagster_io": {"reading", "naming"},
    "resources": {"verify", "load", "catalogs"},
    "verify": {"views"},
    "erase": {"views"},
    "views": {"lake", "key_parts"},
    "load": {"lake"},
    "catalogs": {"lake"},
    "lake": {"log", "upstream"},
    "log": {"store"},
    "store": {"rows", "version"},
    "upstream": {"dumpling"},
    "rows": {"plan"},
    "dumpling": {"protocols"},
    "plan": {"stream"},
    "demo": {"stream"},
    "reference": {"stream"},
    "stream": {"protocols", "storage_sink"},
    "protocols": {"schema", "changefeed"},
    "storage_sink": {"schema", "changefeed"},
    "schema": {"events"},
    "events": {"errors"},
    "changefeed": {"events"},
    "errors": {"safe_text"},
    "key_parts": set(),
    "safe_text": set(),
    "version": set(),
}

# What no room may load, except for the rooms listed below.
ENGINES = {"pyspark", "delta", "dagster", "dagster_pyspark", "dagster_aws", "pandas"}
# The Dagster shell, the loader of assets outside of it, and resources, some of which are Dagster's.
WITH_DAGSTER = {
    *("definitions", "component", "translation", "graph", "pipes", "sensors", "assets", "checks"),
    "naming",
    *("dagster_io", "resources"),
}
WITH_SPARK = {
    *("cli", "lake", "log", "store", "load", "catalogs", "views", "verify", "erase", "run"),
    *(WITH_DAGSTER - {"dagster_io"}),
}
# Checks use pandera, which imports pandas; `reading` returns frames of it.
WITH_PANDAS = {
    *("definitions", "component", "graph", "pipes", "sensors", "assets", "checks"),
    *("reading", "dagster_io"),
}
# Modules that may import Spark themselves: the lake, its checks, the session's resources, and what
# returns a frame of a caller's session.
IMPORTS_SPARK = (
    *("ticdc_assets.lake", "ticdc_assets.store", "ticdc_assets.views", "ticdc_assets.verify"),
    "ticdc_assets.checks",
    # Its types alone.
    "ticdc_assets.resources.reading",
    *(
        "ticdc_assets.resources.spark",
        "ticdc_assets.resources.spark_worker",
        "ticdc_assets.resources.shared_session",
    ),
    *(
        "ticdc_assets.resources.exercise",
        "ticdc_assets.resources.deployment",
        "ticdc_assets.reading.table",
    ),
)


def reachable_rooms(room: str) -> set[str]:
    """Follow the arrows from a room, itself included."""
    return {room}.union(*(reachable_rooms(other) for other in ARROWS[room]))


# Print the modules that importing rooms loaded, as JSON.
SURVEY = """
import importlib, json, pkgutil, sys

# Arrow itself tries to import pandas, once; only what the rooms load is of interest.
class Nothing:
    def find_spec(self, name, path, target=None):
        if name == "pandas":
            raise ImportError(name)

sys.meta_path.insert(0, Nothing())
import pyarrow
pyarrow.scalar("")
del sys.meta_path[0]

sys.path.insert(0, sys.argv[1])

def fail(name):
    raise

for name in sys.argv[2:]:
    room = importlib.import_module(name)
    for module in pkgutil.walk_packages(getattr(room, "__path__", []), name + ".", fail):
        importlib.import_module(module.name)
print(json.dumps(sorted(sys.modules)))
"""


def is_forbidden(name: str, house: str, room: str, allowed: set[str], *, spark: bool) -> bool:
    top, *inner = name.split(".")
    if top == house:
        return bool(inner) and inner[0] not in allowed
    if top == "pyspark":
        return not spark
    if top.startswith("dagster") and room in WITH_DAGSTER:
        return False
    if top == "pandas" and room in WITH_PANDAS:
        return False
    return top in ENGINES


def list_wrong_imports(path: Path, house: str, room: str, allowed: set[str]) -> list[str]:
    """List what the sources of a room of the package `house` under `path` must not import."""
    found = []
    for module, name in read_imports(path, f"{house}.{room}"):
        spark = f"{module}.".startswith(tuple(f"{name}." for name in IMPORTS_SPARK))
        if is_forbidden(name, house, room, allowed, spark=spark):
            found.append(f"{module} imports {name}")
    return found


def read_imports(path: Path, package: str) -> Iterator[tuple[str, str]]:
    """Yield each module of a package, or of one file, with each name that it imports."""
    place = path.joinpath(*package.split("."))
    for file in sorted(place.rglob("*.py")) or [place.with_suffix(".py")]:
        *parents, last = file.relative_to(path).with_suffix("").parts
        module = ".".join(parents if last == "__init__" else [*parents, last])
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((module, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = resolve_name("." * node.level + (node.module or ""), ".".join(parents))
                yield from ((module, f"{base}.{alias.name}") for alias in node.names)


def list_wrong_loads(path: Path, house: str, rooms: Sequence[str], allowed: set[str]) -> list[str]:
    """Import rooms that may load the same engines; list what they load and must not."""
    packages = [f"{house}.{room}" for room in rooms]
    process = subprocess.run(
        [sys.executable, "-c", SURVEY, str(path), *packages],
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        return [f"{rooms} cannot be imported: {process.stderr.strip().splitlines()[-1]}"]
    return [
        f"{rooms} load {name}"
        for name in json.loads(process.stdout)
        if is_forbidden(name, house, rooms[0], allowed, spark=rooms[0] in WITH_SPARK)
    ]


def list_alike() -> list[list[str]]:
    """List the rooms that may load the same engines, without those that may load all."""
    alike: dict[tuple[bool, ...], list[str]] = defaultdict(list)
    for room in ARROWS:
        may_load = (room in WITH_SPARK, room in WITH_DAGSTER, room in WITH_PANDAS)
        if not all(may_load):
            alike[may_load].append(room)
    return list(alike.values())


@pytest.mark.parametrize("room", ARROWS)
def test_a_room_imports_only_what_the_arrows_allow(room: str) -> None:
    assert list_wrong_imports(PROJECT, "ticdc_assets", room, reachable_rooms(room)) == []


@pytest.mark.parametrize("rooms", list_alike(), ids="+".join)
def test_what_rooms_import_loads_no_engine_that_they_must_not_load(rooms: list[str]) -> None:
    allowed = set[str]().union(*map(reachable_rooms, rooms))
    assert list_wrong_loads(PROJECT, "ticdc_assets", rooms, allowed) == []


def test_only_the_replay_command_imports_the_reference_model() -> None:
    importers = {
        str(file.relative_to(PROJECT))
        for file in (PROJECT / "ticdc_assets").rglob("*.py")
        if "ticdc_assets.reference" in file.read_text()
        and not file.is_relative_to(PROJECT / "ticdc_assets" / "reference")
    }

    assert importers == {"ticdc_assets/cli/read.py"}


def test_every_room_has_its_arrows() -> None:
    rooms = {module.name for module in pkgutil.iter_modules(ticdc_assets.__path__)}

    assert rooms == set(ARROWS)


def test_the_package_itself_loads_no_room() -> None:
    # Otherwise every room would appear to load all that the package loads.
    script = "import sys, typing; old = {*sys.modules}; import ticdc_assets;"
    script += "print(*{*sys.modules} - old)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=PROJECT, check=True
    )
    assert done.stdout == "ticdc_assets\n"


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """Create a package of three rooms, `attic → hall → cellar`, and a fake `pandas`."""
    for room in ("attic", "hall", "cellar"):
        (tmp_path / "house" / room).mkdir(parents=True)
        (tmp_path / "house" / room / "__init__.py").touch()
    (tmp_path / "house" / "__init__.py").touch()
    (tmp_path / "pandas.py").touch()
    (tmp_path / "hall_stand.py").write_text("import pandas\n")
    (tmp_path / "house" / "cellar" / "shelf.py").write_text("WINE = 1\n")
    (tmp_path / "house" / "hall" / "door.py").write_text("from house.cellar.shelf import WINE\n")
    return tmp_path


@pytest.mark.parametrize(
    ("statement", "report"),
    [
        ("import pandas", "hall.mirror imports pandas"),
        ("def f():\n    import pandas.api", "hall.mirror imports pandas.api"),
        ("from house.attic import __name__", "hall.mirror imports house.attic.__name__"),
        ("from .. import attic", "hall.mirror imports house.attic"),
        ("def f():\n    from ..attic import trunk", "hall.mirror imports house.attic.trunk"),
    ],
)
def test_a_wrong_import_anywhere_in_a_room_is_reported(
    house: Path, statement: str, report: str
) -> None:
    (house / "house" / "hall" / "mirror.py").write_text(statement + "\n")

    found = list_wrong_imports(house, "house", "hall", {"hall", "cellar"})
    assert any(report in each for each in found)


@pytest.mark.parametrize(
    ("statement", "report"),
    [
        ("import hall_stand", "load pandas"),
        ("__import__('house.attic')", "load house.attic"),
        ("import nowhere", "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_what_a_room_must_not_load_is_reported(house: Path, statement: str, report: str) -> None:
    (house / "house" / "hall" / "mirror.py").write_text(statement + "\n")

    found = list_wrong_loads(house, "house", ["cellar", "hall"], {"hall", "cellar"})
    assert any(report in each for each in found)


def test_a_room_without_violations_is_reported_for_nothing(house: Path) -> None:
    assert list_wrong_imports(house, "house", "hall", {"hall", "cellar"}) == []
    assert list_wrong_loads(house, "house", ["hall"], {"hall", "cellar"}) == []
