"""Runs of `advance` that are killed at a chosen moment, and what must hold of a lake afterwards.

A run is the command itself in a process group of its own, its JVM included.  Moments are counted in
files: every one that appears in a stage's tables, be it data, a commit, or a commit's temporary
file, is a moment before, inside or after a commit.
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

from pyspark.sql import DataFrame, SparkSession

from resources.dump import read_dump
from resources.reading import open_source
from resources.storage import open_sink_folder
from tests.servers import SHORT_LIVED_JVM
from ticdc_assets.changefeed import Changefeed, load_changefeeds
from ticdc_assets.demo import Options, Simulation, SimulationStep, encode_truth, prepare
from ticdc_assets.lake.advance import advance
from ticdc_assets.lake.apply.current_table import CurrentTable
from ticdc_assets.lake.log.applied import read_last_snapshot
from ticdc_assets.lake.store.codegen import INTERPRETED
from ticdc_assets.lake.store.lake import Lake, LakeSession
from ticdc_assets.lake.views.asof import as_of
from ticdc_assets.lake.views.ledger import build_ledger

# The tables that a stage writes, and how many files it may leave there in a run.
STAGES = {
    "create": (("raw", "events", "quarantine", "schema_history", "tables", "applied"), 25),
    "ingest": (("raw",), 7),
    "decode": (("events", "quarantine"), 7),
    "apply": (("current", "schema_history", "tables", "applied"), 80),
}
_EVERY = 0.002
_LONGEST = 900


class Runs:
    """A changefeed that goes on, and the runs that follow it."""

    def __init__(self, root: Path, options: Options, seed: int) -> None:
        self.random = Random(seed)
        self.simulation: Simulation = prepare(root / "feed", options)
        self.feed: Changefeed = next(iter(load_changefeeds(self.simulation.changefeeds).values()))
        self.location = Lake(str(root / "lake"), self.feed.id)
        # Where each run was killed, in words.
        self.kills: list[str] = []
        self._log = root / "runs.log"
        lines = "".join(f"{name} {value}\n" for name, value in INTERPRETED.items())
        (root / "spark-defaults.conf").write_text(lines)
        self._small = {
            "TICDC_SPARK_MASTER": "local[2]",
            "TICDC_SPARK_MEMORY": "1g",
            "SPARK_CONF_DIR": str(root),
            **SHORT_LIVED_JVM,
        }
        self._steps: Iterator[SimulationStep] = iter(self.simulation)
        # Tables without rows come with the first that have some.
        next(self._steps)
        self.goes_on()

    def open(self, spark: SparkSession) -> LakeSession:
        return LakeSession(spark, self.location, self.feed)

    def begin(self, spark: SparkSession) -> None:
        """A run that is not killed, in this process; the next has something to do."""
        advance(self.open(spark), open_source(self.feed))
        self.goes_on()

    def goes_on(self) -> bool:
        """Have the changefeed write up to its next checkpoint."""
        return next(self._steps, None) is not None

    def kill(self, stage: str) -> None:
        """Kill a run in a stage; one that was done before its moment came is followed by another.

        What a run that was killed had to do is left to the next, with or without more to come.
        """
        moment = STAGES[stage][1]
        while True:
            moment = self.random.randint(1, moment)
            pause = self.random.choice([0, 0, 0.005, 0.02, 0.1])
            seen = self._run(stage, moment, pause)
            if seen >= moment:
                self.kills.append(f"{stage} at {moment} + {pause} s")
                if self.random.random() < 0.4:
                    self.goes_on()
                return
            moment = max(seen, 1)
            if not self.goes_on():
                raise RuntimeError(f"the changefeed ended before a run was killed: {self.kills}")

    def _run(self, stage: str, moment: int, pause: float) -> int:
        """Start a run, and kill it when so many files have appeared; how many did."""
        folders = [Path(self.location.path(name)) for name in STAGES[stage][0]]
        before = set(_files(folders))
        names = ["--changefeeds", str(self.simulation.changefeeds), "--lake", self.location.root]
        command = [sys.executable, "-m", "ticdc_assets.cli", "advance", *names]
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
            end = time.monotonic() + _LONGEST
            try:
                while process.poll() is None and time.monotonic() < end:
                    appeared.update(path for path in _files(folders) if path not in before)
                    if len(appeared) >= moment:
                        time.sleep(pause)
                        break
                    time.sleep(_EVERY)
                if time.monotonic() >= end:
                    raise TimeoutError(self._log.read_text()[-3000:])
            finally:
                ended = process.poll()
                _kill_group(process)
        if ended:
            raise RuntimeError(self._log.read_text()[-3000:])
        # One that was done when it was to be killed was not killed.
        return len(appeared) if ended is None else min(len(appeared), moment - 1)

    def finish(self, spark: SparkSession) -> None:
        """Let the changefeed come to its end, and a run too."""
        while self.goes_on():
            pass
        done = advance(self.open(spark), open_source(self.feed))
        assert done.applied.problems == []

    # What must hold

    def check_picture(self, spark: SparkSession) -> int:
        """Who reads the lake sees what was true at the last ts that was applied, at any moment."""
        if not any(Path(self.location.path("applied"), "_delta_log").glob("*.json")):
            return 0
        if not read_last_snapshot(self.open(spark)).snapshot_id:
            return 0
        shown = as_of(self.open(spark))
        found = {(t.schema.database, t.schema.table): list(shown.lines(t)) for t in shown.tables()}
        assert found == encode_truth(self.simulation.truth(shown.ts)), self.kills
        assert not any(table.is_stopped for table in shown.tables())
        return shown.ts

    def check_once(self, spark: SparkSession) -> None:
        """Everything that the source holds is in the lake once."""
        raw, events = (self.open(spark).read(name) for name in ("raw", "events"))
        rows = events.where("kind = 'row'")
        assert _repeated(rows, "source", "partition", "number", "index") == [], self.kills
        assert _repeated(rows, "seq", "index") == [], self.kills
        if self.feed.transport == "storage":
            files = raw.where("role = 'data'")
            assert _repeated(files, "path") == [], self.kills
            there = {
                p for p in open_sink_folder(self.feed).paths() if p.endswith((".csv", ".json"))
            }
            data = {row["path"] for row in files.select("path").collect()}
            assert data == {p for p in there if "/meta/" not in p and not p.endswith("metadata")}
            assert _repeated(events.where("kind = 'file'"), "source") == [], self.kills
        else:
            assert _repeated(raw, "topic", "partition", "offset") == [], self.kills
            assert raw.count() == sum(1 for _ in read_dump(Path(self.feed.location)))
        assert self.open(spark).read("quarantine").count() == 0

    def check_applied(self, spark: SparkSession) -> None:
        """Every line follows from the one before, and the last tells the tables as they are."""
        names = ("snapshot_id", "resolved_ts", "batch", "decoded_batch", "replayed_from")
        lines = self.open(spark).read("applied").select(*names).orderBy("snapshot_id").collect()
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
        done = build_ledger(self.open(spark), applied)
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
    # The JVM is no child of ours; it ends in this time.
    time.sleep(0.3)


def _repeated(rows: DataFrame, *names: str) -> list[object]:
    return rows.groupBy(*names).count().where("count > 1").collect()
