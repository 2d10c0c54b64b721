"""The systemd units are valid for systemd, and run commands that exist."""

import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from ticdc_assets.cli.command_line import make_parser

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "systemd"
INSTALLED = "/opt/ticdc/bin"
HERE = str(Path(sys.executable).parent)
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()


def read(path: Path) -> ConfigParser:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text())
    return parser


UNITS = sorted(path for path in FOLDER.iterdir() if path.suffix != ".env")
SERVICES = [path for path in UNITS if path.suffix == ".service"]


def verify(folder: Path) -> subprocess.CompletedProcess[str]:
    units = sorted(str(path) for path in folder.iterdir())
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=yes", *units]
    return subprocess.run(command, capture_output=True, text=True, check=False)


# It comes with the system: no dependency of the project could install it.
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for path in UNITS:
        text = path.read_text().replace(INSTALLED, HERE)
        (tmp_path / path.name).write_text(text)
    found = verify(tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    # What it would find: a command that is not there, and a setting that it does not know.
    broken = tmp_path / "ticdc-code.service"
    broken.write_text(broken.read_text().replace(HERE, INSTALLED) + "Restarts=always\n")
    found = verify(tmp_path)
    assert found.returncode != 0
    assert "Restarts" in found.stderr


def test_the_target_starts_every_part() -> None:
    wanted = read(FOLDER / "ticdc.target")["Unit"]["Wants"].split()
    timed = {"ticdc-maintain.service"}
    assert {*wanted, "ticdc.target"} | timed == {path.name for path in UNITS}


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.stem)
def test_a_part_runs_a_command_that_exists_and_not_as_root(path: Path) -> None:
    service = read(path)["Service"]
    assert service["User"] == "ticdc"
    program, *arguments = shlex.split(service["ExecStart"])
    assert Path(program.replace(INSTALLED, HERE)).is_file()
    if program.endswith("/ticdc-assets"):
        make_parser().parse_args(arguments)


def test_variables_are_documented() -> None:
    lines = (FOLDER / "ticdc.env").read_text().splitlines()
    names = [line.partition("=")[0] for line in lines if not line.startswith("#")]
    assert all(f"`{name}`" in OPERATIONS for name in names if name != "DAGSTER_HOME")
