"""Hive Metastore, by its Thrift protocol: entries as Spark writes them for Delta tables.

Its names are in lower case, with letters, digits and _ only.  One connection does all calls, one
after the other.
"""

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from pymetastore.hive_metastore import ttypes
from thrift.Thrift import TException
from thrift.transport.TTransport import TTransportException

from ticdc_assets.catalogs.entry import (
    DELTA_PROPERTIES,
    INPUT_FORMAT,
    OUTPUT_FORMAT,
    SERDE,
    Entry,
    EntryName,
    Format,
    FoundEntry,
)
from ticdc_assets.changefeed.catalog import HiveCatalog
from ticdc_assets.errors import CatalogDown, CatalogError
from ticdc_assets.safe_text import describe_error

_NAME = re.compile(r"[a-z0-9_]{1,128}")
_MOST_CHARS_OF_COMMENT = 255
_LISTED_AT_ONCE = 100


class Hive:
    """A Hive Metastore, through a client of Thrift that is connected when it is first called."""

    format: Format = "delta"

    def __init__(self, settings: HiveCatalog, transport: Any, client: Any) -> None:
        self._transport = transport
        self._client = client
        self._lock = threading.Lock()
        self.kind = settings.kind
        self.place = settings.uri
        self.rule = settings.database_prefix

    def map_name(self, database: str, table: str) -> EntryName:
        return _fold_name(self.rule + database), _fold_name(table)

    def locate(self, address: str) -> str:
        # As Hadoop writes paths, and as the server returns them.
        return address if "://" in address else f"file:{address}"

    def list_databases(self) -> dict[str, Mapping[str, str]]:
        with self._called() as client:
            names = client.get_all_databases()
            found: dict[str, Mapping[str, str]] = {}
            for name in names:
                # One that may not be read, or is gone by now, is nobody's.
                with suppress(ttypes.MetaException, ttypes.NoSuchObjectException):
                    found[name] = client.get_database(name).parameters or {}
            return found

    def list_entries(self, database: str) -> dict[str, FoundEntry]:
        found: list[Any] = []
        with self._called() as client:
            names = client.get_all_tables(database)
            for start in range(0, len(names), _LISTED_AT_ONCE):
                some = names[start : start + _LISTED_AT_ONCE]
                found += client.get_table_objects_by_name(database, some)
        return {table.tableName: _read_entry(table) for table in found}

    def find(self, name: EntryName) -> FoundEntry | None:
        with self._called() as client:
            try:
                return _read_entry(client.get_table(*name))
            except ttypes.NoSuchObjectException:
                return None

    def create(self, entry: Entry) -> None:
        table = ttypes.Table(
            tableName=entry.name, dbName=entry.database, retention=0, partitionKeys=[]
        )
        _fill(table, entry, {})
        with self._called() as client:
            try:
                client.get_database(entry.database)
            except ttypes.NoSuchObjectException:
                about, own = entry.database_comment, entry.database_properties
                client.create_database(ttypes.Database(entry.database, about, None, own))
            client.create_table(table)

    def replace(self, entry: Entry, found: FoundEntry) -> None:
        with self._called() as client:
            table = client.get_table(entry.database, entry.name)
            _fill(table, entry, found.properties)
            try:
                client.alter_table(entry.database, entry.name, table)
            except ttypes.InvalidOperationException:
                # The server compares types by position, so that a column in the middle is none
                # that it takes.  It has nothing to compare with a table without columns, and
                # engines read the columns of a Delta table from its log.
                columns, table.sd.cols = table.sd.cols, []
                client.alter_table(entry.database, entry.name, table)
                table.sd.cols = columns
                client.alter_table(entry.database, entry.name, table)

    def drop(self, name: EntryName) -> None:
        with self._called() as client:
            try:
                client.drop_table(*name, deleteData=False)
            except ttypes.NoSuchObjectException:
                return

    @contextmanager
    def _called(self) -> Iterator[Any]:
        """Connect, wait for other calls, and replace the errors of the client by ours."""
        with self._lock:
            try:
                if not self._transport.isOpen():
                    self._transport.open()
                yield self._client
            except (TTransportException, OSError) as error:
                # What it answers later would be taken for the answer to another call.
                self._transport.close()
                reason = f"Hive Metastore does not answer: {describe_error(error)[:300]}"
                raise CatalogDown(reason) from None
            except TException as error:
                stated = Exception(getattr(error, "message", None) or type(error).__name__)
                reason = f"Hive Metastore answers {describe_error(stated)[:300]}"
                raise CatalogError(reason) from None


def _fold_name(name: str) -> str:
    folded = name.lower()
    if not _NAME.fullmatch(folded):
        reason = "takes up to 128 letters, digits and _ as a name"
        raise CatalogError(f"Hive Metastore {reason}: {name!r}")
    return folded


def _read_entry(table: Any) -> FoundEntry:
    location = (table.sd and table.sd.location) or ""
    return FoundEntry(location, table.parameters or {})


def _fill(table: Any, entry: Entry, kept: Mapping[str, str]) -> None:
    columns = [
        ttypes.FieldSchema(
            column.name.lower(), column.type, column.comment[:_MOST_CHARS_OF_COMMENT]
        )
        for column in entry.columns
    ]
    serde = ttypes.SerDeInfo(None, SERDE, {"path": entry.location})
    table.sd = ttypes.StorageDescriptor(
        cols=columns,
        location=entry.location,
        inputFormat=INPUT_FORMAT,
        outputFormat=OUTPUT_FORMAT,
        compressed=False,
        numBuckets=-1,
        serdeInfo=serde,
        bucketCols=[],
        sortCols=[],
        parameters={},
    )
    table.tableType = "EXTERNAL_TABLE"
    table.parameters = {**kept, **entry.properties, "comment": entry.comment, **DELTA_PROPERTIES}
