"""Where Spark's workers decode, columns are hashed as in the driver, and the key stays in neither.

A worker gets its task as bytes, and the key from its environment.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.cloudpickle import dumps

from tests.lake.canal import FEED, watermark
from tests.lake.privately import KEY, find_in_files, write_hash, write_mask
from tests.lake.test_private_tables import CREATE, VARIABLE, PrivateFeed, T
from ticdc_assets.lake.events import decode_topic
from ticdc_assets.lake.events.decode_topic import TopicDecode
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.workers import _Worker

# What a process of Spark's does with a task.
_WORK = """
import pickle, sys
import pyarrow as pa
worker = pickle.load(sys.stdin.buffer)
numbers = pa.RecordBatch.from_pydict({"id": range(len(worker.bundles))})
done = pa.Table.from_batches(worker([numbers]))
with pa.ipc.new_stream(sys.stdout.buffer, done.schema) as stream:
    stream.write_table(done)
"""
# The command, to which few records are many.
_ADVANCE = """
import sys
from ticdc_assets.store import reader
reader.MANY_ROWS = 50
from ticdc_assets.cli import main
sys.exit(main(sys.argv[1:]))
"""
_COUNT = 400


def _mail(id: int) -> str:
    return f"ann.{id}@example.com"


def _phone(id: int) -> str:
    return f"+49151{id:08}"


def _expect(id: int) -> dict[str, Any]:
    phone = write_mask(_phone(id))
    return {"id": id, "email": write_hash(_mail(id)), "phone": phone}


def _fill(feed: PrivateFeed, count: int) -> None:
    feed.run_ddl(CREATE, "CREATE")
    for id in range(count):
        feed.put(id, email=_mail(id), phone=_phone(id), note=f"a note of {id}")


def _sort(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    columns = ("id", "email", "phone")
    return sorted(({name: row[name] for name in columns} for row in rows), key=str)


def _read(feed: PrivateFeed) -> list[dict[str, Any]]:
    assert all(len(row) == 4 for row in feed.stored())
    return _sort(feed.stored())


def test_a_worker_hashes_as_the_driver_does_and_no_task_has_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    tasks: list[bytes] = []

    def run(
        _: LakeSession, do: Callable[[Any], Any], bundles: Sequence[Any], kind: type[Any]
    ) -> Iterator[Any]:
        tasks.append(dumps(_Worker(do, bundles)))
        done = subprocess.run(
            [sys.executable, "-c", _WORK], input=tasks[-1], stdout=subprocess.PIPE, check=True
        )
        for row in pa.ipc.open_stream(done.stdout).read_all().to_pylist():
            assert row["failure"] is None
            yield msgspec.msgpack.decode(row["done"], type=kind)

    driver, workers = (PrivateFeed(tmp_path / name, T) for name in ("driver", "workers"))
    monkeypatch.setattr(decode_topic, "run_in_workers", run)
    for feed in (driver, workers):
        _fill(feed, 20)
        if feed is workers:
            monkeypatch.setattr(TopicDecode, "_is_small", lambda *_: False)
        feed.advance()
    assert len(tasks) == 1
    assert _read(workers) == _read(driver) == _sort([_expect(id) for id in range(20)])
    assert KEY.encode() not in tasks[0]
    assert VARIABLE.encode() in tasks[0]
    hidden = [text for id in range(20) for text in (_mail(id), _phone(id))]
    assert find_in_files(tmp_path, [KEY, *hidden]) == {}


@pytest.mark.all_cases
@pytest.mark.slow
def test_the_key_is_in_no_plan_log_or_event_log_of_spark(tmp_path: Path) -> None:
    feed = PrivateFeed(tmp_path / "unused", T)
    _fill(feed, _COUNT)
    feed.send(watermark(feed.ts + 9))
    with (tmp_path / "t.jsonl").open("w") as dump:
        for offset, message in enumerate(feed._sent):
            payload = (message.value or b"").decode()
            record = {"topic": "t", "partition": 0, "offset": offset, "key": None}
            dump.write(json.dumps({**record, "ts": 1000, "payload": payload}) + "\n")
    uri = f"dump://{tmp_path}/t.jsonl?protocol=canal-json&enable-tidb-extension=true"
    declared = tmp_path / "changefeeds.toml"
    declared.write_text(f"""
[[changefeed]]
id = "{FEED.id}"
sink-uri = "{uri}"
[changefeed.privacy]
key-env = "{VARIABLE}"
raw = "encrypted"
[[changefeed.privacy.table]]
tables = ["d.t"]
keep = ["id"]
hash = ["email"]
mask = ["phone"]
""")
    logged, lake = tmp_path / "event-log", tmp_path / "lake"
    logged.mkdir()
    (tmp_path / "conf").mkdir()
    settings = {"enabled": "true", "dir": logged.as_uri()}
    settings |= {"compress": "false", "rolling.enabled": "false"}
    lines = [f"spark.eventLog.{name} {value}\n" for name, value in settings.items()]
    (tmp_path / "conf" / "spark-defaults.conf").write_text("".join(lines))
    command = ["advance", "--changefeeds", str(declared), "--lake", str(lake)]
    at = {"SPARK_CONF_DIR": str(tmp_path / "conf"), "TICDC_SPARK_LOG": "debug", VARIABLE: KEY}
    with (tmp_path / "log").open("wb") as log:
        subprocess.run(
            [sys.executable, "-c", _ADVANCE, *command],
            env={**os.environ, **at},
            stdout=log,
            stderr=log,
            check=True,
        )
    rows = DeltaTable(str(lake / FEED.id / "current" / "d.t")).to_pyarrow_table().to_pylist()
    assert _sort(rows) == _sort([_expect(id) for id in range(_COUNT)])
    (events,) = (path for path in logged.rglob("*") if path.is_file())
    # That workers have decoded, and that plans are there.
    assert "MapInArrow" in events.read_text()
    assert "DEBUG" in (tmp_path / "log").read_text()
    (tmp_path / "t.jsonl").unlink()
    hidden = [text for id in range(_COUNT) for text in (_mail(id), _phone(id))]
    assert find_in_files(tmp_path, [KEY, *hidden]) == {}
