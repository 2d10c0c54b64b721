"""AWS Glue: entries as Athena, Trino, Redshift Spectrum, EMR and Spark find Delta tables there.

    Parameters  table_type = DELTA                    Athena: read natively, by Delta's log
                spark.sql.sources.provider = delta    Trino and Spark: which connector reads it
                EXTERNAL = TRUE                       DROP TABLE removes no files
    SerdeInfo   path = the location                   Trino, Athena and Spark take it from there
    Columns     types of Hive                         Lake Formation, the console, crawlers

Glue keeps names in lower case, up to 255 bytes, and takes no control characters.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from ticdc_assets.catalogs.entry import (
    DELTA_PROPERTIES,
    INPUT_FORMAT,
    OUTPUT_FORMAT,
    OWNER,
    SERDE,
    Entry,
    EntryName,
    Format,
    FoundEntry,
    encode_address,
)
from ticdc_assets.changefeed.catalog import GlueCatalog
from ticdc_assets.errors import CatalogDown, CatalogError
from ticdc_assets.safe_text import describe_error

# What the API's own definition states of names, comments and descriptions.
_FORBIDDEN = re.compile(r"[^\t\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MOST_BYTES = 255
_MOST_CHARS_OF_COMMENT = 255
_MOST_CHARS_OF_DESCRIPTION = 2048
# The errors whose texts say what to do, and quote no signed request.
_SPEAKING = (
    "AccessDeniedException",
    "InvalidInputException",
    "ResourceNumberLimitExceededException",
)
# Errors that every further call would get, too.
_OF_ALL_CALLS = (
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "OptInRequired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
)


class Glue:
    """The Glue Data Catalog, through a client of boto3."""

    format: Format = "delta"

    def __init__(self, settings: GlueCatalog, client: Any) -> None:
        self._client = client
        # The client makes the classes of its errors when it first meets one.  Two threads that meet
        # one at once may each make their own, and neither catches what the other's class is of.
        self._errors = client.exceptions
        self._prefix = settings.database_prefix
        self._account = {} if settings.account is None else {"CatalogId": settings.account}
        self.kind = settings.kind
        self.rule = settings.database_prefix
        self.place = f"{client.meta.endpoint_url} {settings.account or ''}".strip()

    def map_name(self, database: str, table: str) -> EntryName:
        return _fold_name(self._prefix + database), _fold_name(table)

    def locate(self, address: str) -> str:
        return encode_address(address)

    def list_databases(self) -> dict[str, Mapping[str, str]]:
        pages = self._client.get_paginator("get_databases")
        with _explained():
            found = [db for page in pages.paginate(**self._account) for db in page["DatabaseList"]]
        return {each["Name"]: each.get("Parameters") or {} for each in found}

    def list_entries(self, database: str) -> dict[str, FoundEntry]:
        pages = self._client.get_paginator("get_tables")
        with _explained():
            try:
                listed = pages.paginate(DatabaseName=database, **self._account)
                found = [table for page in listed for table in page["TableList"]]
            except self._errors.EntityNotFoundException:
                return {}
        return {each["Name"]: _read_entry(each) for each in found}

    def find(self, name: EntryName) -> FoundEntry | None:
        with _explained():
            try:
                answer = self._client.get_table(**_name(name), **self._account)
            except self._errors.EntityNotFoundException:
                return None
        return _read_entry(answer["Table"])

    def create(self, entry: Entry) -> None:
        request = {"DatabaseName": entry.database, "TableInput": _write_entry(entry, {})}
        with _explained():
            try:
                try:
                    self._client.create_table(**request, **self._account)
                except self._errors.EntityNotFoundException:
                    self._create_database(entry)
                    self._client.create_table(**request, **self._account)
            except self._errors.AlreadyExistsException:
                # The client repeats a call without an answer, and the first one may have worked.
                found = self.find((entry.database, entry.name))
                if found is None or found.properties.get(OWNER) != entry.properties[OWNER]:
                    raise
                self.replace(entry, found)

    def _create_database(self, entry: Entry) -> None:
        about = {
            "Name": entry.database,
            "Description": entry.database_comment,
            "Parameters": entry.database_properties,
        }
        # Another call of this run, or another changefeed's, may have created it.
        with suppress(self._errors.AlreadyExistsException):
            self._client.create_database(DatabaseInput=about, **self._account)

    def replace(self, entry: Entry, found: FoundEntry) -> None:
        written = _write_entry(entry, found.properties)
        with _explained():
            # Without an archive: Glue limits how many versions of tables it keeps.
            self._client.update_table(
                DatabaseName=entry.database, TableInput=written, SkipArchive=True, **self._account
            )

    def drop(self, name: EntryName) -> None:
        with _explained(), suppress(self._errors.EntityNotFoundException):
            self._client.delete_table(**_name(name), **self._account)


def _name(name: EntryName) -> dict[str, str]:
    return {"DatabaseName": name[0], "Name": name[1]}


def _fold_name(name: str) -> str:
    folded = name.lower()
    if found := _FORBIDDEN.search(folded):
        raise CatalogError(f"Glue takes no name with {found[0]!r} in it: {name!r}")
    if len(folded.encode()) > _MOST_BYTES:
        raise CatalogError(f"Glue takes names of up to {_MOST_BYTES} bytes: {name!r}")
    return folded


def _read_entry(table: Mapping[str, Any]) -> FoundEntry:
    location = (table.get("StorageDescriptor") or {}).get("Location") or ""
    return FoundEntry(location, table.get("Parameters") or {})


def _write_entry(entry: Entry, kept: Mapping[str, str]) -> dict[str, Any]:
    columns: dict[str, dict[str, str]] = {}
    for column in entry.columns:
        name = _fold_name(column.name)
        if name in columns:
            raise CatalogError(f"Glue takes two of its columns for one: {name!r}")
        comment = _fit(column.comment, _MOST_CHARS_OF_COMMENT)
        columns[name] = {"Name": name, "Type": column.type, "Comment": comment}
    serde = {"SerializationLibrary": SERDE, "Parameters": {"path": entry.location}}
    return {
        "Name": entry.name,
        "Description": _fit(entry.comment, _MOST_CHARS_OF_DESCRIPTION),
        "TableType": "EXTERNAL_TABLE",
        "Parameters": {**kept, **entry.properties, **DELTA_PROPERTIES},
        "StorageDescriptor": {
            "Columns": [*columns.values()],
            "Location": entry.location,
            "InputFormat": INPUT_FORMAT,
            "OutputFormat": OUTPUT_FORMAT,
            "SerdeInfo": serde,
        },
    }


def _fit(text: str, most: int) -> str:
    """Return a comment without what Glue does not take: line breaks become spaces."""
    text = _FORBIDDEN.sub(" ", text)
    return text if len(text) <= most else text[: most - 1] + "…"


@contextmanager
def _explained() -> Iterator[None]:
    """Replace the errors of the client by ours."""
    try:
        yield
    except ClientError as error:
        stated = error.response.get("Error", {})
        code = stated.get("Code", "unknown error")
        text = describe_error(Exception(stated.get("Message", "")))[:300]
        reason = f"{code}: {text}" if code in _SPEAKING else code
        kind = CatalogDown if code in _OF_ALL_CALLS else CatalogError
        raise kind(f"Glue answers {reason}") from None
    except BotoCoreError as error:
        raise CatalogDown(f"Glue does not answer: {describe_error(error)[:300]}") from None
