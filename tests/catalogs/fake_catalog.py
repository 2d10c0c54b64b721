"""A catalog in memory, which does what a test says before it answers."""

from collections.abc import Callable, Mapping
from typing import Any

from ticdc_assets.catalogs.entry import Entry, EntryName, Format, FoundEntry


class FakeCatalog:
    kind = "fake"
    place = "here"
    rule = ""

    def __init__(
        self, format: Format = "delta", before: Callable[..., object] = lambda *_: None
    ) -> None:
        self.format: Format = format
        self.calls: list[tuple[Any, ...]] = []
        self.databases: dict[str, Mapping[str, str]] = {}
        self.entries: dict[EntryName, FoundEntry] = {}
        self._before = before

    def _call(self, *call: Any) -> None:
        self.calls.append(call)
        self._before(*call)

    def map_name(self, database: str, table: str) -> EntryName:
        return database, table

    def locate(self, address: str) -> str:
        return f"file://{address}"

    def list_databases(self) -> dict[str, Any]:
        self._call("list databases")
        return dict(self.databases)

    def list_entries(self, database: str) -> dict[str, None]:
        self._call("list", database)
        return {name: None for each, name in self.entries if each == database}

    def find(self, name: EntryName) -> FoundEntry | None:
        self._call("find", *name)
        return self.entries.get(name)

    def create(self, entry: Entry) -> None:
        self._call("create", entry.database, entry.name)
        self.databases.setdefault(entry.database, entry.database_properties)
        found = FoundEntry(entry.location, entry.properties)
        self.entries[entry.database, entry.name] = found

    def replace(self, entry: Entry, found: FoundEntry) -> None:
        self._call("replace", entry.database, entry.name)

    def drop(self, name: EntryName) -> None:
        self._call("drop", *name)
        del self.entries[name]
