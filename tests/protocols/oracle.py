"""What the rows of a workload are, read from a `simple-json` dataset with nothing but `json`.

Simple states its types and writes values in the plainest way, so what the decoders of the other
protocols say of the same transactions can be held against it value by value.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tests.golden import meta, records
from ticdc_assets.events import Op, RowChange, SchemaChange, row_image
from ticdc_assets.protocols.compression import Compression

Row = dict[str, Any]

_OPS = {"INSERT": Op.INSERT, "UPDATE": Op.UPDATE, "DELETE": Op.DELETE}
_MILLISECOND = 1 << 18


class Change(NamedTuple):
    op: Op
    database: str
    table: str
    commit_ts: int
    before: Row | None
    after: Row | None

    def only(self, columns: Iterable[str]) -> "Change":
        """The change as far as some columns go."""
        before, after = (
            row and {name: row[name] for name in columns} for row in (self.before, self.after)
        )
        return self._replace(before=before, after=after)


class Workload:
    """The rows and DDLs of a simple-json dataset from a server in UTC.

    `milliseconds` cuts commit timestamps down to what protocols without them can tell.
    """

    def __init__(self, dataset: str, *, milliseconds: bool) -> None:
        self._unit = _MILLISECOND if milliseconds else 1
        messages = [json.loads(record.value or b"") for record in records(dataset)]
        by_version: dict[tuple[str, str, int], dict[str, str]] = {}
        # Simple calls the handle key primary even where it is a unique key.
        handle: dict[tuple[str, str, int], set[str]] = {}
        for message in messages:
            if schema := message.get("tableSchema"):
                version = schema["schema"], schema["table"], schema["version"]
                by_version[version] = {
                    column["name"]: column["dataType"]["mysqlType"] for column in schema["columns"]
                }
                handle[version] = {
                    column
                    for index in schema["indexes"] or ()
                    if index["primary"]
                    for column in index["columns"]
                }
        # MySQL types of the columns by database, table and commit ts.
        self.types: dict[tuple[str, str, int], dict[str, str]] = defaultdict(dict)
        # Handle keys and physical ids that are right at that commit ts.
        self.handle_keys: dict[tuple[str, str, int], list[set[str]]] = defaultdict(list)
        self.table_ids: dict[tuple[str, str, int], set[int]] = defaultdict(set)
        self.changes: dict[bytes, Change] = {}
        for message in messages:
            if message["type"] not in _OPS:
                continue
            database, table = message["database"], message["table"]
            ts = self._cut(message["commitTs"])
            types = by_version[database, table, message["schemaVersion"]]
            self.types[database, table, ts] |= types
            self.handle_keys[database, table, ts].append(
                handle[database, table, message["schemaVersion"]]
            )
            self.table_ids[database, table, ts].add(message["tableID"])
            change = Change(
                op=_OPS[message["type"]],
                database=database,
                table=table,
                commit_ts=ts,
                before=_row(message.get("old"), types),
                after=_row(message.get("data"), types),
            )
            self.changes[_key(change)] = change
        self.ddls = {
            (self._cut(message["commitTs"]), message["sql"])
            for message in messages
            if message.get("sql")
        }
        self.watermarks = {m["commitTs"] for m in messages if m["type"] == "WATERMARK"}

    def _cut(self, ts: int) -> int:
        return ts - ts % self._unit

    def change(self, event: RowChange) -> Change:
        """A decoded event in these words; the old row of an update is made whole."""
        ts = self._cut(event.commit_ts)
        types = self.types[event.database, event.table, ts]
        after = None if event.after is None else _numbers(row_image.load(event.after), types)
        before = None if event.before is None else _numbers(row_image.load(event.before), types)
        if event.op is Op.UPDATE and before is not None and after is not None:
            before = after | before
        return Change(event.op, event.database, event.table, ts, before, after)

    def differences(self, events: Iterable[RowChange]) -> tuple[list[Change], list[Change]]:
        """What events say otherwise, and what they do not say; saying it twice is no difference."""
        said = {_key(change): change for change in map(self.change, events)}
        return (
            [change for key, change in said.items() if key not in self.changes],
            [change for key, change in self.changes.items() if key not in said],
        )

    def partial_differences(self, events: Iterable[RowChange]) -> list[Change]:
        """What events that hold some columns only say otherwise of these."""
        like = defaultdict(list)
        for change in self.changes.values():
            like[change[:4]].append(change)
        differences = []
        for event in events:
            partial = self.change(event)
            columns = list(partial.after or partial.before or ())
            candidates = {_key(whole.only(columns)) for whole in like[partial[:4]]}
            if _key(partial) not in candidates:
                differences.append(partial)
        return differences

    def knows_key_of(self, event: RowChange) -> bool:
        """Tell whether the key columns and the table id of an event, if it has any, are right."""
        place = event.database, event.table, self._cut(event.commit_ts)
        return (
            event.key_columns is None or set(event.key_columns) in self.handle_keys[place]
        ) and (event.table_id is None or event.table_id in self.table_ids[place])

    def ddl_differences(self, events: Iterable[SchemaChange]) -> set[tuple[int, str]]:
        return {(self._cut(event.commit_ts), event.sql) for event in events} ^ self.ddls


@cache
def workload(dataset: str, *, milliseconds: bool = False) -> Workload:
    """The oracle of a dataset of another protocol."""
    name, _, variant = dataset.partition("/")
    prefix = "newarch-" if variant.startswith("newarch-") else ""
    suffix = next((s for s in ("-raw-change", "-force-replicate") if variant.endswith(s)), "")
    return _workload(f"{name}/{prefix}simple-json{suffix}", milliseconds)


@cache
def _workload(dataset: str, milliseconds: bool) -> Workload:
    return Workload(dataset, milliseconds=milliseconds)


def compression(dataset: str) -> Compression:
    """How the messages of a dataset are compressed."""
    return "lz4" if "lz4" in dataset else "snappy" if "snappy" in dataset else "none"


def repeats_another(dataset: str) -> bool:
    """Tell whether a large dataset holds the messages of another one again, in another order."""
    return dataset.startswith("random_") and dataset.endswith(("-replayed", "-restart"))


def zone(dataset: str) -> str:
    name: str = meta(dataset)["timezone"]
    return name


class Folder:
    """A claim-check storage that is a folder."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def fetch(self, name: str) -> bytes:
        return (self._path / name).read_bytes()


def _row(row: dict[str, Any] | None, types: Mapping[str, str]) -> Row | None:
    if row is None:
        return None
    texts = {
        name: value["value"] if isinstance(value, dict) else value for name, value in row.items()
    }
    return _numbers(texts, types)


def _numbers(row: Mapping[str, str | None], types: Mapping[str, str]) -> Row:
    # The notation of floats is free.
    return {
        name: float(value) if value is not None and types[name] in ("float", "double") else value
        for name, value in row.items()
    }


def _key(change: Change) -> bytes:
    return msgspec.json.encode(change, order="deterministic")
