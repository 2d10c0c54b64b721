"""Fixtures of the sensors' tests."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import dagster as dg
import pytest

from tests.sensors.world import World
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.resources.dagster_settings import WEBHOOK
from ticdc_assets.sensors import alert


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def world(tmp_path: Path, instance: dg.DagsterInstance) -> World:
    feed = changefeed_from_uri(f"file://{tmp_path}?protocol=csv", id="shop")
    return World(tmp_path, feed, instance)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The HTTP status codes of the next answers; 200 from then on."""
    monkeypatch.setattr(alert, "_PAUSES", (0.01, 0.01))
    return []


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch, answers: list[int]) -> Iterator[list[dict[str, str]]]:
    """The posts that a webhook got."""
    posts: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(answers.pop(0) if answers else 200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setenv(WEBHOOK, f"http://127.0.0.1:{server.server_port}/T0KEN")
        yield posts
        server.shutdown()
        thread.join()
