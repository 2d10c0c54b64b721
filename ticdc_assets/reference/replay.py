"""Run a whole changefeed through the reference model, from TSO to TSO."""

from collections.abc import Iterable
from operator import itemgetter

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import CONTENT_ERRORS, ConfigError, describe_content_error
from ticdc_assets.events import Event, RowChange, SchemaChange, Watermark
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.events.tso import compose, physical_ms
from ticdc_assets.events.tso_text import MAX_TSO, describe_ts, describe_unix_time
from ticdc_assets.reference.model import Model
from ticdc_assets.reference.row_lines import encode_rows
from ticdc_assets.reference.table import ModelTable
from ticdc_assets.schema.catalog import table_key
from ticdc_assets.stream.problem import Problem
from ticdc_assets.stream.resolved_ts import ResolvedTsTracker
from ticdc_assets.stream.rules import make_rules
from ticdc_assets.stream.table_names import explain_absence, split_name


class ModelReplay:
    """Takes all events of a changefeed, then moves its tables from TSO to TSO."""

    def __init__(self, feed: Changefeed) -> None:
        self.model = Model(make_rules(feed))
        self._feed = feed
        self._tracker = ResolvedTsTracker(feed)
        self._first_ts: int | None = None

    def add(self, events: Iterable[Event]) -> None:
        """Take events in the order of arrival."""
        for event in events:
            ts = _get_ts(event)
            if ts is not None:
                self._first_ts = ts if self._first_ts is None else min(ts, self._first_ts)
            self._tracker.observe((event,))
            self.model.add((event,))

    @property
    def default_ts(self) -> int:
        """The resolved ts; the end of the stream if the changefeed sends no watermarks."""
        resolved = self._tracker.resolved_ts
        return MAX_TSO if resolved is None else resolved

    def check_range(self, tsos: Iterable[int]) -> None:
        """Raise `ConfigError` for a TSO before the first event, or above the resolved ts."""
        resolved = self._tracker.resolved_ts
        if resolved == 0:
            reason = f"nothing is resolved yet{self._list_lagging(1)}"
            raise ConfigError(reason, setting="--at")
        end = self.default_ts
        first = min(self._first_ts or 0, end)
        for ts in tsos:
            # A time has no counter.
            if compose(physical_ms(first)) <= ts <= end:
                continue
            reason = describe_unix_time(ts) or (
                f"{describe_ts(ts)} is before every event"
                if ts < first
                else f"{describe_ts(ts)} is not resolved{self._list_lagging(ts)}"
            )
            last = "its end" if resolved is None else describe_ts(resolved)
            known = f"the changefeed is complete from {describe_ts(first)} up to {last}"
            raise ConfigError(f"{reason}; {known}", setting="--at")

    def _list_lagging(self, ts: int) -> str:
        """Say which partitions have no watermark of a ts yet, if any."""
        lagging = self._tracker.find_lagging_partitions(ts)[:3]
        return f", waiting for a watermark from {', '.join(lagging)}" if lagging else ""

    def advance(self, ts: int) -> None:
        """Move the tables to a TSO."""
        self.model.advance(ts)

    def find_table(self, name: str) -> ModelTable:
        """Return the table called `db.table`; raise `ConfigError` unless exactly one matches."""
        tables = [t for t in self.model.tables if fold_name(_full_name(t)) == fold_name(name)]
        if not tables:
            reason = f"no table {name} at {describe_ts(self.model.applied_ts)}: "
            raise ConfigError(reason + self._explain(name), setting="--table")
        if len(tables) > 1:
            names = " or ".join(f"`{t.schema.database}`.`{t.schema.table}`" for t in tables)
            raise ConfigError(f"{name} may be {names}: use --out", setting="--table")
        return tables[0]

    def _explain(self, name: str) -> str:
        """Say what is known of a name that no table has."""
        former = self.model.tables.former_names
        known = [former[key] for pair in split_name(name) if (key := table_key(*pair)) in former]
        if known:
            what, ts = max(known, key=itemgetter(1))
            return f"it was {what} at {describe_ts(ts)}"
        return explain_absence(self._feed, name, map(_full_name, self.model.tables))

    def encode_table(self, table: ModelTable) -> list[bytes] | None:
        """Encode the rows of a table; return None for a paused table.

        A table whose rows do not fit its columns is paused here.
        """
        if table.pause_reason is None:
            try:
                return encode_rows(table)
            except CONTENT_ERRORS as error:
                schema, reason = table.schema, describe_content_error(error)
                ts = self.model.applied_ts
                self.model.tables.pause(schema.database, schema.table, reason, ts)
        return None

    def partial_tables(self) -> list[tuple[str, str]]:
        """Return the tables that lack rows, and why, by name."""
        tables = [t for t in self.model.tables if t.pause_reason is None]
        return sorted((_full_name(t), t.partial_reason) for t in tables if t.partial_reason)

    def problems(self) -> list[Problem]:
        """Return every problem so far, and a problem for every waiting row."""
        return self.model.problems + self.model.waiting_rows()


def _full_name(table: ModelTable) -> str:
    return f"{table.schema.database}.{table.schema.table}"


def _get_ts(event: Event) -> int | None:
    match event:
        case RowChange() | SchemaChange():
            return event.commit_ts
        case Watermark():
            return event.ts
    return None
