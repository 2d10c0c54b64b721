"""The wheel brings one package, which works beside a project's own `resources`."""

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

PROJECT = Path(__file__).parents[1]


def test_the_wheel_installs_one_package(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(tmp_path)]
    subprocess.run([*build, str(PROJECT)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
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
