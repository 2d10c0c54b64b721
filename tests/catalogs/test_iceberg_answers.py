"""What a REST catalog answers, and what is lost beside the tables, never does harm."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.catalogs.fake_catalog import FakeCatalog
from tests.lake.addresses import create
from tests.lake.iceberg_tables import Stream, open_lake
from tests.servers import HOST
from ticdc_assets.catalogs import register_tables
from ticdc_assets.changefeed.catalog import IcebergRestCatalog
from ticdc_assets.errors import CatalogError, ConfigError
from ticdc_assets.lake.log.applied import read_last_snapshot
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
