"""The Docker Compose example names files, images, settings and commands that exist.

It needs no Docker: nothing of it is run.
"""

import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import ZipFile

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
    logs = theirs.pop("compute_logs")
    config = dict(logs["config"])
    assert config.pop("endpoint_url") == {"env": "AWS_ENDPOINT_URL"}
    manager = getattr(import_module(logs["module"]), logs["class"])
    # It takes these settings.
    manager(**config, endpoint_url="http://localhost:9")
    assert theirs == ours


def test_every_service_of_dagster_has_a_health_check(services: dict[str, dict[str, Any]]) -> None:
    assert all("healthcheck" in services[name] for name in ("code", "webserver", "daemon"))
    programs = {"dagster": ("api", "grpc-health-check"), "dagster-daemon": ("liveness-check",)}
    for name in ("code", "daemon"):
        program, *arguments = shlex.split(services[name]["healthcheck"]["test"])
        path = Path(sys.executable).parent / program
        shown = subprocess.run(
            [path, *programs[program], "--help"], capture_output=True, text=True, check=True
        ).stdout
        assert tuple(arguments[: len(programs[program])]) == programs[program]
        assert all(each in shown for each in arguments if each.startswith("-"))


def test_the_image_runs_as_a_user_without_rights() -> None:
    lines = (FOLDER / "Dockerfile").read_text().splitlines()
    *_, last = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert last not in ("root", "0")


def test_the_wheel_is_built_of_what_docker_takes(tmp_path: Path) -> None:
    taken = [
        line[1:] for line in (ROOT / ".dockerignore").read_text().split("\n") if line[:1] == "!"
    ]
    for name in taken:
        source = ROOT / name
        if source.is_symlink():
            (tmp_path / name).symlink_to(source.readlink())
        elif source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tmp_path / name)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    for folder, target in ((tmp_path, "docker"), (ROOT, "whole")):
        subprocess.run([*command, "-d", str(tmp_path / target)], cwd=folder, check=True)
    (docker,), (whole,) = (list((tmp_path / name).iterdir()) for name in ("docker", "whole"))
    with ZipFile(docker) as one, ZipFile(whole) as other:
        assert sorted(one.namelist()) == sorted(other.namelist())


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
