"""Fetch the rows of which the stream holds only the key, because their messages were too large.

TiDB shows a row as it was at the commit ts of its event.  The event gets it as its new row when it
is decoded, so whoever applies `events` needs no upstream.  No old row is fetched: a table needs no
more of it than the key.

What upstream cannot show stays a row with its key only, with the reason.  An upstream that does not
answer fails the run, which changes nothing: the next one tries again.
"""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

from msgspec.structs import replace

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import InvalidValue, MalformedMessage
from ticdc_assets.events import FETCHED, Event, RowChange
from ticdc_assets.events.row_image import dump, load
from ticdc_assets.lake.events.upstream_rows import Key, UpstreamTable
from ticdc_assets.safe_text import describe_error
from ticdc_assets.store.event_rows import Arrival
from ticdc_assets.upstream.definition import read_definition
from ticdc_assets.upstream.snapshot import (
    OpenUpstream,
    RowsUnreadable,
    SnapshotTooOld,
    UpstreamRows,
)

# At most so many are in memory together, and in one query: each is larger than a message may be.
MOST_ROWS = 16

_RELOAD = "load the table again to have the row"
NOT_TIDB = "the database in [changefeed.upstream] is not TiDB: no other shows a row at a commit ts"
TOO_OLD = (
    "TiDB no longer keeps what it held: raise tidb_gc_life_time above the time by which the lake"
    f" lags behind, and {_RELOAD}"
)
NOT_FOUND = f"upstream has no such row at this commit ts; {_RELOAD}"
NOT_UNIQUE = "several rows have this key"
NO_COMMIT_TS = "it has no commit ts at which it could be fetched from upstream"
OTHER_COLUMNS = (
    "it is not fetched from upstream, because column-selectors of the changefeed leave columns out"
)


# Errors of the rows and the table; any other fails the run.
_UNREADABLE = (RowsUnreadable, InvalidValue, MalformedMessage, ValueError)


def find_obstacle(feed: Changefeed) -> str | None:
    """Return why the rows upstream are not those that the changefeed sends."""
    return OTHER_COLUMNS if feed.may_lack_columns else None


def lacks_row(event: Event) -> bool:
    """Return whether the stream holds only the key of an event's new row."""
    return type(event) is RowChange and event.handle_key_only and event.after is not None


class LargeRows:
    """Completes events; connects to upstream when the first one needs it."""

    def __init__(
        self, feed: Changefeed, open_upstream: OpenUpstream, connections: ExitStack
    ) -> None:
        """`connections` is to be closed when all events are complete."""
        self._open = open_upstream
        self._obstacle = find_obstacle(feed)
        self._connections = connections
        self._upstream: UpstreamRows | None = None

    def complete(self, arrivals: Sequence[Arrival]) -> list[Arrival]:
        """Return events with the rows that they lack, or with why upstream cannot show them."""
        completed = list(arrivals)
        places: dict[_Group, list[int]] = defaultdict(list)
        for place, arrival in enumerate(arrivals):
            if isinstance(event := arrival.event, RowChange) and lacks_row(event):
                places[_find_group(event)].append(place)
        for group in sorted(places):
            chosen = [arrivals[place] for place in places[group]]
            changes = [a.event for a in chosen if isinstance(a.event, RowChange)]
            for place, change in zip(places[group], self._fetch(group, changes), strict=True):
                completed[place] = replace(completed[place], event=change)
        return completed

    def _fetch(self, group: "_Group", changes: Sequence[RowChange]) -> list[RowChange]:
        reason = self._obstacle
        if reason is None and any(change.ordering != "commit_ts" for change in changes):
            reason = NO_COMMIT_TS
        if reason is None and not (upstream := self._connect()).is_tidb:
            reason = NOT_TIDB
        if reason is None:
            try:
                return _fetch_group(upstream, group, changes)
            except SnapshotTooOld:
                reason = TOO_OLD
            except _UNREADABLE as error:
                reason = _explain(error)
        return [replace(change, upstream=reason) for change in changes]

    def _connect(self) -> UpstreamRows:
        if self._upstream is None:
            self._upstream = self._connections.enter_context(self._open())
        return self._upstream


class _Group(NamedTuple):
    """What the rows that one query reads have in common."""

    ts: int
    database: str
    table: str
    key: tuple[str, ...]


def _find_group(change: RowChange) -> _Group:
    try:
        key = tuple(sorted(load(change.after or "")))
    except MalformedMessage:
        key = ()
    return _Group(change.commit_ts, change.database, change.table, key)


def _fetch_group(
    upstream: UpstreamRows, group: _Group, changes: Sequence[RowChange]
) -> list[RowChange]:
    upstream.read_at(group.ts)
    table = UpstreamTable(read_definition(upstream.query, group.database, group.table), group.key)
    keys = [_read_key(table, change) for change in changes]
    wanted = list(dict.fromkeys(key for key in keys if not isinstance(key, str)))
    rows: dict[Key, str] = {}
    if wanted:
        found = [table.read_row(row) for row in upstream.query(*table.write_query(wanted))]
        if len(found) > len(wanted):
            raise RowsUnreadable(NOT_UNIQUE)
        rows = {table.read_key(row): dump(row) for row in found}
    return [
        replace(change, upstream=key)
        if isinstance(key, str)
        else _complete(change, rows.get(key), table)
        for change, key in zip(changes, keys, strict=True)
    ]


def _read_key(table: UpstreamTable, change: RowChange) -> Key | str:
    """Read the key of a row, or say why it has none."""
    try:
        return table.read_key(load(change.after or ""))
    except _UNREADABLE as error:
        return _explain(error)


def _complete(change: RowChange, row: str | None, table: UpstreamTable) -> RowChange:
    if row is None:
        return replace(change, upstream=NOT_FOUND)
    observed = change.observed and table.write_observed(change.observed)
    return replace(change, after=row, observed=observed, handle_key_only=False, upstream=FETCHED)


def _explain(error: Exception) -> str:
    return f"it cannot be fetched from upstream: {describe_error(error)}; {_RELOAD}"
