"""The arrows between the rooms as assertions: which package may import which.

Each room is imported as a whole in an interpreter of its own.  Two things are compared with the
arrows: the modules that this import loaded, however indirectly, and the modules that its import
statements name, so that an import inside a function counts too.
"""

import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import ticdc_assets

PROJECT = Path(__file__).resolve().parents[1]

# Each room and the rooms it may import; what those import, it may import too.
ARROWS: dict[str, set[str]] = {
    "definitions": {"assets", "sensors"},
    "sensors": {"assets"},
    "assets": {"checks", "run"},
    "run": {"resources"},
    "checks": {"resources", "naming"},
    "naming": {"changefeed", "key_parts"},
    "cli": {"resources", "demo", "reference"},
    "reading": {"resources"},
    "dagster_io": {"reading", "naming"},
    "resources": {"verify", "load", "catalogs"},
    "verify": {"views"},
    "views": {"lake", "key_parts"},
    "load": {"lake"},
    "catalogs": {"lake"},
    "lake": {"store", "upstream"},
    "store": {"rows"},
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
    "changefeed": {"errors"},
    "errors": {"safe_text"},
    "key_parts": set(),
    "safe_text": set(),
}

# What no room may load, except for the rooms listed below.
ENGINES = {"pyspark", "delta", "dagster", "dagster_pyspark", "dagster_aws", "pandas"}
# The Dagster shell, the loader of assets outside of it, and resources, some of which are Dagster's.
WITH_DAGSTER = {
    *("definitions", "sensors", "assets", "checks", "naming", "dagster_io", "resources"),
}
WITH_SPARK = {
    *("cli", "lake", "store", "load", "catalogs", "views", "verify", "run"),
    *(WITH_DAGSTER - {"dagster_io"}),
}
# Checks use pandera, which imports pandas; `reading` returns frames of it.
WITH_PANDAS = {"definitions", "sensors", "assets", "checks", "reading", "dagster_io"}
# Modules that may import Spark themselves: the lake, its checks, the session's resources, and what
# returns a frame of a caller's session.
IMPORTS_SPARK = (
    *("ticdc_assets.lake", "ticdc_assets.store", "ticdc_assets.views", "ticdc_assets.verify"),
    "ticdc_assets.checks",
    *("resources.spark", "resources.spark_worker", "resources.shared_session"),
    *("resources.exercise", "resources.deployment", "ticdc_assets.reading.table"),
)


def reachable_rooms(room: str) -> set[str]:
    """Follow the arrows from a room, itself included."""
    return {room}.union(*(reachable_rooms(other) for other in ARROWS[room]))


# Print as JSON: the modules that importing the room loaded, and [module, name] per import.
SURVEY = """
import ast, importlib, json, pkgutil, sys
from importlib.util import resolve_name

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

room = importlib.import_module(sys.argv[2])
names = [room.__name__]
for module in pkgutil.walk_packages(getattr(room, "__path__", []), room.__name__ + ".", fail):
    importlib.import_module(module.name)
    names.append(module.name)
imports = []
for name in names:
    module = sys.modules[name]
    with open(module.__file__, encoding="utf-8") as source:
        tree = ast.parse(source.read())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [[name, alias.name] for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), module.__package__)
            imports += [[name, base + "." + alias.name] for alias in node.names]
print(json.dumps({"loaded": sorted(sys.modules), "imports": imports}))
"""


def violations(path: Path, house: str, room: str, allowed: set[str]) -> list[str]:
    """Import a room of the package `house` under `path`; report what it must not import."""
    module = room if room == "resources" else f"{house}.{room}"
    process = subprocess.run(
        [sys.executable, "-c", SURVEY, str(path), module],
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        return [f"{room} cannot be imported: {process.stderr.strip().splitlines()[-1]}"]

    def is_forbidden(name: str, spark: bool) -> bool:
        top, *inner = name.split(".")
        if top == house:
            return bool(inner) and inner[0] not in allowed
        if top == "pyspark":
            return not spark
        if top.startswith("dagster") and room in WITH_DAGSTER:
            return False
        if top == "pandas" and room in WITH_PANDAS:
            return False
        return top in ENGINES or (top == "resources" and top not in allowed)

    survey = json.loads(process.stdout)
    loaded = [
        f"{room} loads {name}"
        for name in survey["loaded"]
        if is_forbidden(name, room in WITH_SPARK)
    ]
    imports = [
        f"{module} imports {name}"
        for module, name in survey["imports"]
        if is_forbidden(name, f"{module}.".startswith(tuple(f"{name}." for name in IMPORTS_SPARK)))
    ]
    return loaded + imports


@pytest.mark.parametrize("room", ARROWS)
def test_a_room_imports_only_what_the_arrows_allow(room: str) -> None:
    assert violations(PROJECT, "ticdc_assets", room, reachable_rooms(room)) == []


def test_only_the_replay_command_imports_the_reference_model() -> None:
    importers = {
        str(file.relative_to(PROJECT))
        for folder in ("ticdc_assets", "resources")
        for file in (PROJECT / folder).rglob("*.py")
        if "ticdc_assets.reference" in file.read_text()
        and not file.is_relative_to(PROJECT / "ticdc_assets" / "reference")
    }

    assert importers == {"ticdc_assets/cli/read.py"}


def test_every_room_has_its_arrows() -> None:
    rooms = {module.name for module in pkgutil.iter_modules(ticdc_assets.__path__)}

    assert rooms | {"resources"} == set(ARROWS)


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
        ("import hall_stand", "hall loads pandas"),
        ("def f():\n    import pandas.api", "hall.mirror imports pandas.api"),
        ("from house.attic import __name__", "hall loads house.attic"),
        ("from .. import attic", "hall.mirror imports house.attic"),
        ("def f():\n    from ..attic import trunk", "hall.mirror imports house.attic.trunk"),
        ("import resources", "hall.mirror imports resources"),
        ("import nowhere", "hall cannot be imported: ModuleNotFoundError"),
    ],
)
def test_a_violation_anywhere_in_a_room_is_reported(
    house: Path, statement: str, report: str
) -> None:
    (house / "house" / "hall" / "mirror.py").write_text(statement + "\n")

    found = violations(house, "house", "hall", {"hall", "cellar"})
    assert any(report in each for each in found)


def test_a_room_without_violations_is_reported_for_nothing(house: Path) -> None:
    assert violations(house, "house", "hall", {"hall", "cellar"}) == []
