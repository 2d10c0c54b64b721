"""The manifests fit the schemas of Kubernetes, and run commands that exist.

There is no cluster here: nothing of it is run.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from ticdc_assets.cli.command_line import make_parser

ROOT = Path(__file__).parents[1]
MANIFESTS = ROOT / "examples" / "kubernetes" / "ticdc.yaml"
DOCKERFILE = (ROOT / "examples" / "docker-compose" / "Dockerfile").read_text()
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
VERSIONS = ("1.29", "1.33", "1.37")


def read_items() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(MANIFESTS.read_text())["items"]
    return found


def list_pods() -> Iterator[dict[str, Any]]:
    for item in read_items():
        spec = item.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            yield spec["template"]["spec"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_manifests_fit_the_schemas(version: str) -> None:
    items = read_items()
    for item in items:
        kubernetes_validate.validate(item, version, strict=True)
    items[1]["spec"]["template"]["spec"]["containers"][0]["commands"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(items[1], version, strict=True)


def test_services_find_their_pods_and_the_code_server() -> None:
    items = read_items()
    labels = [i["spec"]["selector"]["matchLabels"] for i in items if i["kind"] == "Deployment"]
    services = {i["metadata"]["name"]: i["spec"] for i in items if i["kind"] == "Service"}
    assert all(service["selector"] in labels for service in services.values())
    workspace = yaml.safe_load((ROOT / "examples/docker-compose/workspace.yaml").read_text())
    server = workspace["load_from"][0]["grpc_server"]
    assert services[server["host"]]["ports"][0]["port"] == server["port"]


def test_pods_run_commands_that_exist_as_the_user_of_the_image() -> None:
    (user,) = re.findall(r"useradd --uid (\d+)", DOCKERFILE)
    pods = list(list_pods())
    assert len(pods) == 5
    for pod in pods:
        assert pod["securityContext"]["runAsUser"] == int(user)
        assert pod["securityContext"]["runAsNonRoot"] is True
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in pod["containers"]:
            program, *arguments = container["command"]
            assert (Path(sys.executable).parent / program).is_file()
            if program == "ticdc-assets":
                make_parser().parse_args(arguments)
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            names = [each["name"] for each in container["env"] if each["name"].startswith("TICDC")]
            assert all(f"`{name}`" in OPERATIONS for name in names)
