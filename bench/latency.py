"""Measure the latency from a written checkpoint to tables at it, and what it consists of.

Run as `python -m bench.latency`: it starts `ticdc-assets dev` with its defaults, and observes it
from outside for a number of checkpoints.  Its runs share a Spark server; with `--own-sessions`,
every run starts a session of its own.  Checkpoints are written faster than they are applied, so one
also waits for the window or run before it: the durations of all parts are printed.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median

from tests.dev_loop import dev_loop
from tests.servers import free_port
from ticdc_assets.resources.spark_settings import MASTER

_TIMEOUT_SECONDS = 1800
_WARM_UP_CHECKPOINTS = 6
# The log line that ends each part of a run; several windows may follow each other.
_PARTS = {
    "tick and launch": re.compile(r"RUN_START"),
    "window": re.compile(r" applied up to "),
    "materializations and checks": re.compile(r"RUN_SUCCESS - "),
}
_REQUESTED = re.compile(r"Launching run for ")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")


@dataclass
class Observations:
    """When each checkpoint was first seen, as written and as applied."""

    written: dict[int, float] = field(default_factory=dict)
    applied: dict[int, float] = field(default_factory=dict)

    def observe(self, folder: Path) -> None:
        """Read the checkpoint of the source, and the newest commits of the applied log."""
        now = time.monotonic()
        try:
            metadata = json.loads((folder / "upstream/data/metadata").read_text())
            self.written.setdefault(int(metadata["checkpoint-ts"]), now)
        except (OSError, ValueError):
            pass  # missing, or just being written
        for log in sorted((folder / "lake/shop/applied/_delta_log").glob("*.json"))[-3:]:
            match = re.search(r'\\"stage\\": *\\"apply\\".*?\\"ts\\": *(\d+)', log.read_text())
            if match is not None:
                self.applied.setdefault(int(match[1]), now)

    def latencies(self) -> list[float]:
        """Return the latency of every applied checkpoint in seconds, in order."""
        latencies = []
        for ts, written in sorted(self.written.items()):
            covering = [seen for applied, seen in self.applied.items() if applied >= ts]
            if covering:
                latencies.append(min(covering) - written)
        return latencies


def _measure_parts(log: str) -> dict[str, list[float]]:
    """Return the seconds that each part of a run took, in order."""
    durations: dict[str, list[float]] = {name: [] for name in _PARTS}
    before: datetime | None = None
    for line in log.splitlines():
        stamp = _TIME.search(line)
        part = next((name for name, end in _PARTS.items() if end.search(line)), None)
        if stamp is None or (part is None and not _REQUESTED.search(line)):
            continue
        now = datetime.fromisoformat(stamp[1])
        if part is not None and before is not None:
            durations[part].append((now - before).total_seconds())
        before = now
    return durations


def main() -> None:
    """Measure and print the latencies."""
    parser = argparse.ArgumentParser(prog="python -m bench.latency", description=__doc__)
    parser.add_argument("--checkpoints", type=int, default=20)
    parser.add_argument("--own-sessions", action="store_true", help="share no Spark server")
    arguments = parser.parse_args()
    observations = Observations()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-latency-")))
        settings = {MASTER: "local[*]"} if arguments.own_sessions else {}
        log = folder / "log"
        dev = stack.enter_context(dev_loop(folder / "dev", free_port(), log, **settings))
        until = time.monotonic() + _TIMEOUT_SECONDS
        # The first run creates the lake, and a shared server warms up over a few runs: the
        # measurement starts after these.
        warm_up = 1 if arguments.own_sessions else _WARM_UP_CHECKPOINTS
        while (
            len(observations.applied) < warm_up and dev.poll() is None and time.monotonic() < until
        ):
            observations.observe(folder / "dev")
            time.sleep(0.1)
        observations.written.clear()
        log_start = log.stat().st_size
        while len(observations.latencies()) < arguments.checkpoints:
            if dev.poll() is not None or time.monotonic() > until:
                print(log.read_text(errors="replace")[-3000:])
                sys.exit("the dev loop ended before the measurement did")
            observations.observe(folder / "dev")
            time.sleep(0.1)
        parts = _measure_parts(log.read_bytes()[log_start:].decode(errors="replace"))
    latencies = observations.latencies()[: arguments.checkpoints]
    kind = "one local session per run" if arguments.own_sessions else "shared Spark server"
    print(f"{kind}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    worst = max(latencies)
    print(f"{len(latencies)} checkpoints: median {median(latencies):.1f} s, worst {worst:.1f} s")
    for name, seconds in parts.items():
        if seconds:
            each = ", ".join(f"{s:.0f}" for s in seconds)
            print(f"  {name:26} median {median(seconds):5.1f} s   ({each})")


if __name__ == "__main__":
    main()
