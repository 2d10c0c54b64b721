"""How far sources say they are: idle is not stopped, for topics as for folders."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.inputs import canal_row, canal_watermark
from tests.kafka_broker import PASSWORD, Broker
from tests.servers import HOST, free_port
from ticdc_assets.changefeed import Changefeed, changefeed_from_uri
from ticdc_assets.errors import ConfigError
from ticdc_assets.events.tso import compose
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources import kafka, topic_tail
from ticdc_assets.resources.patience import PatientCaller
from ticdc_assets.resources.source_state import read_lake_states, read_source_states
from ticdc_assets.store.arrow import arrow_schema
from ticdc_assets.store.contracts import EVENTS, RAW_FILES
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.writer import LakeWriter
from ticdc_assets.stream.offsets import ReadOffsets
from ticdc_assets.stream.resolved_ts import WatermarkState
from ticdc_assets.stream.topic_ranges import OffsetRange, PartitionEnds, TopicEnds
from ticdc_assets.views.status import LakeState, SourceState

NOW_MS = int(time.time()) * 1000
EXTENDED = "protocol=canal-json&enable-tidb-extension=true"


def ts(seconds_ago: float) -> int:
    return compose(NOW_MS - round(1000 * seconds_ago))


def read(
    feed: Changefeed, root: Path, lake: LakeState | None = None, max_lag: float = 600
) -> SourceState:
    lakes = {feed.id: lake or LakeState()}
    (found,) = read_source_states([feed], str(root), lakes, PatientCaller(20), max_lag).values()
    return found


Partition = list[dict[str, object]]


class Topic:
    """A topic in memory: messages by partition, each a second after the one before it."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *partitions: list[dict[str, object]]
    ) -> None:
        self._partitions = partitions
        self.reads: list[int] = []
        monkeypatch.setattr(topic_tail, "Brokers", lambda _: self)
        monkeypatch.setattr(topic_tail, "read_ranges", self._read)

    def read_ends(self) -> dict[str, TopicEnds]:
        ends = {number: PartitionEnds(0, len(p)) for number, p in enumerate(self._partitions)}
        return {"t": TopicEnds("id", ends)}

    def _read(
        self, feed: Changefeed, brokers: object, ranges: Iterable[OffsetRange], known: ReadOffsets
    ) -> Iterator[Message]:
        for topic, partition, start, end in ranges:
            messages = self._partitions[partition]
            for offset in range(start, end):
                value = json.dumps(messages[offset]).encode()
                at = NOW_MS - 1000 * (len(messages) - 1 - offset)
                yield Message(topic, partition, offset, None, value, at)
            self.reads.append(end - start)


def feed(protocol: str = EXTENDED) -> Changefeed:
    return changefeed_from_uri(f"kafka://{HOST}:1/t?{protocol}", id="shop")


def row(seconds_ago: float) -> dict[str, object]:
    return canal_row("d", "t", ts(seconds_ago))


def mark(seconds_ago: float) -> dict[str, object]:
    return canal_watermark(ts(seconds_ago))


ROWS = [row(10)] * 300


@pytest.mark.parametrize(
    ("partitions", "lake", "checkpoint", "reads"),
    [
        # The least of the newest watermarks.
        (([mark(9), mark(3)], [mark(5), row(4)]), None, ts(5), [2, 2]),
        # A few records are read, and more where they have no watermark.
        (([mark(20), *ROWS, mark(3)], [mark(20), *ROWS]), None, ts(20), [100, 100, 301]),
        # No watermark among thousands of newer records: what the lake has read says nothing.
        (([mark(90), *[row(10)] * 10_000], [mark(5)]), 90, None, [100, 1, 10_000]),
        # A partition without any watermark so far holds it back.
        (([mark(5)], [row(5)]), None, None, [1, 1]),
        (([mark(5)], []), 60, ts(60), [1]),
        (([], []), None, None, []),
    ],
    # The processes that share the tests have to agree on their names, which contain no time.
    ids=range(6),
)
def test_the_checkpoint_of_topics_is_in_their_newest_records(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    partitions: tuple[Partition, ...],
    lake: float | None,
    checkpoint: int | None,
    reads: list[int],
) -> None:
    topic = Topic(monkeypatch, *partitions)
    # The lake has read a watermark of each partition.
    known = (
        WatermarkState()
        if lake is None
        else WatermarkState(watermarks={"t": {0: ts(lake), 1: ts(lake)}})
    )
    found = read(feed(), tmp_path, LakeState(watermarks=known))
    assert found.checkpoint_ts == checkpoint
    assert topic.reads == reads
    count = sum(map(len, partitions))
    assert found.records_behind == (count or None)
    assert (found.newest_at is None) == (not count)
    assert found.newest_at is None or found.newest_at.timestamp() == NOW_MS / 1000


def test_a_topic_without_watermarks_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Topic(monkeypatch, [row(3)])
    found = read(feed("protocol=canal-json"), tmp_path)
    assert (found.checkpoint_ts, found.has_watermarks, found.is_readable) == (None, False, True)
    assert "enable-tidb-extension" in (found.reason or "")


def test_a_folder_states_its_checkpoint_and_when_it_was_written(tmp_path: Path) -> None:
    folder = tmp_path / "source"
    storage = changefeed_from_uri(f"file://{folder}?protocol=csv", id="shop")
    had_data = LakeState(resolved_ts=ts(60))
    assert read(storage, tmp_path).is_readable
    assert read(storage, tmp_path).reason == f"{folder}: the source has no data yet"
    gone = read(storage, tmp_path, had_data)
    assert (gone.is_readable, gone.reason) == (False, f"sink-uri: no such folder: {folder}")
    folder.mkdir()
    (folder / "metadata").write_text(json.dumps({"checkpoint-ts": ts(7)}))
    os.utime(folder / "metadata", (NOW_MS / 1000, NOW_MS / 1000))
    moment = datetime.fromtimestamp(NOW_MS / 1000, UTC)
    assert read(storage, tmp_path, had_data) == SourceState(ts(7), moment)
    (folder / "metadata").write_text('{"checkpoint-')
    assert not read(storage, tmp_path, had_data).is_readable


