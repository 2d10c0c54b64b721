"""Find tables of a lake by name, and say of a name that no table has what is known of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow.compute as pc

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError, TicdcError
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.events.tso_text import describe_ts
from ticdc_assets.log.applied_files import read_existing_snapshot
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.schema.catalog import table_key
from ticdc_assets.schema.ddl.reader import read_ddl
from ticdc_assets.schema.ddl.statement import AlterTable, Name, RenameTables, RenameTo
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.stream.table_names import explain_absence, split_name
from ticdc_assets.views.tables_at import TablesAt

_COLUMNS = ("incarnation", "database", "table", "valid_from", "valid_to", "sql")
_SETTING = "DB.TABLE"


class _Span(NamedTuple):
    """A time in which an incarnation had one name: from a ts, up to another."""

    name: str
    since: int
    until: int | None
    # The name that it had then; None if it ended.
    next_name: str | None


@dataclass(frozen=True)
class LakeNames:
    """The names of a lake's tables, now and before."""

    reader: LakeReader
    # Without a declaration, nothing is known of tables that its filter keeps out.
    feed: Changefeed | None
    applied: Snapshot

    @classmethod
    def open(cls, reader: LakeReader, feed: Changefeed | None) -> "LakeNames":
        """Open the names as of the last snapshot; raise `LakeNotFound` if there is none."""
        return cls(reader, feed, read_existing_snapshot(reader))

    def find(self, name: str, setting: str = _SETTING) -> Incarnation:
        """Return the table that has a name now; raise a `ConfigError` unless exactly one has."""
        return self.choose(TablesAt(self.applied.ts, self.applied.state), name, setting)

    def choose(self, tables: TablesAt, name: str, setting: str = _SETTING) -> Incarnation:
        """Return the table of a name at a ts; raise a `ConfigError` unless exactly one has it."""
        matches = tables.find(name)
        if len(matches) > 1:
            names = " or ".join(f"`{t.schema.database}`.`{t.schema.table}`" for t in matches)
            raise ConfigError(f"{name} may be {names}: show --out writes both", setting=setting)
        if not matches:
            raise self.explain(name, tables.ts, setting)
        return matches[0]

    def select(self, tables: TablesAt, names: Sequence[str], setting: str) -> list[str]:
        """Return the ids of the tables that have some names at a ts; of all tables without names.

        Raise a `ConfigError` for a name that no table has.
        """
        if not names:
            return [table.id for table in tables.tables()]
        found: dict[str, None] = {}
        for name in names:
            matches = tables.find(name)
            if not matches:
                raise self.explain(name, tables.ts, setting)
            found |= dict.fromkeys(table.id for table in matches)
        return list(found)

    def require_known(self, name: str, setting: str = _SETTING) -> None:
        """Raise a `ConfigError` unless a table of the lake has a name, or had it."""
        if not self._list_spans(name) and not self._is_waiting(name):
            raise self.explain(name, None, setting)

    def explain(self, name: str, ts: int | None, setting: str = _SETTING) -> ConfigError:
        """Make the error that says what is known of a name that no table has at a ts, or ever."""
        place = "in the lake" if ts in (None, self.applied.ts) else f"at {describe_ts(ts or 0)}"
        known = self._explain(name, self.applied.ts if ts is None else ts)
        return ConfigError(f"no table {name} {place}: {known}", setting=setting)

    def _explain(self, name: str, ts: int) -> str:
        spans = self._list_spans(name)
        ended = [span for span in spans if span.until is not None and span.until <= ts]
        if ended:
            last = max(ended, key=lambda span: span.until or 0)
            what = "dropped" if last.next_name is None else f"renamed to {last.next_name}"
            return f"it was {what} at {describe_ts(last.until or 0)}"
        later = [span.since for span in spans if span.since > ts]
        if later:
            return f"it begins at {describe_ts(min(later))}"
        if self._is_waiting(name):
            return "its rows have arrived, but no schema yet"
        if any(table_key(*pair) in self.applied.state.catalog.views for pair in split_name(name)):
            return "it is a view, which has no rows of its own"
        return explain_absence(self.feed, name, self._list_current())

    def _list_current(self) -> list[str]:
        state = self.applied.state
        tables = (state.incarnations[id].schema for _, id in state.names)
        return [f"{schema.database}.{schema.table}" for schema in tables]

    def _is_waiting(self, name: str) -> bool:
        unknown = self.applied.state.unknown_tables
        return any(fold_name(f"{u.database}.{u.table}") == fold_name(name) for u in unknown)

    def _list_spans(self, name: str) -> list[_Span]:
        return [span for span in self._spans if fold_name(span.name) == fold_name(name)]

    @cached_property
    def _spans(self) -> list[_Span]:
        history = self.reader.open("schema_history")
        is_of_table = pc.field("incarnation") != ""
        rows = self.reader.read(history, _COLUMNS, is_of_table).to_pylist()
        rows.sort(key=lambda row: (row["incarnation"], row["valid_from"]))
        return [
            span
            for _, versions in groupby(rows, key=itemgetter("incarnation"))
            for span in _list_names(list(versions))
        ]


def _list_names(versions: Sequence[Mapping[str, Any]]) -> Iterator[_Span]:
    """Yield the times of the names of one incarnation, whose versions are in order."""
    first, last = versions[0], versions[-1]
    before = _find_former_name(first)
    if before is not None:
        yield _Span(before, 0, first["valid_from"], f"{first['database']}.{first['table']}")
    end = last["valid_from"] if last["valid_to"] == last["valid_from"] else None
    named = [
        (f"{name[0]}.{name[1]}", next(group)["valid_from"])
        for name, group in groupby(versions, key=itemgetter("database", "table"))
    ]
    for (name, since), following in zip(named, [*named[1:], None], strict=True):
        if following is None:
            yield _Span(name, since, end, None)
        else:
            yield _Span(name, since, following[1], following[0])


def _find_former_name(version: Mapping[str, Any]) -> str | None:
    """Return the name that a table had before its first version, if that is of its rename."""
    if "rename" not in version["sql"].lower():
        return None
    try:
        statements = read_ddl(version["sql"])
    except TicdcError:
        return None
    pairs: list[tuple[Name, Name]] = []
    for statement in statements:
        if isinstance(statement, RenameTables):
            pairs += statement.pairs
        elif isinstance(statement, AlterTable):
            targets = (a.name for a in statement.actions if isinstance(a, RenameTo))
            pairs += [(statement.name, target) for target in targets]
    database, table = version["database"], version["table"]
    for old, new in pairs:
        if fold_name(new.table) == fold_name(table):
            return f"{old.database or database}.{old.table}"
    return None
