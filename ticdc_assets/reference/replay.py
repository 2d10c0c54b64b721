"""A whole changefeed through the reference model: tables at chosen TSOs, and what went wrong."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO
from urllib.parse import quote

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import Event
from ticdc_assets.events.tso import to_datetime
from ticdc_assets.protocols.open_protocol import flags as open_flags
from ticdc_assets.reference.model import Model
from ticdc_assets.reference.output import row_lines
from ticdc_assets.reference.resolved import Progress

# Problems of one kind beyond this many are counted, not listed.
_LISTED = 50
_END = (1 << 63) - 1


class Replay:
    """Takes all events of a changefeed in, then moves its tables from TSO to TSO."""

    def __init__(self, feed: Changefeed) -> None:
        self._feed = feed
        self.model = Model(
            feed.keys,
            updates_split=not feed.output_raw_change_event,
            settle=open_flags.settle if feed.protocol == "open-protocol" else None,
        )
        self._progress = Progress(feed)

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            self._progress.hear((event,))
            self.model.add((event,))

    @property
    def default_ts(self) -> int:
        """The resolved ts; the end of the stream where the changefeed states none."""
        resolved = self._progress.resolved_ts
        return _END if resolved is None else resolved

    def check(self, tsos: Iterable[int]) -> None:
        """Refuse a TSO at which the changefeed is not complete yet."""
        resolved = self._progress.resolved_ts
        late = [ts for ts in tsos if resolved is not None and ts > resolved]
        if late:
            raise ConfigError(
                f"{late[0]} is not resolved: the changefeed is complete up to {resolved}"
                f" ({to_datetime(resolved or 0):%Y-%m-%d %H:%M:%S} UTC)",
                setting="--at",
            )

    def advance(self, ts: int) -> None:
        self.model.advance(ts)

    def lines(self, name: str) -> list[bytes]:
        """The rows of the table that a person calls `db.table`."""
        found = [
            table
            for table in self.model.tables
            if f"{table.schema.database}.{table.schema.table}".casefold() == name.casefold()
        ]
        if not found:
            raise ConfigError(f"no table {name} at {self.model.applied_ts}", setting="--table")
        if found[0].paused is not None:
            raise ConfigError(f"{name} is paused: {found[0].paused}", setting="--table")
        return row_lines(found[0])

    def write(self, folder: Path) -> None:
        """Write every table to `folder/<database>/<table>.jsonl`; a paused one is left out."""
        folder.mkdir(parents=True, exist_ok=True)
        for table in self.model.tables:
            if table.paused is None:
                inside = folder / _encoded(table.schema.database)
                inside.mkdir(exist_ok=True)
                file = inside / f"{_encoded(table.schema.table)}.jsonl"
                file.write_bytes(b"".join(row_lines(table)))

    def report(self, out: TextIO) -> int:
        """Say what could not be honoured; return the exit code."""
        problems = self.model.problems
        listed: Counter[str] = Counter()
        for problem in problems:
            listed[problem.kind] += 1
            if listed[problem.kind] <= _LISTED:
                print(problem.line(), file=out)
        for kind, count in listed.items():
            if count > _LISTED:
                print(f"{kind}: {count - _LISTED} more", file=out)
        return 1 if any(problem.serious for problem in problems) else 0


def _encoded(name: str) -> str:
    """A name as one path segment: percent-encoded but for RFC 3986's unreserved characters."""
    encoded = quote(name, safe="", errors="surrogateescape")
    return encoded.replace(".", "%2E") if encoded in (".", "..") else encoded
