"""How one row came to be: every event that states given values, from the first to the last.

The events are found by the values, in whatever form a protocol states them, under every name that
the table had.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import Any, NamedTuple

import pyarrow.compute as pc

from ticdc_assets.errors import CONTENT_ERRORS
from ticdc_assets.events import ColumnType, Op, RowChange, TableSchema
from ticdc_assets.events.row_image import load
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.schema.types.checksum import Status, verify_checksum
from ticdc_assets.schema.types.mysql_type import describe
from ticdc_assets.schema.types.value_reader import make_reader
from ticdc_assets.schema.types.value_writer import make_writer
from ticdc_assets.store.contracts import EVENT_IDENTITY
from ticdc_assets.store.event_rows import SCHEMA, make_table_name, read_row_change
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.names import LakeNames
from ticdc_assets.views.overview import SchemaVersionRow, read_schema_versions

# A row as `show` prints it.
Printed = Mapping[str, str | None]


@dataclass(frozen=True)
class RowEvent:
    """A row change, with the rows as `show` prints them.

    `status` is empty for an event that was applied, or superseded by a later one; `checksum` says
    whether the checksum that TiCDC stated is that of the row (`checksum.Status`).
    """

    change: RowChange
    before: Printed | None
    after: Printed | None
    status: str
    checksum: Status


class Span(NamedTuple):
    """A time in which a table had one name and one schema: after a ts, up to another."""

    name: str
    incarnation: str
    schema: TableSchema
    after: int
    through: int | None

    def covers(self, change: RowChange) -> bool:
        """Return whether a row is of this time: rows come before the DDL of their ts, or after."""
        ts = change.commit_ts
        if change.ordering == "table_version":
            return self.after <= ts and (self.through is None or ts < self.through)
        return self.after < ts and (self.through is None or ts <= self.through)


class Printer:
    """Prints the values of images as `show` does."""

    def __init__(self) -> None:
        self._known: dict[tuple[ColumnType, bool], Callable[[str], str | None]] = {}

    def images(
        self, change: RowChange, schema: TableSchema
    ) -> tuple[Printed | None, Printed | None]:
        """Return the old and the new row; None for one that the event lacks."""
        before, after = (
            None if image is None else self._print_image(image, schema, change.member_names)
            for image in (change.before, change.after)
        )
        return before, after

    def _print_image(self, image: str, schema: TableSchema, member_names: bool) -> Printed:
        try:
            row = load(image)
        except CONTENT_ERRORS:
            # It is in the quarantine, with the reason.
            return {}
        return self.print(row, schema, member_names)

    def print(
        self, row: Mapping[str, str | None], schema: TableSchema, member_names: bool
    ) -> Printed:
        """Return a row image as `show` prints the row."""
        return {
            name: self._print_value(name, text, schema, member_names) for name, text in row.items()
        }

    def _print_value(
        self, name: str, text: str | None, schema: TableSchema, member_names: bool
    ) -> str | None:
        column = schema.column(name)
        if text is None or column is None:
            return text
        kind = column.type, member_names
        try:
            if kind not in self._known:
                read, write = make_reader(*kind), make_writer(column.type)
                self._known[kind] = lambda text: write(read(text))
            return self._known[kind](text)
        except CONTENT_ERRORS:
            # A value that the column cannot have: as the stream states it.
            return text


class EventPrinter:
    """Prints the values of a table's events as `show` does, by the schema of their time."""

    def __init__(self, versions: Sequence[SchemaVersionRow]) -> None:
        self._spans = list_spans(versions)
        self._print = Printer()

    def images(self, change: RowChange) -> tuple[Printed | None, Printed | None]:
        """Return the old and the new row; as the stream states them if no schema is known."""
        name = make_table_name(change.database, change.table) or ""
        span = find_span(self._spans, name, change)
        schema = TableSchema(change.database, change.table, ()) if span is None else span.schema
        return self._print.images(change, schema)


