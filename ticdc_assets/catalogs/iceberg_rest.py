"""A catalog of Iceberg tables, by Iceberg's REST protocol.

For each table the catalog writes its own metadata into a folder of the lake, as the updates say
that `iceberg_updates` lists.  It names the manifests in the table's folder, so no file is written
twice, and dropping an entry, which never purges, removes none.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Lock

from pydantic import ValidationError
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    OAuthError,
    RESTError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TooManyRequestsError,
    UnauthorizedError,
)
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AssertCreate,
    AssertRefSnapshotId,
    AssertTableUUID,
    TableRequirement,
    TableUpdate,
)
from requests import RequestException

from ticdc_assets.catalogs.calls import call_each
from ticdc_assets.catalogs.entry import Entry, EntryName, Format, FoundEntry
from ticdc_assets.catalogs.iceberg_updates import list_first_updates, list_updates, states
from ticdc_assets.changefeed.catalog import IcebergRestCatalog
from ticdc_assets.errors import CatalogDown, CatalogError
from ticdc_assets.lake.iceberg.published import make_uri
from ticdc_assets.safe_text import describe_error

# What no URL and no identifier of the protocol can hold, whatever the catalog takes.
_FORBIDDEN = re.compile(r"[\x00-\x1f/\x7f-\x9f\ud800-\udfff]")
_OF_ALL_CALLS = (
    AuthorizationExpiredError,
    OAuthError,
    RequestException,
    ServiceUnavailableError,
    TooManyRequestsError,
    UnauthorizedError,
)
_OF_ONE_CALL = (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    # Of a call that the catalog does not offer.
    NotImplementedError,
    RESTError,
    TableAlreadyExistsError,
    # Of an answer that does not follow the protocol.
    ValueError,
)


class IcebergRest:
    """A REST catalog, through a client of pyiceberg that is connected when it is first called."""

    format: Format = "iceberg"

    def __init__(self, settings: IcebergRestCatalog, connect: Callable[[], RestCatalog]) -> None:
        self._connect = connect
        self._client: RestCatalog | None = None
        self._databases: set[str] = set()
        self._lock = Lock()
        self.kind = settings.kind
        self.place = " ".join(filter(None, [settings.uri, settings.warehouse]))
        self.rule = settings.database_prefix

    def map_name(self, database: str, table: str) -> EntryName:
        folded = _fold_name(self.rule + database)
        if "." in folded:
            raise CatalogError(f"Iceberg takes a dot in a database for two of them: {folded!r}")
        return folded, _fold_name(table)

    def locate(self, address: str) -> str:
        return make_uri(address)

    def list_databases(self) -> dict[str, Mapping[str, str]]:
        with self._called() as client:
            names = [each[0] for each in client.list_namespaces() if len(each) == 1]
            found = call_each(lambda name: client.load_namespace_properties((name,)), names)
        # One that may not be read, or is gone by now, is nobody's.
        return {name: {} if isinstance(each, Exception) else each for name, each in found.items()}

    def list_entries(self, database: str) -> dict[str, None]:
        with self._called() as client:
            try:
                return {name: None for *_, name in client.list_tables((database,))}
            except NoSuchNamespaceError:
                return {}

    def find(self, name: EntryName) -> FoundEntry | None:
        with self._called() as client:
            try:
                table = client.load_table(name)
            except NoSuchTableError:
                return None
        return FoundEntry(table.metadata.location, table.metadata.properties, table)

    def create(self, entry: Entry) -> None:
        name, wanted = (entry.database, entry.name), _get_metadata(entry)
        with self._called() as client:
            self._create_namespace(client, entry)
            begun = client.create_table_transaction(name, wanted.schema(), wanted.location)._table
            updates = list_first_updates(begun.metadata, wanted, entry.properties)
            _commit(client, begun, (AssertCreate(),), updates, wanted)

    def _create_namespace(self, client: RestCatalog, entry: Entry) -> None:
        with self._lock:
            if entry.database in self._databases:
                return
            try:
                client.load_namespace_properties((entry.database,))
            except NoSuchNamespaceError:
                about = {**entry.database_properties, "comment": entry.database_comment}
                # Another changefeed may have created it.
                with suppress(NamespaceAlreadyExistsError):
                    client.create_namespace((entry.database,), about)
            self._databases.add(entry.database)

    def replace(self, entry: Entry, found: FoundEntry) -> None:
        wanted = _get_metadata(entry)
        with self._called() as client:
            table: Table = found.answer or client.load_table((entry.database, entry.name))
            known = table.metadata
            updates = list_updates(known, wanted, entry.properties)
            # Whoever changed it meanwhile is not overwritten unseen.
            requirements = (
                AssertTableUUID(uuid=known.table_uuid),
                AssertRefSnapshotId.model_validate(
                    {"ref": "main", "snapshot-id": known.current_snapshot_id}
                ),
            )
            if updates:
                _commit(client, table, requirements, updates, wanted)

    def drop(self, name: EntryName) -> None:
        with self._called() as client, suppress(NoSuchTableError):
            client.drop_table(name, purge_requested=False)

    @contextmanager
    def _called(self) -> Iterator[RestCatalog]:
        """Connect, and replace the errors of the client by ours."""
        client = None
        try:
            with self._lock:
                client = self._client = self._client or self._connect()
            yield client
        except _OF_ALL_CALLS as error:
            reason = f"the Iceberg catalog does not answer: {_describe(error)}"
            raise CatalogDown(reason) from None
        except _OF_ONE_CALL as error:
            reason = f"the Iceberg catalog answers {_describe(error)}"
            # Without a connection, no call has an answer.
            raise (CatalogDown if client is None else CatalogError)(reason) from None


def _commit(
    client: RestCatalog,
    table: Table,
    requirements: tuple[TableRequirement, ...],
    updates: tuple[TableUpdate, ...],
    wanted: TableMetadata,
) -> None:
    done = client.commit_table(table, requirements, updates)
    if not states(done.metadata, wanted):
        raise CatalogError("the Iceberg catalog states other rows or columns than it was sent")


def _describe(error: Exception) -> str:
    if isinstance(error, ValidationError):
        # Its own text quotes a part of the answer, such as the end of a secret without its name.
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        stated = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in faults)
        error = ValueError(f"no {error.title} of the protocol: {'; '.join(stated)}")
    return describe_error(error)[:300]


def _get_metadata(entry: Entry) -> TableMetadata:
    assert entry.metadata is not None
    return entry.metadata


def _fold_name(name: str) -> str:
    folded = name.lower()
    if found := _FORBIDDEN.search(folded):
        raise CatalogError(f"Iceberg's protocol takes no name with {found[0]!r} in it: {name!r}")
    return folded
