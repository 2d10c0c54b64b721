"""Unity Catalog, by the HTTP API of unitycatalog/unitycatalog: external Delta tables.

    storage_location      the address
    columns               type_name, type_text and type_json, by which connectors know the columns
    comment, properties   the table upstream, and whose the entry is

The API changes no table: one with other columns is dropped and created again, and readers find none
for that moment.  So an entry states what lasts, and the table itself states the rest: its
properties say at which ts it is true.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from requests import RequestException, Response, Session

from ticdc_assets.catalogs.entry import (
    OWNER,
    SQL_TYPES,
    Entry,
    EntryColumn,
    EntryName,
    Format,
    FoundEntry,
    encode_address,
    write_type,
)
from ticdc_assets.changefeed.catalog import UnityCatalog
from ticdc_assets.errors import CatalogDown, CatalogError
from ticdc_assets.rows.columns import measure_decimal
from ticdc_assets.safe_text import describe_error

_API = "/api/2.1/unity-catalog"
# What the documents say of names; some servers take fewer, and say so.
_FORBIDDEN = re.compile(r"[\x00-\x20./\x7f-\x9f\ud800-\udfff]")
_MOST_CHARS = 255
_LASTING = (OWNER, "ticdc.table", "ticdc.primary_key")
_TYPE_NAMES = {"integer": "INT"}
# Without a token that it takes, too often, out of order.
_OF_ALL_CALLS = (401, 429, 502, 503, 504)


class _Failure(CatalogError):
    """An answer of the server that is an error; `code` is the server's name of it."""

    def __init__(self, status: int, code: str, text: str) -> None:
        self.status, self.code = status, code
        text = describe_error(Exception(text))[:300] if text else ""
        super().__init__(f"Unity Catalog answers {': '.join(filter(None, [code, text]))}")


class Unity:
    """A catalog of a Unity Catalog server, through a session of HTTP that knows the token."""

    format: Format = "delta"

    def __init__(self, settings: UnityCatalog, session: Session) -> None:
        self._session = session
        self._url = settings.uri.rstrip("/") + _API
        self._catalog = settings.catalog
        self.kind = settings.kind
        self.place = f"{settings.uri} {settings.catalog}"
        self.rule = settings.database_prefix

    def map_name(self, database: str, table: str) -> EntryName:
        return _fold_name(self.rule + database), _fold_name(table)

    def locate(self, address: str) -> str:
        return encode_address(address)

    def list_databases(self) -> dict[str, Mapping[str, str]]:
        found = self._list("schemas", catalog_name=self._catalog)
        return {each["name"]: each.get("properties") or {} for each in found}

    def list_entries(self, database: str) -> dict[str, FoundEntry]:
        try:
            found = [*self._list("tables", catalog_name=self._catalog, schema_name=database)]
        except _Failure as error:
            if error.status == 404:
                return {}
            raise
        return {each["name"]: _read_entry(each) for each in found}

    def find(self, name: EntryName) -> FoundEntry | None:
        try:
            return _read_entry(self._call("GET", self._name(name)))
        except _Failure as error:
            if error.status == 404:
                return None
            raise

    def create(self, entry: Entry) -> None:
        content = self._write(entry, {})
        try:
            self._call("POST", "/tables", content=content)
        except _Failure as error:
            if error.status != 404:
                raise
            self._create_schema(entry)
            self._call("POST", "/tables", content=content)

    def _create_schema(self, entry: Entry) -> None:
        about = {
            "name": entry.database,
            "catalog_name": self._catalog,
            "comment": entry.database_comment,
            "properties": entry.database_properties,
        }
        try:
            self._call("POST", "/schemas", content=about)
        except _Failure as error:
            # Another call of this run, or another changefeed's, may have created it.  The status
            # differs by version.
            if not error.code.endswith("ALREADY_EXISTS"):
                raise

    def replace(self, entry: Entry, found: FoundEntry) -> None:
        written = self._write(entry, found.properties)
        if _list_essentials(found.answer) != _list_essentials(written):
            self.drop((entry.database, entry.name))
            self._call("POST", "/tables", content=written)

    def drop(self, name: EntryName) -> None:
        try:
            self._call("DELETE", self._name(name))
        except _Failure as error:
            if error.status != 404:
                raise

    def _name(self, name: EntryName) -> str:
        return "/tables/" + quote(".".join((self._catalog, *name)), safe="")

    def _write(self, entry: Entry, kept: Mapping[str, str]) -> dict[str, Any]:
        stated = {key: entry.properties[key] for key in _LASTING if key in entry.properties}
        return {
            "name": entry.name,
            "catalog_name": self._catalog,
            "schema_name": entry.database,
            "table_type": "EXTERNAL",
            "data_source_format": "DELTA",
            "columns": [*map(_write_column, range(len(entry.columns)), entry.columns)],
            "storage_location": entry.location,
            "comment": entry.comment,
            "properties": {**kept, **stated},
        }

    def _list(self, kind: str, **parameters: str) -> Iterator[dict[str, Any]]:
        """List tables or schemas, page by page."""
        while True:
            answer = self._call("GET", f"/{kind}", parameters=parameters)
            yield from answer.get(kind) or ()
            if not (token := answer.get("next_page_token")):
                return
            parameters["page_token"] = token

    def _call(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, str] | None = None,
        content: Any = None,
    ) -> dict[str, Any]:
        try:
            answer = self._session.request(
                method, self._url + path, params=parameters, json=content
            )
        except RequestException as error:
            reason = f"Unity Catalog does not answer: {describe_error(error)[:300]}"
            raise CatalogDown(reason) from None
        stated = _read_json(answer) if answer.content else {}
        if answer.ok and stated is not None:
            return stated
        if stated is None:
            reason = f"HTTP {answer.status_code}, and no JSON"
            raise CatalogDown(f"what is at {self._url} answers {reason}: is that Unity Catalog?")
        code = str(stated.get("error_code") or f"HTTP {answer.status_code}")
        failure = _Failure(answer.status_code, code, str(stated.get("message") or ""))
        if answer.status_code in _OF_ALL_CALLS:
            raise CatalogDown(failure.reason)
        raise failure


