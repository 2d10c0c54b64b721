"""The rights that examples/iam-*.json give are enough, and each of them is needed.

moto enforces actions and resources, and neither conditions nor the keys of DeleteObjects.
"""

import json
import os
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.forked_command import start_forked
from tests.resources.s3_account import open_client, s3_account
from tests.servers import s3_server
from ticdc_assets.demo import SimulationOptions, prepare

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCE, LAKE = (
    json.loads((EXAMPLES / f"iam-{name}.json").read_text()) for name in ("source", "lake")
)
ROWS = 60


@dataclass(frozen=True)
class Server:
    url: str
    # The declaration of the changefeed whose folder it has.
    changefeeds: Path
    folder: Path

    def grant(self, name: str, *policies: Any) -> dict[str, str]:
        """Create a user with some rights; return the environment with its key."""
        self._check_rights_after(1000)
        iam = boto3.client("iam", endpoint_url=self.url, region_name="us-east-1")
        iam.create_user(UserName=name)
        for number, policy in enumerate(policies):
            document = json.dumps(policy)
            iam.put_user_policy(UserName=name, PolicyName=f"p{number}", PolicyDocument=document)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        self._check_rights_after(0)
        own = {
            "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
        }
        return {**os.environ, **own}

    def _check_rights_after(self, requests: int) -> None:
        """Have the server check the rights of each request that comes after some."""
        plain = {"Content-Type": "text/plain"}
        content = str(requests).encode()
        request = urllib.request.Request(f"{self.url}/moto-api/reset-auth", content, plain)
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200

    def run(self, environment: dict[str, str], command: str, *given: str) -> str:
        """Run a command; return what it printed, or else why it failed."""
        place = ["--changefeeds", str(self.changefeeds), "--lake", "s3://lakes/lake"]
        out, err = self.folder / "out", self.folder / "err"
        done = start_forked([command, *given, *place], environment, out, err)
        done.join()
        return (err if done.exitcode else out).read_text()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("s3")
    options = SimulationOptions(
        workload="bulk", transactions=6, flush_every=6, tables=1, rows_each=ROWS // 6
    )
    simulation = prepare(folder / "upstream", options)
    for _ in simulation:
        pass
    data = simulation.folder / "data"
    with s3_server(folder) as moto, s3_account(moto) as url:
        for file in filter(Path.is_file, data.rglob("*")):
            open_client(url).upload_file(str(file), "changes", f"shop/{file.relative_to(data)}")
        at = f"s3://changes/shop?endpoint={url}&region=us-east-1&"
        declared = simulation.changefeeds.read_text().replace(f"file://{data}?", at)
        changefeeds = simulation.changefeeds.with_name("on-s3.toml")
        changefeeds.write_text(declared)
        yield Server(url, changefeeds, folder)


def without(policy: Any, action: str) -> Any:
    statements = [
        {**each, "Action": [one for one in each["Action"] if one != action]}
        for each in policy["Statement"]
    ]
    return {**policy, "Statement": [each for each in statements if each["Action"]]}


def test_the_rights_are_enough_and_spare_the_source(server: Server) -> None:
    user = server.grant("all", SOURCE, LAKE)
    assert f"{ROWS} row changes" in server.run(user, "advance")
    shown = server.run(user, "show", "bulk.t1", "--format", "json")
    assert len(shown.splitlines()) == ROWS
    only_reads = without(without(LAKE, "s3:PutObject"), "s3:DeleteObject")
    reader = server.grant("reader", only_reads)
    assert server.run(reader, "show", "bulk.t1", "--format", "json") == shown
    assert "bulk.t1" in server.run(reader, "tables")
    keys = {name: user[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    client = boto3.client(
        "s3",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
    )
    for change in (
        lambda: client.put_object(Bucket="changes", Key="shop/metadata", Body=b""),
        lambda: client.delete_object(Bucket="changes", Key="shop/metadata"),
        lambda: client.delete_bucket(Bucket="lakes"),
    ):
        with pytest.raises(ClientError, match="AccessDenied"):
            change()


@pytest.mark.parametrize(
    ("name", "action"),
    [
        (name, action)
        for name, policy in (("source", SOURCE), ("lake", LAKE))
        for statement in policy["Statement"]
        for action in statement["Action"]
        # A run deletes what lists find, in one request, which moto checks otherwise than S3.
        if action != "s3:DeleteObject"
    ],
)
def test_none_can_be_left_out(server: Server, name: str, action: str) -> None:
    rights = {"source": SOURCE, "lake": LAKE}
    rights[name] = without(rights[name], action)
    user = server.grant(f"{name}-{action.rpartition(':')[2]}", *rights.values())
    failed = server.run(user, "advance")
    assert re.search("(?i)denied|forbidden|privileges", failed), failed
