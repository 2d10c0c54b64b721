"""A server on loopback that follows the published API of Unity Catalog (api/all.yaml), and no more.

It has one catalog, takes what the API's `CreateTable` and `CreateSchema` list, and answers with the
error codes and statuses of the open-source server.  It changes no table, since no call does.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.servers import HOST

CATALOG = "main"
_API = "/api/2.1/unity-catalog"
_NAME = re.compile(r"[a-zA-Z0-9_@-]{1,255}")
_TYPES = {
    *("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "DATE", "TIMESTAMP"),
    *("TIMESTAMP_NTZ", "STRING", "BINARY", "DECIMAL", "ARRAY", "STRUCT", "MAP"),
}
_SCHEMA = {"name", "catalog_name", "comment", "properties"}
_TABLE = _SCHEMA | {
    *("schema_name", "table_type", "data_source_format", "columns", "storage_location"),
}
_COLUMN = {
    *("name", "type_text", "type_json", "type_name", "type_precision", "type_scale", "position"),
    *("comment", "nullable"),
}
_LARGEST_PAGE = 50


class Failure(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        self.status, self.code, self.message = status, code, message
        super().__init__(message)


@dataclass
class UnityServer:
    """What the server has, and which calls it got."""

    url: str = ""
    token: str | None = None
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)
    tables: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    # Answers that never arrive, by call.
    lost: set[str] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    def answer(self, method: str, target: str, content: Any) -> tuple[str, dict[str, Any]]:
        """Answer a call; return what it is called, too."""
        path, parameters = urlsplit(target).path, dict(parse_qsl(urlsplit(target).query))
        kind, _, name = path.removeprefix(f"{_API}/").partition("/")
        call = f"{method} {kind}{'/name' if name else ''}"
        parts = unquote(name).split(".")
        with self._lock:
            self.calls[call] += 1
            match call:
                case "GET schemas":
                    self._require_catalog(parameters["catalog_name"])
                    return call, _list(kind, self.schemas, parameters)
                case "POST schemas":
                    return call, self._create_schema(content)
                case "GET tables":
                    schema = parameters["schema_name"]
                    self._require_schema(parameters["catalog_name"], schema)
                    found = {n[1]: t for n, t in self.tables.items() if n[0] == schema}
                    return call, _list(kind, found, parameters)
                case "POST tables":
                    return call, self._create_table(content)
                case "GET tables/name":
                    return call, self.tables[self._find(parts)]
                case "DELETE tables/name":
                    del self.tables[self._find(parts)]
                    return call, {}
        raise Failure(405, "UNKNOWN", "Method Not Allowed")

    def _create_schema(self, content: dict[str, Any]) -> dict[str, Any]:
        _require_known(content, _SCHEMA)
        self._require_catalog(content["catalog_name"])
        _require_name(content["name"])
        if content["name"] in self.schemas:
            raise Failure(400, "SCHEMA_ALREADY_EXISTS", f"Schema already exists: {content['name']}")
        self.schemas[content["name"]] = content
        return content

    def _create_table(self, content: dict[str, Any]) -> dict[str, Any]:
        _require_known(content, _TABLE)
        _require_name(content["name"])
        assert content["table_type"] == "EXTERNAL"
        assert content["data_source_format"] == "DELTA"
        for position, column in enumerate(content["columns"]):
            _require_known(column, _COLUMN)
            assert column["type_name"] in _TYPES, column
            assert column["position"] == position
            assert json.loads(column["type_json"])["name"] == column["name"]
        self._require_schema(content["catalog_name"], content["schema_name"])
        name = content["schema_name"], content["name"]
        if name in self.tables:
            raise Failure(409, "ALREADY_EXISTS", f"Table already exists: {'.'.join(name)}")
        # As the server normalises and completes them.
        columns = [
            {
                "type_precision": 0,
                "partition_index": None,
                **each,
                "type_text": each["type_text"].lower(),
            }
            for each in content["columns"]
        ]
        self.tables[name] = {**content, "columns": columns[::-1], "owner": None, "created_at": 1}
        return self.tables[name]

    def _find(self, parts: list[str]) -> tuple[str, str]:
        if len(parts) != 3:
            raise Failure(400, "INVALID_ARGUMENT", "Invalid table name")
        catalog, schema, name = parts
        self._require_schema(catalog, schema)
        if (schema, name) not in self.tables:
            raise Failure(404, "NOT_FOUND", f"Table not found: {name}")
        return schema, name

    def _require_catalog(self, name: str) -> None:
        if name != CATALOG:
            raise Failure(404, "NOT_FOUND", f"Catalog not found: {name}")

    def _require_schema(self, catalog: str, name: str) -> None:
        self._require_catalog(catalog)
        if name not in self.schemas:
            raise Failure(404, "NOT_FOUND", f"Schema not found: {name}")


def _list(
    kind: str, found: Mapping[str, dict[str, Any]], parameters: Mapping[str, str]
) -> dict[str, Any]:
    after = parameters.get("page_token", "")
    names = sorted(name for name in found if name > after)
    page = [*islice(names, _LARGEST_PAGE)]
    token = page[-1] if len(page) < len(names) else None
    return {kind: [found[name] for name in page], "next_page_token": token}


def _require_known(content: Mapping[str, Any], names: set[str]) -> None:
    if strange := content.keys() - names:
        raise Failure(400, "INVALID_ARGUMENT", f"Unrecognized field {strange}")


def _require_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        text = "Name cannot contain a period, space, forward-slash, or control characters"
        raise Failure(400, "INVALID_ARGUMENT", text)


@contextmanager
def serve_unity() -> Iterator[UnityServer]:
    served = UnityServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            try:
                if served.token and self.headers["Authorization"] != f"Bearer {served.token}":
                    raise Failure(401, "UNAUTHENTICATED", f"Not {self.headers['Authorization']}")
                call, said = served.answer(self.command, self.path, content and json.loads(content))
                status = 200
                if call in served.lost:
                    self.close_connection = True
                    return
            except Failure as error:
                status = error.status
                said = {"error_code": error.code, "message": error.message, "details": []}
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_DELETE = do_PATCH = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((HOST, 0), Handler) as server:
        served.url = f"http://{HOST}:{server.server_port}"
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield served
        server.shutdown()
        thread.join()
