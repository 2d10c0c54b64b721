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
from tests.lake.canal import FEED, change, ddl, placed, watermark
from tests.lake.golden_runs import GoldenLake, cuts
from tests.lake.privately import find_in_files
from tests.reference.golden_feeds import feed_of, messages
from tests.truth import Name, Row
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.erase.erase import Erased, erase
from ticdc_assets.erase.find import FoundRow, find_row
from ticdc_assets.erase.search import Search, Searched
from ticdc_assets.events import RowChange
from ticdc_assets.events.row_image import load
from ticdc_assets.lake.advance import RecordSource, advance, replay_tables
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.protocols.message import Message
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.stream.reading import read_folder_events, read_topic_events
from ticdc_assets.views.asof import as_of
from ticdc_assets.views.ledger import build_ledger
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


class Person:
    """A table of people with a hostile key, one of which is to be erased; and others beside it."""

    ID = "O'Ne\"il\\ \u00fc\u4e16\x00 --%`"
    TEXTS = (
        "Lake Street 221, Springfield",
        'says "\\ud83d\\ude00" \U0001f600 at night',
        "b@d\x00value!",
    )
    CREATE = (
        "CREATE TABLE `p` (`pk` VARCHAR(40) PRIMARY KEY, `street` VARCHAR(80), `n` VARCHAR(80),"
        " `small` TINYINT)"
    )

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.ts = 10

    def send(self, kind: str, new: Row, old: Row | None = None, **types: str) -> None:
        self.ts += 1
        message = change(kind, "d", "p", self.ts, new, old, **types)  # type: ignore[arg-type]
        content = msgspec.json.decode(message.value or b"")
        content["pkNames"] = ["pk"]
        content["mysqlType"]["small"] = "tinyint"
        self.messages.append(msgspec.structs.replace(message, value=msgspec.json.encode(content)))

    def person(self, pk: str, street: str = "", n: str = "", small: str = "1") -> Row:
        return {"pk": pk, "street": street, "n": n, "small": small}

    def live(self) -> None:
        """Write the life of the person, among others."""
        person, other = self.person, self.person("other one", "High Street 1, Shelbyville", "x")
        self.messages.append(ddl("d", "p", 10, "CREATE", self.CREATE))
        self.send("INSERT", other)
        self.send("INSERT", person("still", "Far Away 3, Cypress Creek", "s"))
        first = person(self.ID, self.TEXTS[0], "first")
        self.send("INSERT", first)
        self.send("UPDATE", {**first, "n": self.TEXTS[1]}, {"n": "first"})
        self.messages.append(watermark(self.ts))
        # Its values do not fit: it is quarantined, with its bytes.
        self.send("UPDATE", person(self.ID, self.TEXTS[2], "y", "999999"), {"n": self.TEXTS[1]})
        self.send("UPDATE", {**other, "n": "z"}, {"n": "x"})
        self.messages.append(watermark(self.ts))
        # A row that had the person's key for a while.
        self.send("INSERT", person("moving", "Mill Lane 7, Ogdenville", "m"))
        self.send("DELETE", person(self.ID, self.TEXTS[0], self.TEXTS[1]))
        self.send("UPDATE", person(self.ID, "Mill Lane 7, Ogdenville", "m"), {"pk": "moving"})
        self.send("UPDATE", person("moved", "Mill Lane 7, Ogdenville", "m"), {"pk": self.ID})
        self.send("INSERT", person(self.ID, self.TEXTS[0], "again"))
        self.messages.append(watermark(self.ts))


KEY = {"pk": Person.ID}
LEFT = [
    {"pk": "moved", "street": "Mill Lane 7, Ogdenville", "n": "m", "small": "1"},
    {"pk": "other one", "street": "High Street 1, Shelbyville", "n": "z", "small": "1"},
    {"pk": "still", "street": "Far Away 3, Cypress Creek", "n": "s", "small": "1"},
]
PERSON_FEED = dataclasses.replace(FEED, history=("d.*",), changes=("d.*",), iceberg=("d.*",))


class PersonLake:
    def __init__(
        self, root: Path | str, feed: Changefeed = PERSON_FEED, spark: SparkSession | None = None
    ) -> None:
        self.root = root
        self.feed = feed
        session = cache(start_no_spark) if spark is None else spark
        self.lake = LakeSession(session, Lake(str(root), feed.id), feed)
        self.reader = LakeReader(self.lake.location)

    def advance(self, messages: list[Message]) -> Any:
        return advance(self.lake, RecordSource(lambda _: placed(messages)))

    def fill(self, person: Person, windows: int | None = None) -> None:
        """Take in the life of the person, or its first windows, with a run for each window."""
        ends = [n for n, m in enumerate(person.messages, 1) if b"WATERMARK" in (m.value or b"")]
        for end in ends[:windows]:
            self.advance(person.messages[:end])

    def erase(self, key: Mapping[str, str] = KEY, table: str = "d.p") -> tuple[Erased, Searched]:
        names = LakeNames.open(self.reader, self.feed)
        self.found = find_row(RowHistories.open(names, table), key)
        last = read_last_snapshot(self.lake)
        done = erase(self.lake, last, self.found.target, lambda *_: None)
        search = Search(self.reader, done.erasure, self.found.target)
        return done, search.run(lambda *_: None)

    def rows(self, ts: int | None = None) -> list[Row]:
        shown = as_of(self.lake, ts)
        lines = shown.lines(shown.find("d.p")[0])
        return sorted((msgspec.json.decode(line) for line in lines), key=str)

    def replay(self) -> None:
        last = read_last_snapshot(self.lake)
        replay_tables(self.lake, last, ReplayRequest(frozenset(last.versions), 0), lambda *_: None)

    def require_erased(self) -> None:
        assert find_in_files(Path(self.root), {Person.ID, *Person.TEXTS}) == {}
        assert self.rows() == LEFT
        assert build_ledger(self.reader, read_last_snapshot(self.lake)).adds_up

    def fold_changes(self) -> list[Row]:
        """Fold the table of changes to the rows that it leads to."""
        (id,) = read_last_snapshot(self.lake).versions
        found: dict[str, Row] = {}
        stored = self.reader.open(f"changes/{id}").to_pyarrow_table().to_pylist()
        for each in sorted(stored, key=lambda row: (row["commit_ts"], row["after"] is not None)):
            if each["before"] is not None:
                del found[each["before"]["pk"]]
            if each["after"] is not None:
                found[each["after"]["pk"]] = each["after"]
        return [
            {name: str(row[name]) for name in ("pk", "street", "n", "small")}
            for _, row in sorted(found.items())
        ]

    def read_history(self) -> list[Row]:
        (id,) = read_last_snapshot(self.lake).versions
        stored = self.reader.open(f"history/{id}").to_pyarrow_table().to_pylist()
        open_versions = [row for row in stored if row["_valid_to"] is None]
        return sorted(
            (
                {name: str(row[name]) for name in ("pk", "street", "n", "small")}
                for row in open_versions
            ),
            key=str,
        )
