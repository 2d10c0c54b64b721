"""How long after a checkpoint is written its tables are there, with all that happens in between.

Run as `python -m bench.latency`: `ticdc-assets dev` with its defaults, watched from outside for so
many checkpoints.  `--connect` keeps a Spark Connect server running beside it; without, every run
starts a session of its own.  Checkpoints come faster than they are applied, so one waits for the
window before it, or for the run before; what these take is told.
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

from resources.spark import MASTER
from tests.dev_loop import dev_loop
from tests.servers import connect_server, free_port

_PATIENCE = 1800
_RUNS_BEFORE = 6
# What the log says at the end of each part of a run; windows may follow each other.
_PARTS = {
    "tick and launch": re.compile(r"RUN_START"),
    "session": re.compile(r"Spark is up"),
    "a window": re.compile(r" applied up to "),
    "what is told, and checks": re.compile(r"RUN_SUCCESS - "),
}
_ASKED = re.compile(r"Launching run for ")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")


@dataclass
class Seen:
    """When what was first seen, by checkpoint."""

    written: dict[int, float] = field(default_factory=dict)
    applied: dict[int, float] = field(default_factory=dict)

    def look(self, folder: Path) -> None:
        """Look at the source's checkpoint and at the newest lines of the lake."""
        now = time.monotonic()
        try:
            said = json.loads((folder / "upstream/data/metadata").read_text())
            self.written.setdefault(int(said["checkpoint-ts"]), now)
        except (OSError, ValueError):
            pass  # not there, or just being written
        for log in sorted((folder / "lake/shop/applied/_delta_log").glob("*.json"))[-3:]:
            found = re.search(r'\\"stage\\": *\\"apply\\".*?\\"ts\\": *(\d+)', log.read_text())
            if found is not None:
                self.applied.setdefault(int(found[1]), now)

    def latencies(self) -> list[float]:
        """Of every checkpoint that was applied, in order."""
        found = []
        for ts, at in sorted(self.written.items()):
            there = [seen for applied, seen in self.applied.items() if applied >= ts]
            if there:
                found.append(min(there) - at)
        return found


def _parts(log: str) -> dict[str, list[float]]:
    """Seconds that each part of a run took, in the order they came."""
    took: dict[str, list[float]] = {name: [] for name in _PARTS}
    before: datetime | None = None
    for line in log.splitlines():
        stamp = _TIME.search(line)
        part = next((name for name, end in _PARTS.items() if end.search(line)), None)
        if stamp is None or (part is None and not _ASKED.search(line)):
            continue
        now = datetime.fromisoformat(stamp[1])
        if part is not None and before is not None:
            took[part].append((now - before).total_seconds())
        before = now
    return took


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.latency", description=__doc__)
    parser.add_argument("--checkpoints", type=int, default=20)
    parser.add_argument("--connect", action="store_true", help="a Spark Connect server beside it")
    chosen = parser.parse_args()
    seen = Seen()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-latency-")))
        settings = {}
        if chosen.connect:
            settings[MASTER] = stack.enter_context(connect_server(folder))
        log = folder / "log"
        dev = stack.enter_context(dev_loop(folder / "dev", free_port(), log, **settings))
        until = time.monotonic() + _PATIENCE
        # The first run makes the lake, and a server that is kept running is quick after a few: what
        # is measured begins behind these.
        before = _RUNS_BEFORE if chosen.connect else 1
        while len(seen.applied) < before and dev.poll() is None and time.monotonic() < until:
            seen.look(folder / "dev")
            time.sleep(0.1)
        seen.written.clear()
        begun = log.stat().st_size
        while len(seen.latencies()) < chosen.checkpoints:
            if dev.poll() is not None or time.monotonic() > until:
                print(log.read_text(errors="replace")[-3000:])
                sys.exit("the loop has come to an end before all was measured")
            seen.look(folder / "dev")
            time.sleep(0.1)
        parts = _parts(log.read_bytes()[begun:].decode(errors="replace"))
    found = seen.latencies()[: chosen.checkpoints]
    kind = "a Spark Connect server" if chosen.connect else "a local session a run"
    print(f"{kind}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"{len(found)} checkpoints: median {median(found):.1f} s, worst {max(found):.1f} s")
    for name, seconds in parts.items():
        if seconds:
            each = ", ".join(f"{s:.0f}" for s in seconds)
            print(f"  {name:26} median {median(seconds):5.1f} s   ({each})")


if __name__ == "__main__":
    main()
