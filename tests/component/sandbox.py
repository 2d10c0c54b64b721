"""A project of Dagster in a folder of its own, whose lakes are components."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster.components.testing import DefsFolderSandbox, create_defs_folder_sandbox

from ticdc_assets import TicdcLake

# Dagster reads a defs.yaml by what Pydantic has deprecated, and lists previews.
WARNINGS = [
    pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated"),
    pytest.mark.filterwarnings("ignore::dagster.BetaWarning"),
    pytest.mark.filterwarnings("ignore::dagster.PreviewWarning"),
]
TYPE = "ticdc_assets.TicdcLake"


@dataclass
class Project:
    """The project, and the folder in which its lakes are."""

    sandbox: DefsFolderSandbox
    folder: Path

    def add(self, name: str, changefeeds: object, **attributes: Any) -> str:
        """Add a lake; return its root."""
        stated = {
            "name": name,
            "lake": str(self.folder / name),
            "changefeeds": changefeeds,
            **attributes,
        }
        # As an owner writes it, so without what the scaffolder would.
        place = self.sandbox.defs_folder_path / name
        place.mkdir(exist_ok=True)
        text = yaml.safe_dump({"type": TYPE, "attributes": stated})
        (place / "defs.yaml").write_text(text)
        return str(self.folder / name)

    def load(self) -> dg.Definitions:
        """Load the definitions of all lakes, as a production code server does."""
        with self.sandbox.build_all_defs() as defs:
            return defs

    def component(self, name: str) -> TicdcLake:
        place = self.sandbox.defs_folder_path / name
        with self.sandbox.load_component_and_build_defs(place) as (component, _):
            assert isinstance(component, TicdcLake)
            return component

    def refresh(self, *names: str) -> dg.Definitions:
        """Refresh the state of lakes, as `dg utils refresh-defs-state` does; load the project."""
        for name in names:
            asyncio.run(self.component(name).refresh_state(self.sandbox.project_root))
        return self.load()


@contextmanager
def make_project(folder: Path) -> Iterator[Project]:
    with create_defs_folder_sandbox() as sandbox:
        # State is kept where the project's file says that definitions are.
        (sandbox.project_root / "pyproject.toml").write_text(
            '[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\n'
            f'root_module = "{sandbox.project_name}"\n'
        )
        yield Project(sandbox, folder)


def run(
    defs: dg.Definitions, job: str, instance: dg.DagsterInstance
) -> dict[dg.AssetKey, Mapping[str, Any]]:
    """Run a job; return the metadata of what it materializes."""
    done = defs.resolve_job_def(job).execute_in_process(instance=instance)
    made = [
        e.step_materialization_data.materialization
        for e in done.all_events
        if e.is_step_materialization
    ]
    return {each.asset_key: {k: v.value for k, v in each.metadata.items()} for each in made}


def list_keys(defs: dg.Definitions) -> set[str]:
    return {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}
