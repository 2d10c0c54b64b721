"""Measure the latency of the dev loop with one Spark server, against a session per run.

Run as `python -m bench.dev`: it runs `bench.latency` both ways and reads the medians it prints.
"""

import re
import sys

from bench.figure import Figure
from bench.processes import Usage, run_command

# The options of `bench.latency` for a server that all runs share, and for a session per run.
_SHARED: list[str] = []
_OWN = ["--own-sessions"]
_MEDIAN = re.compile(r"median ([\d.]+) s, worst")


def measure(*arguments: str) -> list[Figure]:
    """Measure both ways and return the medians of the latencies."""
    own, _ = _run([*_OWN, *arguments])
    shared, usage = _run([*_SHARED, *arguments])
    return [
        Figure(
            group="latency",
            name="checkpoint to tables, shared server",
            value=shared,
            unit="s",
            baseline_name="a session per run",
            baseline=own,
            usage=usage,
        )
    ]


def _run(options: list[str]) -> tuple[float, Usage]:
    usage, text = run_command([sys.executable, "-m", "bench.latency", *options])
    print(text, end="")
    found = _MEDIAN.search(text)
    if found is None:
        raise RuntimeError("bench.latency printed no median")
    return float(found[1]), usage


if __name__ == "__main__":
    measure(*sys.argv[1:])
