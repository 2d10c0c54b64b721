"""A project of its own, as an owner makes it with `dg`: the commands find, make and load lakes."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.made_lake import schema, write_snapshot, write_tables
from ticdc_assets.store.lake import Lake
from ticdc_assets.version import VERSION

ROOT = Path(__file__).parents[2]
GROUP = "dagster_dg_cli.registry_modules"
DOCUMENT = (ROOT / "docs" / "component.md").read_text()
DEFINITIONS = """
from pathlib import Path

import dagster as dg


@dg.definitions
def defs() -> dg.Definitions:
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
"""
# What an owner has already: an asset, resources by the plain names, an executor.
OWN = """
import dagster as dg


@dg.asset(deps=[["warehouse", "shop", "current", "shop", "orders"]])
def report(spark: dg.ResourceParam[str], lake: dg.ResourceParam[str]) -> str:
    return spark + lake


defs = dg.Definitions(
    assets=[report],
    resources={"spark": "mine", "lake": "mine too"},
    executor=dg.multiprocess_executor,
)
"""


class Project:
    """A project, and the commands of `dg` in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        defs = folder / "mine" / "defs"
        defs.mkdir(parents=True)
        (folder / "pyproject.toml").write_text(
            '[project]\nname = "mine"\nversion = "1"\n[tool.dg]\ndirectory_type = "project"\n'
            '[tool.dg.project]\nroot_module = "mine"\n'
        )
        for module, text in {"": "", "definitions": DEFINITIONS}.items():
            (folder / "mine" / f"{module or '__init__'}.py").write_text(text)
        (defs / "__init__.py").touch()
        (defs / "own.py").write_text(OWN)
        self.defs = defs
        self._installed = folder / "installed"
        self._install()

    def _install(self) -> None:
        """State what the wheel states of the package: that of the checkout may be an older one."""
        stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        points = stated["entry-points"][GROUP]
        info = self._installed / f"ticdc_assets-{VERSION}.dist-info"
        info.mkdir(parents=True)
        lines = [f"{name} = {module}" for name, module in points.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines, ""]))
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: ticdc-assets\nVersion: {VERSION}\n"
        )

    def dg(self, *arguments: str) -> str:
        done = subprocess.run(
            [str(Path(sys.executable).with_name("dg")), *arguments],
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": f"{self._installed}:{ROOT}",
                "VIRTUAL_ENV": sys.prefix,
                "DAGSTER_HOME": "",
                "TICDC_LAKE": str(self.folder / "lake"),
                "HOME": str(self.folder),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def list_defs(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.dg("list", "defs", "--json"))
        return found


def read_document(name: str) -> str:
    """Return the block of the document that begins with the name of its file."""
    (text,) = re.findall(rf"(?ms)^```yaml\n# {re.escape(name)}\n(.*?)^```", DOCUMENT)
    return str(text)


@pytest.mark.slow
def test_an_owner_adds_two_lakes_to_a_project(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.dg("scaffold", "defs", "ticdc_assets.TicdcLake", "warehouse")
    scaffolded = yaml.safe_load((project.defs / "warehouse" / "defs.yaml").read_text())
    assert scaffolded["type"] == "ticdc_assets.TicdcLake"
    assert scaffolded["attributes"]["name"] == "warehouse"
    # A second one in the same file, as the document states it.
    (project.defs / "warehouse" / "defs.yaml").write_text(
        f"{read_document('defs/warehouse/defs.yaml')}---\n{read_document('of a second lake')}"
    )
    for root in ("lake", "lake/archive"):
        lake = Lake(str(tmp_path / root), "shop")
        write_snapshot(lake, 1, 5)
        write_tables(lake, [schema("shop", "orders"), schema("crm", "people")])

    # Which loads them; `test_definitions` has `dg check defs`.
    defs = project.list_defs()

    assets = {asset["asset_key"]: asset for asset in defs["assets"]}
    tables = {
        *("warehouse/shop/current/shop/orders", "warehouse/shop/current/crm/people"),
        *("archive/shop/current/shop", "archive/shop/current/crm"),
    }
    assert {key for key in assets if "/current" in key} == tables
    assert assets["report"]["dependency_keys"] == ["warehouse/shop/current/shop/orders"]
    assert assets["warehouse/shop/current/shop/orders"]["group_name"] == "shop"
    assert assets["warehouse/shop/current/shop/orders"]["owners"] == [{"team": "shop"}]
    assert {job["name"] for job in defs["jobs"]} >= {
        "advance_warehouse__shop_job",
        "advance_archive__shop_job",
    }
    assert {sensor["name"] for sensor in defs["sensors"]} == {
        *("warehouse__shop_checkpoint", "warehouse__reload_definitions"),
        *("archive__shop_checkpoint", "archive__reload_definitions"),
    }
    assert {resource["name"] for resource in defs["resources"]} == {
        *("spark", "lake", "warehouse__spark", "warehouse__lake"),
        *("archive__spark", "archive__lake", "s3_warehouse__shop", "s3_archive__shop"),
    }
