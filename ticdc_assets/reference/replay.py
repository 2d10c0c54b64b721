"""Run a whole changefeed through the reference model, from TSO to TSO."""

from collections.abc import Iterable

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import CONTENT_ERRORS, ConfigError, describe_content_error
from ticdc_assets.events import Event
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.events.tso import to_datetime
from ticdc_assets.reference.model import Model
from ticdc_assets.reference.row_lines import encode_rows
from ticdc_assets.reference.table import ModelTable
from ticdc_assets.stream.problem import Problem
from ticdc_assets.stream.resolved_ts import ResolvedTsTracker
from ticdc_assets.stream.rules import make_rules

_END = (1 << 63) - 1


class ModelReplay:
    """Takes all events of a changefeed, then moves its tables from TSO to TSO."""

    def __init__(self, feed: Changefeed) -> None:
        self.model = Model(make_rules(feed))
        self._tracker = ResolvedTsTracker(feed)

    def add(self, events: Iterable[Event]) -> None:
        """Take events in the order of arrival."""
        for event in events:
            self._tracker.observe((event,))
            self.model.add((event,))

    @property
    def default_ts(self) -> int:
        """The resolved ts; the end of the stream if the changefeed sends no watermarks."""
        resolved = self._tracker.resolved_ts
        return _END if resolved is None else resolved

    def check_resolved(self, tsos: Iterable[int]) -> None:
        """Raise `ConfigError` for a TSO above the resolved ts."""
        resolved = self._tracker.resolved_ts
        if resolved is None:
            return
        unresolved = [ts for ts in tsos if ts > resolved]
        if unresolved or not resolved:
            lagging = self._tracker.find_lagging_partitions(unresolved[0] if unresolved else 1)[:3]
            waits_for = f", waiting for a watermark from {', '.join(lagging)}" if lagging else ""
            if not resolved:
                reason = f"nothing is resolved yet{waits_for}"
            else:
                reason = (
                    f"{unresolved[0]} is not resolved: the changefeed is complete up to {resolved}"
                    f" ({to_datetime(resolved):%Y-%m-%d %H:%M:%S} UTC){waits_for}"
                )
            raise ConfigError(reason, setting="--at")

    def advance(self, ts: int) -> None:
        """Move the tables to a TSO."""
        self.model.advance(ts)

    def find_table(self, name: str) -> ModelTable:
        """Return the table called `db.table`; raise `ConfigError` unless exactly one matches."""
        tables = [t for t in self.model.tables if fold_name(_full_name(t)) == fold_name(name)]
        if not tables:
            raise ConfigError(f"no table {name} at {self.model.applied_ts}", setting="--table")
        if len(tables) > 1:
            names = " or ".join(f"`{t.schema.database}`.`{t.schema.table}`" for t in tables)
            raise ConfigError(f"{name} may be {names}: use --out", setting="--table")
        return tables[0]

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
