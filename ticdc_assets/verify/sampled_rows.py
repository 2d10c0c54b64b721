"""Verify some of a current table's rows as they are stored, by the checksums of their events.

No Spark: a sample takes rows from a few places of the table, those of a place with neighbouring
commit ts, so that a few row groups of the table and of `events` are read, however large the two
are.  A row is right if its checksum is one of those that TiCDC stated for rows of its commit ts, so
a table needs no key, and of `events` only narrow columns are read.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from ticdc_assets.errors import CONTENT_ERRORS
from ticdc_assets.events import RowChange, TableSchema
from ticdc_assets.events.row_image import EITHER
from ticdc_assets.events.written import read_json
from ticdc_assets.rows.columns import COMMIT_TS, INEXACT, list_stored_columns
from ticdc_assets.rows.stored import read_stored
from ticdc_assets.rows.table_rows import leave_out_kept, read_columns
from ticdc_assets.schema.types.checksum import RowHasher
from ticdc_assets.schema.types.row import RowReader
from ticdc_assets.schema.types.value import Value
from ticdc_assets.store.event_rows import SCHEMA, make_table_name, read_row_change
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import StoredRows

# A sample's places: one data file each.
_PLACES = 4
_POSITIONS = 3
_EVENT_COLUMNS = ("commit_ts", "op", "checksum", "handle_key_only")


@dataclass(frozen=True)
class AlteredRow:
    """A stored row that has none of the checksums that TiCDC stated for its commit ts."""

    commit_ts: int
    # Of the row's event; of a few events of its commit ts where no key tells which one it is.
    position: str
    # The data file, below the table.
    file: str
    # None where the event is not known.
    stated: int | None
    # None for a value that its column's type does not have.
    computed: int | None


@dataclass(frozen=True)
class VerifiedSample:
    """How many rows of a sample are right, and those that are not; others prove nothing."""

    right: int = 0
    altered: list[AlteredRow] = field(default_factory=list)


@dataclass(frozen=True)
class _StoredRow:
    commit_ts: int
    file: str
    # The block that has just this row.
    block: Mapping[str, pa.Array]


class SampleVerifier:
    """Verifies samples of the current tables of one lake, whose logs it opens once."""

    def __init__(self, reader: LakeReader) -> None:
        self._reader = reader
        self._events = reader.open("events")
        self._schema_history = reader.open("schema_history")

    def verify(self, incarnation: str, version: int, rows: int, random: Random) -> VerifiedSample:
        """Verify about as many rows of a table at a Delta version as `rows` says."""
        history = _read_history(self._reader, self._schema_history, incarnation)
        stored = StoredRows(self._reader, f"current/{incarnation}", version)
        if history is None or stored.unknown_features:
            return VerifiedSample()
        blocks = list(stored.sample(_PLACES, random))
        chosen = [
            row
            for file, stored_block in blocks
            for block in [leave_out_kept(stored_block, history.schema)]
            for row in _choose_rows(file, block, history.since, -(-rows // len(blocks)), random)
        ]
        events = _Events(self._reader, self._events, history, {row.commit_ts for row in chosen})
        hasher = RowHasher(history.schema)
        right, altered = 0, []
        for row in chosen:
            stated = events.stated.get(row.commit_ts)
            if stated is None:
                continue
            values = _read_values(row, history.schema)
            computed = None if values is None else hasher.hash_values(values)
            if computed in stated:
                right += 1
            elif values is None or computed is not None:
                altered.append(events.describe(row, values, computed))
        return VerifiedSample(right, altered)


def _read_values(row: _StoredRow, schema: TableSchema) -> Mapping[str, Value] | None:
    """Return the values of a row; None if one is no value of its column's type."""
    try:
        stored = read_columns(row.block, schema)
        columns = list_stored_columns(schema)
        return {c.name: read_stored(stored[c.name], c.type)[0] for c in columns}
    except CONTENT_ERRORS:
        return None


@dataclass(frozen=True)
class _History:
    """What the schema history tells of a table."""

    schema: TableSchema
    # Its names in `events`.
    names: Collection[str]
    # The ts up to which its rows may have been written under other columns, or in another table.
    since: int


