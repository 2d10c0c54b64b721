"""The Docker Compose example names files, images, settings and commands that exist.

There is no Docker here: nothing of it is run.
"""

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from ticdc_assets.cli.command_line import make_parser
from ticdc_assets.demo import SimulationOptions, prepare

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "docker-compose"
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    content = yaml.safe_load((FOLDER / "docker-compose.yml").read_text())
    assert set(content) == {"x-ticdc", "services", "volumes"}
    found: dict[str, dict[str, Any]] = content["services"]
    named = {
        volume.partition(":")[0]
        for service in found.values()
        for volume in service.get("volumes", ())
        if not volume.startswith(".")
    }
    assert named == set(content["volumes"])
    return found


def test_it_has_every_part_of_a_deployment(services: dict[str, dict[str, Any]]) -> None:
    assert set(services) == {"kafka", "objects", "postgres", "shop", "code", "webserver", "daemon"}
    for service in services.values():
        assert service["image"]
        for needed in service.get("depends_on", {}):
            assert "healthcheck" in services[needed]
        for port in service.get("ports", ()):
            # Nothing listens beyond this machine.
            assert port.startswith("127.0.0.1:")


def test_files_that_it_names_exist(services: dict[str, dict[str, Any]]) -> None:
    for service in services.values():
        mounted = [v.partition(":")[0] for v in service.get("volumes", ())]
        assert all((FOLDER / path).is_file() for path in mounted if path.startswith("."))
        if "build" in service:
            assert (FOLDER / service["build"]["context"]).resolve() == ROOT
            assert (ROOT / service["build"]["dockerfile"]).is_file()


def test_dagster_has_the_project_s_settings_and_postgres() -> None:
    ours = yaml.safe_load((ROOT / "dagster.yaml").read_text())
    theirs = yaml.safe_load((FOLDER / "dagster.yaml").read_text())
    assert theirs.pop("storage") == {"postgres": {"postgres_url": {"env": "DAGSTER_POSTGRES_URL"}}}
    assert theirs == ours


def test_the_code_server_is_where_the_others_look(services: dict[str, dict[str, Any]]) -> None:
    started = services["code"]["command"].replace("-h 0.0.0.0 ", "")
    for file, host, commands in (
        (FOLDER / "workspace.yaml", "code", started),
        (ROOT / "workspace-server.yaml", "localhost", OPERATIONS),
    ):
        [location] = yaml.safe_load(file.read_text())["load_from"]
        port = location["grpc_server"]["port"]
        assert location["grpc_server"] == {"host": host, "port": port, "location_name": "ticdc"}
        assert f"dagster code-server start -m ticdc_assets.definitions -p {port}" in commands


def test_the_shop_writes_what_the_declaration_says(
    services: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    program, *words = shlex.split(services["shop"]["command"])
    assert program == "ticdc-assets"
    options = make_parser().parse_args(words)
    simulated = prepare(
        tmp_path / "shop",
        SimulationOptions(protocol=options.protocol, transport="dump", brokers=options.brokers),
    )
    uri = next(line for line in simulated.feed_toml.splitlines() if line.startswith("sink-uri"))
    assert uri in (FOLDER / "changefeeds.toml").read_text().splitlines()