def test_an_idle_source_has_only_watermarks_for_a_lake_that_waits_for_more(tmp_path: Path) -> None:
    folder = tmp_path / "source"
    storage = changefeed_from_uri(f"file://{folder}?protocol=csv", id="shop")
    folder.mkdir()
    (folder / "metadata").write_text(json.dumps({"checkpoint-ts": ts(0)}))
    lake = Lake(str(tmp_path), "shop")
    writer = LakeWriter(lake)
    for name, columns in (("raw", RAW_FILES), ("events", EVENTS)):
        writer.create(name, arrow_schema(columns), {})

    def is_idle(seconds_ago: float, max_lag: float) -> bool:
        state = LakeState(resolved_ts=ts(seconds_ago))
        return read(storage, tmp_path, state, max_lag).has_only_watermarks

    assert is_idle(280, max_lag=120)
    # A sensor has had a run apply them long ago, or does not tick.
    assert not is_idle(700, max_lag=120)
    # A limit that is so long needs no look at the files.
    assert not is_idle(280, max_lag=600)
    (folder / "CDC00000000000000000001.csv").touch()
    assert not is_idle(280, max_lag=120)


def test_a_dump_tells_its_age_only(tmp_path: Path) -> None:
    dump = changefeed_from_uri(f"dump://{tmp_path}/x.jsonl?protocol=simple", id="shop")
    assert read(dump, tmp_path).reason == f"{tmp_path}/x.jsonl: the source has no data yet"
    (tmp_path / "x.jsonl").write_text("{}")
    found = read(dump, tmp_path)
    assert (found.is_readable, found.has_watermarks) == (True, False)
    assert found.newest_at is not None


def test_the_newest_records_on_a_broker(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create("granted-tail", partitions=2)
    uri = f"{broker.sasl}/{topic}?{EXTENDED}&enable-tls=true&ca={broker.ca}&sasl-mechanism=plain"
    shop = changefeed_from_uri(
        f"kafka://{uri}&sasl-user=reader&sasl-password={PASSWORD}", id="shop"
    )
    assert read(shop, tmp_path).reason == f"{broker.sasl}: the source has no data yet"
    values = [json.dumps(message).encode() for message in (row(9), mark(8), mark(4))]
    broker.send(
        Message(topic, partition, offset, None, value, NOW_MS)
        for partition in (0, 1)
        for offset, value in enumerate(values)
    )
    found = read(shop, tmp_path)
    assert (found.checkpoint_ts, found.records_behind) == (ts(4), 6)
    assert found.newest_at == datetime.fromtimestamp(NOW_MS / 1000, UTC)
    # The rights of a run are needed, and no more.
    broker.create("hidden-tail")
    for user, name, reason in (
        ("reader", "hidden-tail", "grant READ and DESCRIBE"),
        ("stranger", topic, "grant READ and DESCRIBE"),
    ):
        other = uri.replace(topic, name) + f"&sasl-user={user}&sasl-password={PASSWORD}"
        denied = read(changefeed_from_uri(f"kafka://{other}", id="shop"), tmp_path)
        assert not denied.is_readable
        assert reason in (denied.reason or "")


def test_brokers_that_do_not_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kafka, "PATIENCE", 0.5)
    silent = changefeed_from_uri(f"kafka://{HOST}:{free_port()}/t?protocol=simple", id="shop")
    found = read(silent, tmp_path)
    assert not found.is_readable
    assert "no broker answers" in (found.reason or "")


def test_a_call_without_an_answer_is_left_and_not_made_again(tmp_path: Path) -> None:
    """As of a mounted folder whose server is gone: nothing can interrupt it."""
    ours, theirs = socket.socketpair()
    calls: list[str] = []

    def wait() -> str:
        calls.append("wait")
        return theirs.recv(1).decode()

    def fail() -> str:
        raise ValueError("secret password=S3CRET")

    several: dict[str, Callable[[], str]] = {"wait": wait, "fail": fail, "go": lambda: "gone"}
    caller = PatientCaller(0.2)
    for _ in range(2):
        found = caller.call_all(several)
        assert found["go"] == "gone"
        for key, reason in (
            ("wait", "gives no answer within 0 s"),
            ("fail", "unexpected ValueError: secret password=…"),
        ):
            assert isinstance(found[key], ConfigError)
            assert str(found[key]) == reason
    assert caller.is_left
    assert calls == ["wait"]
    ours.send(b"x")
    while caller.is_left:
        time.sleep(0.01)
    ours.send(b"y")
    assert caller.call_all(several)["wait"] == "y"
    ours.close()
    theirs.close()


def test_nothing_is_left_of_a_call_that_has_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = threading.Event()

    class SlowToEnd(threading.Thread):
        def run(self) -> None:
            super().run()
            may_end.wait()

    monkeypatch.setattr(threading, "Thread", SlowToEnd)
    caller = PatientCaller(20)
    for answer in ("one", "two"):
        assert caller.call_all({"go": lambda answer=answer: answer}) == {"go": answer}
        assert not caller.is_left
    may_end.set()


def test_a_lake_that_cannot_be_read_is_a_state(tmp_path: Path) -> None:
    shop = feed()

    def fail(_: object) -> LakeState:
        raise ConfigError("is damaged")

    assert read_lake_states([shop], str(tmp_path), PatientCaller(5), fail) == {
        "shop": LakeState(reason="is damaged")
    }
