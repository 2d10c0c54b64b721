"""What a REST catalog answers, and what is lost beside the tables, never does harm."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import create_server
from threading import Thread
from typing import Any

import pytest
import yaml
from requests import Request

from tests.catalogs.fake_catalog import FakeCatalog
from tests.lake.addresses import create
from tests.lake.iceberg_tables import Stream, open_lake
from tests.servers import HOST
from ticdc_assets.catalogs import register_tables
from ticdc_assets.changefeed.catalog import IcebergRestCatalog
from ticdc_assets.errors import CatalogDown, CatalogError, ConfigError
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.resources import catalog_calls
from ticdc_assets.resources.catalogs import open_catalog
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.stream.problem import Problem

_SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"


@contextmanager
def serve(answer: Callable[[str], Any]) -> Iterator[str]:
    """Serve what a function answers to a path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.dumps(answer(self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((HOST, 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://{HOST}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("malformed", ["table", "token"])
def test_an_answer_that_is_not_understood_is_not_quoted(
    malformed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(path: str) -> Any:
        if path.endswith("/tokens"):
            kind = {} if malformed == "token" else {"token_type": "bearer"}
            return {"scope": "PRINCIPAL_ROLE:ALL", "access_token": _SECRET, **kind}
        if path.endswith("/config"):
            return {"defaults": {}, "overrides": {}}
        vended = {"s3.access-key-id": "AKIA", "s3.secret-access-key": _SECRET}
        return {"metadata-location": "s3://b/d/t/metadata/1.json", "config": vended}

    monkeypatch.setenv("PYICEBERG_CATALOG__SOMEBODY__CREDENTIAL", "client:s3cret-of-it")
    with serve(answer) as url:
        monkeypatch.setenv("PYICEBERG_CATALOG__SOMEBODY__OAUTH2_SERVER_URI", f"{url}/tokens")
        catalog = open_catalog(IcebergRestCatalog(url, profile="somebody"))
        with pytest.raises(CatalogError) as caught:
            catalog.find(("d", "t"))
    reason = caught.value.reason
    parts = (_SECRET[at : at + 6] for at in range(len(_SECRET) - 5))
    assert [part for part in parts if part in reason] == []
    lacks = {"table": "metadata: Field required", "token": "token_type: Field required"}
    assert reason.startswith("the Iceberg catalog answers no T")
    assert lacks[malformed] in reason


@pytest.fixture
def open_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Any]:
    """Open a catalog whose tokens come from a server of OAuth."""

    def open_at(url: str, token_url: str) -> Any:
        oauth = {"client_id": "client", "client_secret": "s3cret-of-it", "token_url": token_url}
        named = {"somebody": {"auth": {"type": "oauth2", "oauth2": oauth}}}
        (tmp_path / ".pyiceberg.yaml").write_text(yaml.safe_dump({"catalog": named}))
        monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
        return open_catalog(IcebergRestCatalog(url, profile="somebody"))

    return open_at


def test_a_server_of_tokens_that_does_not_answer_is_not_waited_for(
    open_with: Callable[[str, str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_calls, "READ_SECONDS", 0.2)
    with (
        serve(lambda _: {"defaults": {}, "overrides": {}}) as url,
        create_server((HOST, 0)) as mute,
    ):
        catalog = open_with(url, f"http://{HOST}:{mute.getsockname()[1]}/tokens")
        started = time.monotonic()
        with pytest.raises(CatalogDown, match=r"does not answer: .*Read timed out") as caught:
            catalog.find(("d", "t"))
    assert time.monotonic() - started < 30
    assert "s3cret" not in caught.value.reason


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ({"access_token": _SECRET, "expires_in": 300}, None),
        ({"access_token": _SECRET}, "states no expires_in"),
        ({"token": _SECRET}, "states no access_token"),
        ([_SECRET], "states no access_token"),
    ],
)
def test_a_token_is_sent_until_it_expires(
    open_with: Callable[[str, str], Any], token: Any, reason: str | None
) -> None:
    paths: list[str] = []

    def answer(path: str) -> Any:
        paths.append(path)
        empty = {"defaults": {}, "overrides": {}, "identifiers": []}
        return token if path == "/tokens" else empty

    with serve(answer) as url:
        catalog = open_with(url, f"{url}/tokens")
        if reason is not None:
            with pytest.raises(CatalogError, match=reason) as caught:
                catalog.list_entries("d")
            assert _SECRET not in caught.value.reason
            return
        assert catalog.list_entries("d") == catalog.list_entries("e") == {}
        request = catalog._client._session.prepare_request(Request("GET", url))
        assert request.headers["Authorization"] == f"Bearer {_SECRET}"
    # For the session that reads the configuration, and for all calls together.
    assert paths.count("/tokens") == 2


def update(lake: LakeSession, catalog: FakeCatalog) -> list[Problem]:
    snapshot = read_last_snapshot(lake)
    return register_tables(lake.location, snapshot, catalog, lake.feed.iceberg)


def test_no_entry_is_dropped_while_it_is_unknown_what_was_published(tmp_path: Path) -> None:
    lake, catalog = open_lake(tmp_path, "d.*"), FakeCatalog("iceberg")
    stream = Stream(lake)
    stream.send(create("t", 2), create("u", 3))
    assert update(lake, catalog) == []
    there = dict(catalog.entries)
    assert there.keys() == {("d", "t"), ("d", "u")}
    published = Path(lake.path("iceberg/published.json"))
    for lose in (lambda: published.write_text("{"), lambda: shutil.rmtree(published.parent)):
        lose()
        with pytest.raises(ConfigError, match="the Iceberg tables are not at the last snapshot"):
            update(lake, catalog)
        assert catalog.entries == there
    # Another changefeed file that names none has none, whatever is known.
    assert update(open_lake(tmp_path), catalog) == []
    assert catalog.entries == {}
