"""Kill runs of `advance` at a chosen moment, and check the lake afterwards.

A run is the command in a process group of its own, which includes its JVM.  A moment is a number of
files: each new file in a stage's tables (data, a commit, a commit's temporary file) marks a moment
before, during or after a commit.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from tests.servers import SHORT_LIVED_JVM
from ticdc_assets.changefeed import Changefeed, load_changefeeds
from ticdc_assets.demo import (
    TOPIC,
    Simulation,
    SimulationOptions,
    SimulationStep,
    encode_truth,
    prepare,
)
from ticdc_assets.lake.advance import advance
from ticdc_assets.lake.apply.current_table import CurrentTable
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources.dump import read_dump
from ticdc_assets.resources.kafka_producer import Producer
from ticdc_assets.resources.reading import open_source
from ticdc_assets.resources.storage import open_sink_folder
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.work_size import FEW_ROWS
from ticdc_assets.views.asof import as_of
from ticdc_assets.views.ledger import build_ledger

# The tables that a stage writes, and the most files that one run adds there.
STAGES = {
    "create": (("raw", "events", "quarantine", "schema_history", "tables", "applied"), 25),
    "ingest": (("raw",), 7),
    "decode": (("events", "quarantine"), 7),
    "apply": (("current", "schema_history", "tables", "applied"), 30),
}
_POLL_SECONDS = 0.002
_TIMEOUT_SECONDS = 900


class Runs:
    """A changefeed that continues, and the runs that follow it."""

    def __init__(self, root: Path, options: SimulationOptions, seed: int) -> None:
        self.random = Random(seed)
        self.simulation: Simulation = prepare(root / "feed", options)
        self.feed: Changefeed = next(iter(load_changefeeds(self.simulation.changefeeds).values()))
        self._producer = None if options.brokers is None else Producer(options.brokers)
        if self._producer is not None:
            self._producer.create_topic(TOPIC, options.partitions)
        self._sent = 0
        self.location = Lake(str(root / "lake"), self.feed.id)
        self._most = {stage: most for stage, (_, most) in STAGES.items()}
        # Where each run was killed, as text.
        self.kills: list[str] = []
        self._log = root / "runs.log"
        lines = "".join(f"{name} {value}\n" for name, value in FEW_ROWS.items())
        (root / "spark-defaults.conf").write_text(lines)
        self._small = {
            "TICDC_SPARK_MASTER": "local[2]",
            "TICDC_SPARK_MEMORY": "1g",
            "SPARK_CONF_DIR": str(root),
            **SHORT_LIVED_JVM,
        }
        self._steps: Iterator[SimulationStep] = iter(self.simulation)
        # Empty tables appear together with the first rows.
        self.continue_feed()
        self.continue_feed()

    def open(self, spark: SparkSession) -> LakeSession:
        return LakeSession(spark, self.location, self.feed)

    def begin(self, spark: SparkSession) -> None:
        """Run once in this process without a kill, and give the next run something to do."""
        advance(self.open(spark), open_source(self.feed))
        self.continue_feed()

    def continue_feed(self) -> bool:
        """Let the changefeed write up to its next checkpoint; return False at its end."""
        if next(self._steps, None) is None:
            return False
        if self._producer is not None:
            dump = self.simulation.folder / "records.jsonl"
            records = [record for record in read_dump(dump) if isinstance(record, Message)]
            self._producer.send(records)
            self._sent += len(records)
            # The simulation appends to it.
            dump.write_bytes(b"")
        return True

    def kill(self, stage: str) -> None:
        """Kill a run in a stage; if it finished before its moment came, kill another one.

        The next run takes over the work of the killed one, with or without new input.
        """
        while True:
            moment = self.random.randint(1, self._most[stage])
            pause = self.random.choice([0, 0, 0.005, 0.02, 0.1])
            seen = self._run(stage, moment, pause)
            if seen >= moment:
                self.kills.append(f"{stage} at {moment} + {pause} s")
                if self.random.random() < 0.4:
                    self.continue_feed()
                return
            # The next runs hardly add more.
            self._most[stage] = max(seen, 1)
            if not self.continue_feed():
                raise RuntimeError(f"the changefeed ended before a run was killed: {self.kills}")

    def _run(self, stage: str, moment: int, pause: float) -> int:
        """Start a run, kill it after `moment` new files, and return how many appeared."""
        folders = [Path(self.location.path(name)) for name in STAGES[stage][0]]
        before = set(_files(folders))
        command = self._make_command("ticdc_assets.cli")
        with (
            self._log.open("ab") as log,
            subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                env={**os.environ, **self._small},
                start_new_session=True,
            ) as process,
        ):
            appeared: set[str] = set()
            end = time.monotonic() + _TIMEOUT_SECONDS
            try:
                while process.poll() is None and time.monotonic() < end:
                    appeared.update(path for path in _files(folders) if path not in before)
                    if len(appeared) >= moment:
                        time.sleep(pause)
                        break
                    time.sleep(_POLL_SECONDS)
                if time.monotonic() >= end:
                    raise TimeoutError(self._log.read_text()[-3000:])
            finally:
                ended = process.poll()
                _kill_group(process)
        if ended:
            raise RuntimeError(self._log.read_text()[-3000:])
        # A run that had already finished was not killed.
        return len(appeared) if ended is None else min(len(appeared), moment - 1)

    def run(self, program: str, *arguments: str, **environment: str) -> None:
        """Run a program that is the command, to its end."""
        done = subprocess.run(
            self._make_command(program, *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | self._small | environment,
            check=False,
            timeout=_TIMEOUT_SECONDS,
        )
        assert done.returncode == 0, done.stdout.decode()[-3000:]

    def _make_command(self, program: str, *arguments: str) -> list[str]:
        names = ["--changefeeds", str(self.simulation.changefeeds), "--lake", self.location.root]
        return [sys.executable, "-m", program, *arguments, "advance", *names]

    def finish(self, spark: SparkSession) -> None:
        """Let the changefeed and one more run finish."""
        while self.continue_feed():
            pass
        done = advance(self.open(spark), open_source(self.feed))
        assert done.applied.problems == []

    # --- checks ---

    def check_snapshot(self, spark: SparkSession) -> int:
        """Check that a reader sees the truth at the last applied ts; return that ts."""
        if not any(Path(self.location.path("applied"), "_delta_log").glob("*.json")):
            return 0
        if not read_last_snapshot(self.open(spark)).snapshot_id:
            return 0
        shown = as_of(self.open(spark))
        found = {(t.schema.database, t.schema.table): list(shown.lines(t)) for t in shown.tables()}
        assert found == encode_truth(self.simulation.truth(shown.ts)), self.kills
        assert not any(table.is_stopped for table in shown.tables())
        return shown.ts

    def check_once(self) -> None:
        """Check that the lake holds everything in the source exactly once."""
        reader = LakeReader(self.location)
        events, is_row = reader.open("events"), pc.field("kind") == "row"
        places = ["source", "partition", "number", "index"]
        assert _find_repeated(reader.read(events, places, is_row)) == [], self.kills
        assert _find_repeated(reader.read(events, ["seq", "index"], is_row)) == [], self.kills
        raw = reader.open("raw")
        if self.feed.transport == "storage":
            files = reader.read(raw, ["path"], pc.field("role") == "data")
            assert _find_repeated(files) == [], self.kills
            there = {
                p for p in open_sink_folder(self.feed).paths() if p.endswith((".csv", ".json"))
            }
            data = {*files["path"].to_pylist()}
            assert data == {p for p in there if "/meta/" not in p and not p.endswith("metadata")}
            whole = reader.read(events, ["source"], pc.field("kind") == "file")
            assert _find_repeated(whole) == [], self.kills
        else:
            records = reader.read(raw, ["topic", "partition", "offset"])
            assert _find_repeated(records) == [], self.kills
            is_dump = self.feed.transport == "dump"
            dumped = sum(1 for _ in read_dump(Path(self.feed.location))) if is_dump else self._sent
            assert len(records) == dumped
        assert len(reader.read(reader.open("quarantine"), ["reason"])) == 0

    def check_applied(self, spark: SparkSession) -> None:
        """Check that snapshots follow one another, and that the last one matches the tables."""
        names = ("snapshot_id", "resolved_ts", "batch", "decoded_batch", "replayed_from")
        reader = LakeReader(self.location)
        lines = reader.read(reader.open("applied"), names).sort_by("snapshot_id").to_pylist()
        assert [line["snapshot_id"] for line in lines] == list(range(1, len(lines) + 1)), self.kills
        for name in ("resolved_ts", "batch", "decoded_batch"):
            values = [line[name] for line in lines]
            assert values == sorted(values), (name, self.kills)
        assert all(line["replayed_from"] is None for line in lines)
        applied = read_last_snapshot(self.open(spark))
        assert applied.ts == self.simulation.checkpoints[-1]
        live = [t.id for t in applied.state.incarnations.values() if t.status == "live"]
        assert live
        for incarnation in live:
            table = CurrentTable(self.open(spark), incarnation)
            assert table.version == applied.versions[incarnation], self.kills
        done = build_ledger(reader, applied)
        assert done.adds_up, (done, self.kills)


def _files(folders: list[Path]) -> Iterator[str]:
    for folder in folders:
        for at, _, names in os.walk(folder):
            for name in names:
                yield f"{at}/{name}"


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    # The JVM is not our child; wait for it to end.
    time.sleep(0.3)


def _find_repeated(rows: pa.Table) -> list[object]:
    counts = rows.group_by(rows.column_names).aggregate([([], "count_all")])
    return list(counts.filter(pc.greater(counts["count_all"], 1)).to_pylist())
