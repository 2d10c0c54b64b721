"""Find what an erasure is of: the events of a row under all names of its table, and its values.

The key may have had other names before a RENAME COLUMN; then its columns are known by their place.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import Any

import pyarrow.compute as pc

from ticdc_assets.erase.key_match import KeyColumns
from ticdc_assets.erase.target import Target
from ticdc_assets.errors import CONTENT_ERRORS, ConfigError
from ticdc_assets.events import RowChange, TableSchema
from ticdc_assets.events.row_image import load
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.lake.events.erased_events import read_values
from ticdc_assets.lake.history.columns import make_history_name
from ticdc_assets.log.applied_files import read_snapshot
from ticdc_assets.log.erasures import Place
from ticdc_assets.log.folds import read_fold
from ticdc_assets.rows.columns import list_delta_columns
from ticdc_assets.schema.types.mysql_type import describe
from ticdc_assets.store.event_rows import SCHEMA, read_row_change
from ticdc_assets.views.loaded_rows import LoadedRows, find_loaded_rows, find_stored_rows
from ticdc_assets.views.overview import SchemaVersionRow
from ticdc_assets.views.row_history import (
    Printed,
    Printer,
    RowHistories,
    Span,
    find_span,
    is_plain,
    list_spans,
    may_state,
)

# A text of fewer characters is in many places by chance.
_TELLING = 8
_MOST_VALUES = 20
_NUMERIC = frozenset("0123456789+-.: TZ")


@dataclass
class FoundRow:
    """What was found of a row."""

    target: Target
    events: int = 0
    loads: Sequence[LoadedRows] = ()
    # Keys that the row had before or after, and the commit ts of the update.
    moves: list[tuple[int, str, str]] = field(default_factory=list)
    # Times whose rows cannot be found by the key: their tables had another one.
    unsearched: list[SchemaVersionRow] = field(default_factory=list)
    # Whether rows may have come from another table, with their events under its name.
    is_exchanged: bool = False


def find_row(histories: RowHistories, wanted: Mapping[str, str]) -> FoundRow:
    """Find a row by the texts of its key; raise a `ConfigError` unless they are a whole key."""
    schema = histories.schema
    key = schema.key or tuple(wanted)
    if {*map(fold_name, key)} != {*map(fold_name, wanted)}:
        needed = ", ".join(f"{column}=VALUE" for column in key)
        raise ConfigError(f"the handle key of {histories.name} is {needed}", setting="KEY")
    by_name = {fold_name(name): text for name, text in wanted.items()}
    return _Search(histories, key, tuple(by_name[fold_name(name)] for name in key)).run(wanted)


class _Search:
    def __init__(self, histories: RowHistories, key: Sequence[str], texts: tuple[str, ...]) -> None:
        self._histories = histories
        self._key = key
        self._texts = texts
        self._own = {version.incarnation for version in histories.versions}
        self._spans = list_spans(histories.read_all_versions())
        self._print = Printer()
        self._forms: set[tuple[str | None, ...]] = set()
        self._values: set[str] = set()
        self._newest = 0

    def run(self, wanted: Mapping[str, str]) -> FoundRow:
        histories = self._histories
        loads = find_loaded_rows(histories.reader, histories.versions, wanted)
        events, moves = 0, []
        for row in self._read_candidates():
            change = read_row_change(row)
            span = find_span(self._spans, row["name"], change)
            if span is None or span.incarnation not in self._own:
                continue
            columns = self._find_columns(span.schema)
            if columns is not None and (found := self._read_event(change, span, columns)):
                events += 1
                moves += found[1:]
        for loaded in loads:
            for each in loaded.rows or ():
                self._add_values(each.values())
        for each in self._read_folded(wanted):
            self._add_values(each.values())
        # Where a command was killed, they are the texts that are left.
        self._add_values(self._texts)
        schema = histories.schema
        target = Target(
            schema.database,
            schema.table,
            self._texts,
            self._list_tables(),
            tuple(self._list_places()),
            frozenset(self._forms | set(map(self._write_as_stated, histories.versions))),
            self._newest,
            tuple(sorted(self._values, key=lambda text: (-len(text), text))[:_MOST_VALUES]),
        )
        unsearched = [
            version
            for version in histories.versions
            if not version.ends and self._find_columns(version.schema) is None
        ]
        is_exchanged = any("EXCHANGE" in version.sql.upper() for version in histories.versions)
        return FoundRow(target, events, loads, _list_once(moves), unsearched, is_exchanged)

    def _read_folded(self, wanted: Mapping[str, str]) -> Iterator[Printed]:
        """Yield what the row was at the fold: events of before are gone."""
        reader = self._histories.reader
        fold = read_fold(reader)
        if not fold.snapshot_id:
            return
        begun = read_snapshot(reader, fold.snapshot_id)
        for id in sorted(self._own & begun.versions.keys()):
            schema = begun.state.incarnations[id].schema
            place = id, begun.versions[id]
            yield from find_stored_rows(reader, schema, place, wanted) or ()

    def _find_columns(self, schema: TableSchema) -> tuple[str, ...] | None:
        """Return the columns that identify the row in a schema; None if it has none."""
        named = [schema.column(name) for name in self._key]
        if all(column is not None for column in named):
            return tuple(column.name for column in named if column is not None)
        is_same = bool(self._histories.schema.key) and len(schema.key) == len(self._key)
        return tuple(schema.key) if is_same else None

    def _read_candidates(self) -> Iterator[dict[str, Any]]:
        names = {span.name for span in self._spans if span.incarnation in self._own}
        where = (pc.field("kind") == "row") & pc.field("name").isin(sorted(names))
        schemas = [version.schema for version in self._histories.versions]
        sets = [(s, columns) for s in schemas if (columns := self._find_columns(s)) is not None]
        found = [
            (text, schema.column(columns[place]))
            for schema, columns in sets
            for place, text in enumerate(self._texts)
        ]
        are_plain = all(column is not None and is_plain(column.type) for _, column in found)
        if are_plain and all(text.isascii() and text.isalnum() for text in self._texts):
            where = reduce(and_, map(may_state, self._texts), where)
        reader = self._histories.reader
        for block in reader.read_blocks(reader.open("events"), SCHEMA.names, where):
            yield from block.to_pylist()

    def _read_event(
        self, change: RowChange, span: Span, columns: tuple[str, ...]
    ) -> list[tuple[int, str, str]] | None:
        """Note what an event states of the row; None if it is of another.

        Return something, and behind it the move of the row from one key to another.
        """
        try:
            before, after = (
                None if image is None else load(image) for image in (change.before, change.after)
            )
        except CONTENT_ERRORS:
            return None
        if before is not None:
            # An old row may state only the columns that changed.
            before = {**(after or {}), **before}
        sides = [image for image in (before, after) if image is not None]
        printed = [self._print.print(image, span.schema, change.member_names) for image in sides]
        keys = [tuple(read_values(each, columns)) for each in printed]
        is_of_row = [key == self._texts for key in keys]
        if not any(is_of_row):
            return None
        self._newest = max(self._newest, change.commit_ts)
        for image, is_own in zip(sides, is_of_row, strict=True):
            if is_own:
                self._forms.add(tuple(read_values(image, columns)))
                self._add_values(image.values())
        found = [(0, "", "")]
        if not all(is_of_row):
            names = [_write_key(columns, key) for key in keys]
            found.append((change.commit_ts, names[0], names[1]))
        return found

    def _add_values(self, texts: Iterable[str | None]) -> None:
        for text in texts:
            # Moments and numbers are in other rows, too; a search of bytes finds them by chance.
            if text is not None and len(text) >= _TELLING and not _NUMERIC.issuperset(text):
                self._values.add(text)

    def _write_as_stated(self, version: SchemaVersionRow) -> tuple[str, ...]:
        """Return the key as the images of a version have it, as far as that is the same always."""
        columns = self._find_columns(version.schema) or ()
        kinds = [version.schema.column(name) for name in columns]
        texts = list(self._texts)
        for place, column in enumerate(kinds):
            with suppress(*CONTENT_ERRORS):
                if column is not None and describe(column.type).kind == "binary":
                    texts[place] = b64encode(bytes.fromhex(texts[place])).decode()
        return tuple(texts)

    def _list_tables(self) -> dict[str, KeyColumns]:
        """List the incarnations, with the columns of the key by all names that tables have."""
        names: dict[str, set[tuple[str, ...]]] = {id: set() for id in self._own}
        for version in self._histories.versions:
            columns = self._find_columns(version.schema)
            if version.ends or columns is None:
                continue
            stored = {each.column: each for each in list_delta_columns(version.schema)}
            if all(name in stored for name in columns):
                chosen = [stored[name] for name in columns]
                names[version.incarnation].add(tuple(each.name for each in chosen))
                names[version.incarnation].add(tuple(map(make_history_name, chosen)))
        return {id: KeyColumns(self._texts, frozenset(sets)) for id, sets in names.items()}

    def _list_places(self) -> Iterator[Place]:
        """Yield where the events of the row are; times that follow one another are one."""
        last: Place | None = None
        last_incarnation = ""
        for span in self._spans:
            columns = self._find_columns(span.schema)
            if span.incarnation not in self._own or columns is None:
                continue
            # Rows that came before the first schema of a name have that one.
            first = min(each.after for each in self._spans if each.name == span.name)
            after = 0 if span.after == first else span.after
            same = last is not None and (last.name, last.columns) == (span.name, columns)
            if last is not None and same and last_incarnation == span.incarnation:
                last = Place(span.name, columns, last.after_ts, span.through)
            else:
                if last is not None:
                    yield last
                last = Place(span.name, columns, after, span.through)
            last_incarnation = span.incarnation
        if last is not None:
            yield last


def _write_key(columns: Sequence[str], key: Sequence[str | None]) -> str:
    return ", ".join(f"{name}={text}" for name, text in zip(columns, key, strict=True))


def _list_once(moves: Sequence[tuple[int, str, str]]) -> list[tuple[int, str, str]]:
    return sorted(dict.fromkeys(moves))
