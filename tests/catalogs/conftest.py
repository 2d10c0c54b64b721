"""A Glue on loopback, with what a reader sees of it and how often it was called."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.moto_process import make_quick
from tests.servers import HOST, hive_metastore
from ticdc_assets.catalogs.glue import Glue
from ticdc_assets.changefeed.catalog import GlueCatalog

REGION = "eu-west-1"


@dataclass
class GlueServer:
    """A server, and an administrator's client of it."""

    url: str
    client: Any
    calls: Counter[str] = field(default_factory=Counter)

    def open(self, **settings: str) -> Glue:
        """Open the catalog; what it calls is counted."""
        stated = GlueCatalog(region=REGION, endpoint=self.url, **settings)
        client = boto3.client("glue", region_name=REGION, endpoint_url=self.url)
        client.meta.events.register("before-call.glue", self._count)
        return Glue(stated, client)

    def _count(self, model: Any, **_: Any) -> None:
        self.calls[model.name] += 1

    def list_tables(self) -> dict[str, dict[str, Any]]:
        """List all tables by `database.table`."""
        databases = self.client.get_databases()["DatabaseList"]
        return {
            f"{database['Name']}.{table['Name']}": table
            for database in databases
            for table in self.client.get_tables(DatabaseName=database["Name"])["TableList"]
        }


@pytest.fixture(scope="session")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Hive Metastore for all tests of a process; a prefix belongs to the test that takes it."""
    with hive_metastore(tmp_path_factory.mktemp("hive")) as uri:
        yield uri


@pytest.fixture(scope="session")
def moto_url() -> Iterator[str]:
    make_quick()
    # On a port that somebody else has meanwhile, it would never start.
    server = ThreadedMotoServer(HOST, port=0, verbose=False)
    server.start()
    yield f"http://{HOST}:{server.get_host_and_port()[1]}"
    server.stop()


@pytest.fixture
def glue(moto_url: str, monkeypatch: pytest.MonkeyPatch) -> GlueServer:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "S3CRET")
    client = boto3.client("glue", region_name=REGION, endpoint_url=moto_url)
    for database in client.get_databases()["DatabaseList"]:
        for table in client.get_tables(DatabaseName=database["Name"])["TableList"]:
            client.delete_table(DatabaseName=database["Name"], Name=table["Name"])
        client.delete_database(Name=database["Name"])
    return GlueServer(moto_url, client)
