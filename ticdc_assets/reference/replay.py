"""A whole changefeed through the reference model: tables at chosen TSOs, and what went wrong."""

from collections.abc import Iterable
from errno import ENAMETOOLONG
from pathlib import Path
from typing import TextIO
from urllib.parse import quote

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError, InvalidValue
from ticdc_assets.events import Event
from ticdc_assets.events.table_schema import folded
from ticdc_assets.events.tso import to_datetime
from ticdc_assets.protocols.registry import get_ordering, get_traits
from ticdc_assets.reference.model import Model
from ticdc_assets.reference.row_lines import encode_rows
from ticdc_assets.reference.table import ModelTable
from ticdc_assets.stream.resolved_ts import ResolvedTsTracker

_END = (1 << 63) - 1


class ModelReplay:
    """Takes all events of a changefeed in, then moves its tables from TSO to TSO."""

    def __init__(self, feed: Changefeed) -> None:
        self._feed = feed
        self.model = Model(
            feed.keys,
            updates_split=not feed.output_raw_change_event,
            redecode=get_traits(feed).redecode,
        )
        self._progress = ResolvedTsTracker(feed)
        self._unwritten: list[str] = []

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            self._progress.observe((event,))
            self.model.add((event,))

    @property
    def default_ts(self) -> int:
        """The resolved ts; the end of the stream where the changefeed states none."""
        resolved = self._progress.resolved_ts
        return _END if resolved is None else resolved

    def check(self, tsos: Iterable[int]) -> None:
        """Refuse a TSO at which the changefeed is not complete yet."""
        resolved = self._progress.resolved_ts
        if resolved is None:
            return
        late = [ts for ts in tsos if ts > resolved]
        if late or not resolved:
            missing = self._progress.find_lagging_partitions(late[0] if late else 1)[:3]
            waits_for = f", waiting for a watermark from {', '.join(missing)}" if missing else ""
            if not resolved:
                reason = f"nothing is resolved yet{waits_for}"
            else:
                reason = (
                    f"{late[0]} is not resolved: the changefeed is complete up to {resolved}"
                    f" ({to_datetime(resolved):%Y-%m-%d %H:%M:%S} UTC){waits_for}"
                )
            raise ConfigError(reason, setting="--at")

    def advance(self, ts: int) -> None:
        self.model.advance(ts)

    def lines(self, name: str) -> list[bytes]:
        """The rows of the table that a person calls `db.table`; of a paused one there are none."""
        found = [t for t in self.model.tables if folded(_name(t)) == folded(name)]
        if not found:
            raise ConfigError(f"no table {name} at {self.model.applied_ts}", setting="--table")
        if len(found) > 1:
            names = " or ".join(f"`{t.schema.database}`.`{t.schema.table}`" for t in found)
            raise ConfigError(f"{name} may be {names}: use --out", setting="--table")
        return self._rows(found[0]) or []

    def write(self, folder: Path) -> None:
        """Write every table to `folder/<database>/<table>.jsonl`; a paused one is left out."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for table in self.model.tables:
                rows = self._rows(table)
                if rows is not None:
                    self._write(table, rows, folder / encode_path_segment(table.schema.database))
        except OSError as error:
            reason = error.strerror or "cannot be written"
            raise ConfigError(reason, file=error.filename, setting="--out") from None

    def _rows(self, table: ModelTable) -> list[bytes] | None:
        """The rows to show; none of a paused table, or of one whose columns do not fit them."""
        if table.paused is None:
            try:
                return encode_rows(table)
            except InvalidValue as problem:
                self.model.tables.pause(
                    table.schema.database, table.schema.table, str(problem), self.model.applied_ts
                )
        return None

    def _write(self, table: ModelTable, rows: list[bytes], folder: Path) -> None:
        file = folder / f"{encode_path_segment(table.schema.table)}.jsonl"
        try:
            folder.mkdir(exist_ok=True)
            file.write_bytes(b"".join(rows))
        except OSError as error:
            if error.errno != ENAMETOOLONG:
                raise
            self._unwritten.append(f"unwritten: {_name(table)}: too long a name for a file")

    def report(self, out: TextIO) -> int:
        """Say all that could not be honoured or be sure; return the exit code."""
        for note in describe_limits(self._feed):
            print(f"note: {note}", file=out)
        problems = self.model.problems + self.model.waiting()
        for line in [*(problem.describe() for problem in problems), *self._unwritten]:
            print(line, file=out)
        return 1 if self._unwritten or any(problem.data_may_differ for problem in problems) else 0


def describe_limits(feed: Changefeed) -> list[str]:
    """What a changefeed's settings keep anyone from knowing."""
    found = []
    ordering = get_ordering(feed)
    if ordering == "milliseconds":
        found.append(
            "without enable-tidb-extension rows carry milliseconds instead of a commit ts: their"
            " order is not certain before the end"
        )
    if ordering == "table_version":
        found.append(
            "without csv.include-commit-ts rows are dated by the table version of their file: only"
            " the end state is exact"
        )
    if feed.use_table_id_as_path:
        found.append(
            "with use-table-id-as-path TiCDC writes no database-level DDL: tables of a dropped"
            " database stay"
        )
    if feed.transport == "storage" and not feed.enable_partition_separator:
        found.append(
            "without enable-partition-separator the classic TiCDC overwrites files of partitioned"
            " tables: rows lost so are not in the folder"
        )
    return found


def _name(table: ModelTable) -> str:
    return f"{table.schema.database}.{table.schema.table}"


def encode_path_segment(name: str) -> str:
    """A name as one path segment: percent-encoded but for RFC 3986's unreserved characters."""
    text = quote(name, safe="", errors="surrogateescape")
    return text.replace(".", "%2E") if text in (".", "..") else text
