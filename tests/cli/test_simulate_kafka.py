"""`simulate --brokers` writes its changefeed to a topic, and declares it as it is."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka_broker import Broker
from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.events import Quarantined, RowChange
from ticdc_assets.resources.kafka import read_topics
from ticdc_assets.stream.offsets import ReadOffsets
from ticdc_assets.stream.reading import read_topic_events
from ticdc_assets.stream.resolved_ts import ResolvedTsTracker

PROJECT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("protocol", [None, "canal-json"])
def test_the_shop_writes_to_a_topic_that_can_be_read(
    broker: Broker, tmp_path: Path, protocol: str | None
) -> None:
    folder = tmp_path / "shop"
    command = [sys.executable, "-m", "ticdc_assets.cli", "simulate", str(folder), "--rate", "40"]
    command += ["--brokers", broker.plain]
    if protocol is not None:
        command += ["--protocol", protocol]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    shop = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert shop.stdout is not None
    try:
        # The checkpoints of the empty tables, and of the first rows.
        assert [shop.stdout.readline()[:11] for _ in range(2)] == ["checkpoint "] * 2
        (feed,) = load_changefeeds(folder / "changefeeds.toml").values()
        assert (feed.transport, feed.protocol) == ("kafka", protocol or "simple")
        # What goes to the topic stays nowhere else.
        assert (folder / "records.jsonl").stat().st_size < 100_000
        events = list(read_topic_events(feed, read_topics(feed, ReadOffsets()), None))
        if protocol is None:
            command[4] = str(tmp_path / "another")
            second = subprocess.run(command, capture_output=True, text=True, env=environment)
            assert second.returncode == 2
            assert "--brokers: topic demo has records of another run" in second.stderr
    finally:
        shop.send_signal(signal.SIGINT)
        shop.communicate(timeout=60)
        broker.delete("demo")
        broker.wait_until_gone("demo")
    assert [event for event in events if isinstance(event, Quarantined)] == []
    rows = [event for event in events if isinstance(event, RowChange)]
    assert rows
    tracker = ResolvedTsTracker(feed)
    tracker.observe(events)
    assert (tracker.resolved_ts or 0) >= max(row.commit_ts for row in rows)


def test_csv_is_an_error(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ticdc_assets.cli", "simulate", str(tmp_path / "shop")]
    command += ["--brokers", "127.0.0.1:1", "--protocol", "csv"]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(PROJECT)}
    )
    assert done.returncode == 2
    assert "csv cannot be written to topics" in done.stderr
