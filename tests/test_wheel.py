"""The wheel brings one package, which works beside a project's own `resources`."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from email import message_from_bytes
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ticdc_assets.version import VERSION

PROJECT = Path(__file__).parents[1]
USERS_LOCK = "ticdc_assets/requirements.lock"


# `make wheel` builds one of the checkout, `make release` one of the sdist.
@pytest.fixture(scope="module", params=[("--wheel",), ()], ids=["checkout", "sdist"])
def wheel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", *request.param, "--no-isolation", "-o", str(folder)]
    subprocess.run([*build, str(PROJECT)], check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_installs_one_package(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    with ZipFile(wheel) as packed:
        names = packed.namelist()
        packed.extractall(installed)
    packages = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert packages == {"ticdc_assets"}
    tracked = subprocess.run(
        ["git", "ls-files", "ticdc_assets"], cwd=PROJECT, check=True, capture_output=True, text=True
    )
    assert set(tracked.stdout.splitlines()) <= set(names)
    # The project that installs the wheel has its own package `resources`.
    own = tmp_path / "project" / "resources"
    own.mkdir(parents=True)
    (own / "__init__.py").write_text("OWN = 1\n")
    script = (
        "import resources, ticdc_assets.resources.reading as r; print(resources.OWN, r.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=own.parent,
        env={**os.environ, "PYTHONPATH": str(installed), "PYTHONSAFEPATH": ""},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["1", str(installed / "ticdc_assets/resources/reading.py")]


def test_the_wheel_has_the_version_and_the_users_lock(wheel: Path) -> None:
    with ZipFile(wheel) as packed:
        metadata = message_from_bytes(packed.read(f"ticdc_assets-{VERSION}.dist-info/METADATA"))
        lock = packed.read(USERS_LOCK)
    assert metadata["Version"] == VERSION
    assert lock == (PROJECT / USERS_LOCK).read_bytes()
    command = [sys.executable, "-m", "ticdc_assets.cli", "--version"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout == f"ticdc-assets {VERSION}\n"
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert "version" not in declared


def read_lock(path: str) -> Mapping[str, set[str]]:
    """The pinned requirements of a lock by their package, each with its hashes."""
    found: dict[str, set[str]] = {}
    for block in re.split(r"\n(?=\S)", (PROJECT / path).read_text()):
        if not block.startswith("#"):
            requirement, *hashes = re.split(r" \\\n\s*", block.strip())
            assert hashes, requirement
            assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes), block
            name = canonicalize_name(Requirement(requirement).name)
            found.setdefault(name, set()).add(" ".join([requirement, *sorted(hashes)]))
    return found


def strip_marker(pinned: str) -> str:
    """A package may be for fewer machines in one lock: another package there needs it."""
    requirement, _, hashes = pinned.partition(" --hash")
    return f"{requirement.partition(' ;')[0]} {hashes}"


def test_the_users_lock_is_a_part_of_the_developers_lock() -> None:
    users, developers = read_lock(USERS_LOCK), read_lock("requirements.lock")
    for name, pinned in users.items():
        assert set(map(strip_marker, pinned)) <= set(map(strip_marker, developers[name]))
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    extras = declared["project"]["optional-dependencies"].values()
    wanted = [*declared["project"]["dependencies"], *(each for extra in extras for each in extra)]
    needed = {canonicalize_name(Requirement(each).name) for each in wanted} - {"ticdc-assets"}
    assert needed <= set(users)
    tools = {
        canonicalize_name(Requirement(each).name) for each in declared["dependency-groups"]["dev"]
    }
    # What users need as well is no tool.
    assert {"pytest", "mypy", "ruff", "uv", "moto", "selenium"} <= tools - set(users)
    assert len(users) < len(developers)


def test_a_release_is_committed_described_and_new(tmp_path: Path) -> None:
    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.stdout.strip().splitlines()[0] if done.returncode else ""

    def commit() -> None:
        run("git", "add", ".")
        run("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-m", "a")

    for name in ("Makefile", "ticdc_assets/version.py", "pyproject.toml", "requirements.lock"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((PROJECT / name).read_bytes())
    changes = tmp_path / "CHANGELOG.md"
    changes.write_text(f"## [Unreleased]\n## [{VERSION.replace('.', 'x')}]\n")
    run("git", "init", "-q")
    check = ("make", "--silent", "unreleased")
    assert run(*check) == "commit everything first: git status"
    commit()
    assert run(*check) == f"CHANGELOG.md has no section [{VERSION}]"
    changes.write_text(f"## [{VERSION}] - 2027-01-31\n")
    assert run(*check) == "commit everything first: git status"
    commit()
    assert run(*check) == ""
    run("git", "tag", f"v{VERSION}")
    assert run(*check) == f"v{VERSION} is a tag already"