@dataclass(frozen=True)
class RowHistories:
    """The rows of a table, and of those that had its name before it."""

    reader: LakeReader
    applied: Snapshot
    name: str
    versions: Sequence[SchemaVersionRow]
    _print: Printer = field(default_factory=Printer)

    @classmethod
    def open(cls, names: LakeNames, text: str) -> "RowHistories":
        """Open the histories of `db.table`; raise a `ConfigError` if there never was one."""
        names.require_known(text)
        versions = read_schema_versions(names.reader, text)
        return cls(names.reader, names.applied, text, versions)

    @property
    def schema(self) -> TableSchema:
        """The newest schema."""
        return self.versions[-1].schema

    def find_unsearched(self, wanted: Mapping[str, str]) -> list[SchemaVersionRow]:
        """Return the versions that lack one of the columns: their rows cannot be found by it."""
        return [
            version
            for version in self.versions
            if not version.ends and any(version.schema.column(name) is None for name in wanted)
        ]

    def find(self, wanted: Mapping[str, str]) -> list[RowEvent]:
        """Find the events of the rows with these values, in order."""
        spans = list_spans(self.read_all_versions())
        own = {version.incarnation for version in self.versions}
        rows = self._read_candidates(
            {span.name for span in spans if span.incarnation in own}, wanted
        )
        reasons = self._read_quarantined(rows)
        found: list[RowEvent] = []
        seen: set[tuple[Any, ...]] = set()
        # A repetition arrives later, whatever its place in the order.
        for row in sorted(rows, key=lambda row: (row["seq"], row["index"])):
            change = read_row_change(row)
            span = find_span(spans, row["name"], change)
            if span is None or span.incarnation not in own:
                continue
            before, after = self._print.images(change, span.schema)
            if not states(wanted, before, after):
                continue
            identity = tuple(row[name] for name in EVENT_IDENTITY)
            status = self._describe_status(span, change, reasons.get((row["seq"], row["index"])))
            if identity in seen:
                status = "repeated"
            checksum = verify_checksum(change, span.schema).status
            found.append(RowEvent(change, before, after, status, checksum))
            seen.add(identity)
        return sorted(found, key=_get_place)

    def read_all_versions(self) -> list[SchemaVersionRow]:
        """Read the versions of every table that ever had one of the names of these."""
        versions = list(self.versions)
        known = {version.incarnation for version in versions}
        names = {fold_name(f"{v.schema.database}.{v.schema.table}") for v in self.versions}
        for name in names - {fold_name(self.name)}:
            found = read_schema_versions(self.reader, name)
            versions += [version for version in found if version.incarnation not in known]
            known |= {version.incarnation for version in found}
        return versions

    def _read_candidates(self, names: set[str], wanted: Mapping[str, str]) -> list[dict[str, Any]]:
        where = (pc.field("kind") == "row") & pc.field("name").isin(sorted(names))
        texts = [text for name, text in wanted.items() if self._is_stated_as_printed(name, text)]
        where = reduce(and_, map(may_state, texts), where)
        return self.reader.read(self.reader.open("events"), SCHEMA.names, where).to_pylist()  # type: ignore[no-any-return]

    def _is_stated_as_printed(self, name: str, text: str) -> bool:
        """Return whether images have a value of a column in the form in which it is printed."""
        columns = (version.schema.column(name) for version in self.versions)
        types = [column.type for column in columns if column is not None]
        return text.isascii() and text.isalnum() and all(map(is_plain, types))

    def _read_quarantined(self, rows: Sequence[Mapping[str, Any]]) -> dict[tuple[int, int], str]:
        seqs = sorted({row["seq"] for row in rows})
        where = (pc.field("stage") == "apply") & pc.field("seq").isin(seqs)
        quarantine = self.reader.open("quarantine")
        found = self.reader.read(quarantine, ["seq", "index", "reason"], where).to_pylist()
        return {(row["seq"], row["index"]): row["reason"] for row in found}

    def _describe_status(self, span: Span, change: RowChange, reason: str | None) -> str:
        if reason is not None:
            return f"quarantined: {reason}"
        table = self.applied.state.incarnations.get(span.incarnation)
        stopped = table.complete_ts if table is not None and table.is_stopped else None
        through = self.applied.ts if stopped is None else stopped
        return "waiting" if change.commit_ts > through else ""


def list_spans(versions: Sequence[SchemaVersionRow]) -> list[Span]:
    """List the times of tables, by their versions in order."""
    spans = []
    following = [*versions[1:], None]
    for version, later in zip(versions, following, strict=True):
        if version.ends:
            continue
        is_last = later is None or later.incarnation != version.incarnation
        schema = version.schema
        name = make_table_name(schema.database, schema.table) or ""
        through = None if is_last or later is None else later.valid_from
        spans.append(Span(name, version.incarnation, schema, version.valid_from, through))
    return spans


def find_span(spans: Sequence[Span], name: str, change: RowChange) -> Span | None:
    """Find the time of a row; rows that came before the first schema have that one."""
    named = [span for span in spans if span.name == name]
    covering = [span for span in named if span.covers(change)]
    if covering:
        return covering[-1]
    later = [span for span in named if span.after >= change.commit_ts]
    return min(later, key=lambda span: span.after, default=None)


def may_state(text: str) -> pc.Expression:
    """Whether a row may state a text: JSON can escape any character with a backslash."""
    images = (pc.field(name) for name in ("before", "after"))
    tests = [pc.match_substring(image, part) for image in images for part in (text, "\\")]
    return reduce(lambda one, other: one | other, tests)


def is_plain(type: ColumnType) -> bool:
    """Return whether images have the texts of a type as they are printed."""
    return describe(type).kind in ("integer", "text") and not type.zerofill


def states(wanted: Mapping[str, str], before: Printed | None, after: Printed | None) -> bool:
    """Return whether the old or the new row has the values; an old row may lack columns."""
    rows = [after or {}, {**(after or {}), **before} if before is not None else {}]
    return any(
        all(folded.get(fold_name(name)) == text for name, text in wanted.items())
        for folded in ({fold_name(name): text for name, text in row.items()} for row in rows)
    )


def _get_place(event: RowEvent) -> tuple[Any, ...]:
    """Return the place in the order: within a transaction, a put comes after a removal."""
    change = event.change
    is_put = change.op is not Op.DELETE and change.ordering == "commit_ts"
    return change.commit_ts, is_put
