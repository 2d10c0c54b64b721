"""What tells new input from watermarks: nothing that is input may be taken for a watermark."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import write_deltalake

from tests.lake.canal import ddl, placed, row, watermark
from ticdc_assets.changefeed import Changefeed, changefeed_from_uri
from ticdc_assets.errors import LostRecords
from ticdc_assets.events import FilePosition, Quarantined
from ticdc_assets.lake.raw import ingest_folder
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources import kafka, new_input
from ticdc_assets.resources.new_input import may_have_input
from ticdc_assets.store.arrow import make_table
from ticdc_assets.store.contracts import CONTRACTS, RAW_FILES
from ticdc_assets.store.lake import Lake
from ticdc_assets.stream.offsets import ReadOffsets

TS = 470628459884838913
DATA = "d/t/5/2026-03-14/CDC00000000000000000001.csv"
SCHEMA = "d/t/meta/schema_5_0123456789.json"
STRAY = "d/t/5/CDC00000000000000000007.csv"


class World:
    """A folder that a changefeed writes to, and a lake that has ingested and applied all of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "source"
        self.lake = Lake(str(folder / "lake"), "f")
        self.feed = changefeed_from_uri(f"file://{self._folder}?protocol=csv", id="f")
        for path in (DATA, SCHEMA, STRAY, "metadata", "d/t/5/2026-03-14/meta/CDC.index"):
            self.writes(path, "x")
        self.ingests(**{DATA: "data", SCHEMA: "schema", STRAY: "stray"})
        self.decodes("row", TS - 1)

    def writes(self, path: str, content: str) -> None:
        file = self._folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)

    def ingests(self, **roles: str) -> None:
        rows = []
        for seq, (path, role) in enumerate(roles.items(), 1):
            known = os.stat(self._folder / path)
            modified = datetime.fromtimestamp(known.st_mtime_ns // 1000 / 1e6, UTC)
            values = {"batch": 1, "seq": seq, "path": path, "role": role}
            rows.append(values | {"size": known.st_size, "modified": modified})
        write_deltalake(self.lake.path("raw"), _table(RAW_FILES, rows), mode="append")

    def decodes(self, kind: str, ts: int) -> None:
        values = {"batch": 1, "seq": 1, "index": 0, "kind": kind, "commit_ts": ts}
        table = _table(CONTRACTS["events"], [values])
        write_deltalake(self.lake.path("events"), table, mode="append")

    @property
    def has_input(self) -> bool:
        return may_have_input(self.feed, self.lake, TS)


def _table(contract: str, rows: list[dict[str, object]]) -> object:
    names = make_table(contract, []).schema.names
    return make_table(contract, [tuple(row.get(name) for name in names) for row in rows])


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_checkpoint_an_index_and_what_is_ingested_are_no_input(world: World) -> None:
    assert not world.has_input
    world.writes("metadata", "newer")
    world.writes("d/t/5/2026-03-14/meta/CDC.index", "newer")
    assert not world.has_input


@pytest.mark.parametrize(
    "path",
    [
        *(DATA, SCHEMA, STRAY),
        DATA.replace("1.csv", "2.csv"),
        "d/t/meta/schema_6_0123456789.json",
        "elsewhere/CDC00000000000000000001.json",
    ],
)
def test_a_file_that_is_new_or_has_changed_is_input(world: World, path: str) -> None:
    world.writes(path, "longer")
    assert world.has_input


def test_events_that_no_watermark_has_covered_yet_are_input(world: World) -> None:
    world.decodes("watermark", TS + 9)
    assert not world.has_input
    world.decodes("ddl", TS + 1)
    assert world.has_input


def test_what_takes_long_to_tell_counts_as_input(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for limit, value in (("_MANY_FILES", 2), ("_LARGE_RAW", 10)):
        with monkeypatch.context() as patch:
            patch.setattr(ingest_folder, limit, value)
            assert world.has_input
    assert not world.has_input
    # There is no lake, or the source has gone.
    assert may_have_input(world.feed, Lake(str(tmp_path), "none"), TS)
    (tmp_path / "source").rename(tmp_path / "gone")
    assert not Path(world.feed.location).exists()
    dump = changefeed_from_uri(f"dump://{tmp_path}/dump?protocol=simple", id="f")
    assert may_have_input(dump, world.lake, TS)


@pytest.mark.parametrize(
    ("messages", "is_input"),
    [
        ([], False),
        ([watermark(TS + 1), watermark(TS + 2)], False),
        ([watermark(TS + 1), row("d", "t", TS + 1, id="1")], True),
        ([ddl("d", "t", TS + 1, "CREATE", "CREATE TABLE t (id int)"), watermark(TS + 1)], True),
        ([Message("t", 0, 0, None, b"?", 1), watermark(TS + 1)], True),
    ],
)
def test_of_the_records_of_a_topic_only_watermarks_are_no_input(
    world: World, monkeypatch: pytest.MonkeyPatch, messages: list[Message], is_input: bool
) -> None:
    ended: list[bool] = []

    def read(feed: Changefeed, known: ReadOffsets) -> Iterator[Message | Quarantined]:
        try:
            yield from placed(messages)
        finally:
            ended.append(True)

    uri = "kafka://h:9092/t?protocol=canal-json&enable-tidb-extension=true"
    topic = changefeed_from_uri(uri, id="f")
    monkeypatch.setattr(kafka, "read_topics", read)
    assert may_have_input(topic, world.lake, TS) is is_input
    # The consumer is closed.
    assert ended == [True]
    monkeypatch.setattr(new_input, "_MANY_RECORDS", 1)
    assert may_have_input(topic, world.lake, TS) is (len(messages) > 1)

    def lose(*_: object) -> Iterator[Message | Quarantined]:
        yield Quarantined(position=FilePosition("t-0", 0), error="LostRecords", reason="gone")

    monkeypatch.setattr(kafka, "read_topics", lose)
    assert may_have_input(topic, world.lake, TS)

    def fail(*_: object) -> Iterator[Message | Quarantined]:
        raise LostRecords("gone", "t")
        yield

    monkeypatch.setattr(kafka, "read_topics", fail)
    assert may_have_input(topic, world.lake, TS)
