"""Histories that go through one lake, and their contents there."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from tests.lake.histories import History
from tests.reference.changefeeds import DATABASE
from tests.reference.random_upstream import Shown
from ticdc_assets.changefeed import Changefeed, changefeed_from_uri
from ticdc_assets.events import Event, FilePosition, Watermark
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.store.event_rows import Arrival, to_arrow
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.tables import create_tables
from ticdc_assets.store.writer import LakeWriter
from ticdc_assets.views.asof import AsOfView, as_of

FEED = changefeed_from_uri("file:///nowhere?protocol=canal-json", id="random")


class HistoryLake:
    """Histories that go through one lake together."""

    def __init__(
        self,
        spark: SparkSession | Callable[[], SparkSession],
        root: Path,
        histories: Sequence[History],
        feed: Changefeed = FEED,
    ) -> None:
        self.histories = histories
        self.feed = feed
        self.lake = LakeSession(spark, Lake(str(root), feed.id), feed)
        create_tables(self.lake)
        self.end = max((history.times[-1] for history in histories), default=0)
        self._seq = 0
        self._seen: AsOfView | None = None

    def take(self, batch: int, events: list[Event], ts: int) -> None:
        """Write a batch of events and the resolved ts."""
        events = [*events, Watermark(ts=ts, position=FilePosition("metadata"))]
        arrivals = [Arrival(batch, self._seq + n, 0, event) for n, event in enumerate(events, 1)]
        self._seq += len(arrivals)
        rows = pa.Table.from_batches(to_arrow(arrivals))
        location = self.lake.location
        LakeWriter(location).append(LakeReader(location).open("events"), rows)

    def cuts(self, random: Random, windows: int) -> list[int]:
        return [*sorted(random.sample(range(100, self.end), windows - 1)), self.end]

    def check(self, ts: int, found: dict[str, Shown]) -> None:
        for history in self.histories:
            expected = history.expected_at(ts)
            if expected is not None:
                assert found.get(history.prefix, {}) == expected, (history.seed, ts)

    def contents_at(self, ts: int) -> tuple[dict[str, str], dict[str, Shown]]:
        """By history why tables are paused, and what is in the others, as the lake shows it."""
        seen = self._seen = as_of(self.lake, ts, self._seen)
        reasons, found = dict[str, str](), list[tuple[Incarnation, list[bytes]]]()
        for table in seen.tables():
            if table.reason is not None:
                reasons[_prefix(table)] = table.reason
            else:
                found.append((table, list(seen.lines(table))))
        return reasons, shown(found)


def shown(tables: Iterable[tuple[Incarnation, Iterable[bytes | str]]]) -> dict[str, Shown]:
    """Return tables by history, in the form of upstream."""
    found: dict[str, Shown] = defaultdict(dict)
    for table, lines in tables:
        assert not table.is_stopped, table.reason
        schema = table.schema
        database = schema.database.removeprefix(_prefix(table))
        columns = [c.name for c in schema.columns if c.generated != "virtual"]
        title = schema.table if database == DATABASE else f"{database}/{schema.table}"
        texts = map(msgspec.json.decode, lines)
        rows = [tuple(line.get(c, "absent") for c in columns) for line in texts]
        found[_prefix(table)][f"{title}({', '.join(columns)})"] = sorted(rows, key=str)
    return found


def _prefix(table: Incarnation) -> str:
    """Return the prefix of a history's databases."""
    return table.schema.database.partition("_")[0] + "_"