def _read_history(
    reader: LakeReader, schema_history: DeltaTable, incarnation: str
) -> _History | None:
    columns = ["valid_from", "origin", "sql", "schema"]
    where = pc.field("incarnation") == incarnation
    rows = reader.read(schema_history, columns, where).to_pylist()
    if not rows:
        return None
    versions = [
        (row, read_json(row["schema"], TableSchema))
        for row in sorted(rows, key=lambda row: row["valid_from"])
    ]
    newest = versions[-1][1]
    first, _ = versions[0]
    # The first rows made a table known that no DDL created.
    since = first["valid_from"] if first["origin"] in ("ddl", "load") else -1
    before = _list_hashed(versions[0][1])
    for row, schema in versions[1:]:
        if _list_hashed(schema) != before or "EXCHANGE" in (row["sql"] or "").upper():
            since = row["valid_from"]
        before = _list_hashed(schema)
    names = {make_table_name(schema.database, schema.table) or "" for _, schema in versions}
    return _History(newest, names, since)


def _list_hashed(schema: TableSchema) -> object:
    columns = [(column.name, column.type, column.generated) for column in schema.columns]
    return columns, schema.checksum_order


def _choose_rows(
    file: str, block: Mapping[str, pa.Array], since: int, rows: int, random: Random
) -> Iterator[_StoredRow]:
    """Choose rows whose commit ts are neighbours: their events are near each other."""
    tsos = block[COMMIT_TS].to_pylist()
    places = sorted((ts, at) for at, ts in enumerate(tsos) if ts > since)
    first = random.randrange(max(len(places) - rows, 0) + 1)
    for ts, at in places[first : first + rows]:
        one = {name: array.slice(at, 1) for name, array in block.items()}
        exact_texts = one[INEXACT].to_pylist()[0] if INEXACT in one else None
        # A TIMESTAMP that is one of two moments has no one checksum.
        if not any(EITHER in text for _, text in exact_texts or ()):
            yield _StoredRow(ts, file, one)


class _Events:
    """The checksums that TiCDC stated for the rows of some commit ts of a table.

    A commit ts is left out if it has a row without one.
    """

    def __init__(
        self, reader: LakeReader, table: DeltaTable, history: _History, tsos: Collection[int]
    ) -> None:
        self._reader = reader
        self._history = history
        self._table = table
        stated: dict[int, set[int]] = defaultdict(set)
        unknown = set()
        for event in self._read(_EVENT_COLUMNS, tsos) if tsos else ():
            if event["op"] == "delete":
                continue
            checksum = event["checksum"] or {"corrupted": True}
            if checksum["corrupted"] or event["handle_key_only"] or not checksum["current"]:
                unknown.add(event["commit_ts"])
            else:
                stated[event["commit_ts"]].add(checksum["current"])
        self.stated = {ts: found for ts, found in stated.items() if ts not in unknown}

    def _read(self, columns: Sequence[str], tsos: Collection[int]) -> list[dict[str, Any]]:
        where = (
            (pc.field("kind") == "row")
            & pc.field("name").isin(sorted(self._history.names))
            & pc.field("commit_ts").isin(sorted(tsos))
        )
        rows: list[dict[str, Any]] = self._reader.read(self._table, columns, where).to_pylist()
        return rows

    def describe(
        self, row: _StoredRow, values: Mapping[str, Value] | None, computed: int | None
    ) -> AlteredRow:
        """Describe a row that differs, with the events that it may be of."""
        changes = [read_row_change(one) for one in self._read(SCHEMA.names, [row.commit_ts])]
        changes = [change for change in changes if change.after is not None]
        key = self._history.schema.key
        if key and values is not None:
            own_key = [values.get(name) for name in key]
            # Not if the key itself was altered.
            changes = [c for c in changes if self._read_key(c) == own_key] or changes
        stated = {change.checksum.current for change in changes if change.checksum is not None}
        return AlteredRow(
            row.commit_ts,
            ", ".join(str(change.position) for change in changes[:_POSITIONS]),
            row.file,
            stated.pop() if len(stated) == 1 else None,
            computed,
        )

    def _read_key(self, change: RowChange) -> list[Value] | None:
        try:
            new = RowReader(self._history.schema)(change.after or "")
        except CONTENT_ERRORS:
            # It is in the quarantine.
            return None
        return [new.get(name) for name in self._history.schema.key]
