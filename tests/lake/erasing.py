"""Lakes of golden data whose rows are erased, and what has to be left of them; without Spark."""

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NoReturn, cast

import msgspec
from pyspark.sql import SparkSession

from tests.golden import storage_tree
from tests.lake.golden_runs import GoldenLake, cuts
from tests.reference.golden_feeds import feed_of, messages
from tests.truth import Name, Row
from ticdc_assets.events import RowChange
from ticdc_assets.events.row_image import load
from ticdc_assets.lake.erase.erase import Erased, erase
from ticdc_assets.lake.erase.search import Search, Searched
from ticdc_assets.lake.log.applied import read_last_snapshot
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.stream.reading import read_folder_events, read_topic_events
from ticdc_assets.views.erasure_target import FoundRow, find_row
from ticdc_assets.views.names import LakeNames
from ticdc_assets.views.row_history import RowHistories

# What is shorter is in other rows by chance.
LEAST = 8


def start_no_spark() -> NoReturn:
    raise AssertionError("erasing takes no Spark")


class ErasingLake(GoldenLake):
    """The lake of a dataset, with histories, changes and Iceberg tables of all tables."""

    def __init__(
        self, root: Path, dataset: str, spark: SparkSession | None = None, **declared: Any
    ) -> None:
        session = cast("SparkSession", cache(start_no_spark)) if spark is None else spark
        super().__init__(session, root, dataset)
        every = ("*.*",)
        settings = {"history": every, "changes": every, "iceberg": every, **declared}
        self.feed = dataclasses.replace(self.feed, **settings)
        self.lake = LakeSession(session, self.lake.location, self.feed)
        self.root = root

    @property
    def reader(self) -> LakeReader:
        return LakeReader(self.lake.location)

    def advance_in(self, windows: int, seed: int) -> None:
        for cut in cuts(self.dataset, [], Random(seed), windows):
            assert self.advance(cut) is not None

    def find(self, table: str, key: Mapping[str, str]) -> FoundRow:
        names = LakeNames.open(self.reader, self.feed)
        return find_row(RowHistories.open(names, table), key)

    def erase(self, table: str, key: Mapping[str, str]) -> tuple[Erased, Searched]:
        found = self.find(table, key)
        done = erase(self.lake, read_last_snapshot(self.lake), found.target, lambda *_: None)
        return done, Search(self.reader, done.erasure, found.target).run(lambda *_: None)

    def read(self) -> dict[Name, list[Row]]:
        """Read all tables as `show` prints them."""
        self._seen = None
        shown = self.as_of(None)
        return {
            (table.schema.database, table.schema.table): [
                msgspec.json.decode(line) for line in shown.lines(table)
            ]
            for table in shown.tables()
            if not table.is_stopped
        }


def list_images(dataset: str) -> Iterator[tuple[Name, Row]]:
    """Yield all row images that a dataset states."""
    feed = feed_of(dataset)
    if feed.transport == "storage":
        tree = storage_tree(dataset)
        events = read_folder_events(feed, tree, tree.__getitem__)
    else:
        events = read_topic_events(feed, messages(feed), None)
    for event in events:
        if isinstance(event, RowChange):
            for image in (event.before, event.after):
                if image is not None:
                    yield (event.database, event.table), load(image)