def _read_json(answer: Response) -> dict[str, Any] | None:
    try:
        stated = answer.json()
    except RequestException:
        return None
    return stated if isinstance(stated, dict) else None


def _fold_name(name: str) -> str:
    folded = name.lower()
    if found := _FORBIDDEN.search(folded):
        raise CatalogError(f"Unity Catalog takes no name with {found[0]!r} in it: {name!r}")
    if not folded or len(folded) > _MOST_CHARS:
        raise CatalogError(f"Unity Catalog takes names of 1 to {_MOST_CHARS} characters: {name!r}")
    return folded


def _read_entry(table: Mapping[str, Any]) -> FoundEntry:
    location, properties = table.get("storage_location"), table.get("properties")
    return FoundEntry(location or "", properties or {}, table)


def _write_column(position: int, column: EntryColumn) -> dict[str, Any]:
    type = column.delta_type
    kind = type["type"] if isinstance(type, dict) else type.partition("(")[0]
    field = {"name": column.name, "type": type, "nullable": column.is_nullable, "metadata": {}}
    written = {
        "name": column.name,
        "type_text": write_type(type, SQL_TYPES),
        "type_json": json.dumps(field, ensure_ascii=False),
        "type_name": _TYPE_NAMES.get(kind, kind.upper()),
        "position": position,
        "nullable": column.is_nullable,
        "comment": column.comment,
    }
    if kind == "decimal":
        written["type_precision"], written["type_scale"] = measure_decimal(type)
    return written


def _list_essentials(table: Mapping[str, Any]) -> tuple[Any, ...]:
    """List what an entry says, whatever form the server gives it."""
    columns = [
        (
            each["name"],
            each["type_text"].lower(),
            each.get("nullable", True),
            each.get("comment") or "",
        )
        for each in sorted(table.get("columns") or (), key=lambda each: each.get("position", 0))
    ]
    location = table.get("storage_location") or ""
    return columns, location.rstrip("/"), table.get("comment") or "", table.get("properties") or {}
