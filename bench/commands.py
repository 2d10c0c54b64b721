"""Measure commands as users run them: the demo, and those that only read its lake.

Run as `python -m bench.commands`.  Every command is a process of its own.  The demo is compared
with a Spark session that writes one Delta table; a command that reads, with the import of the
libraries that it cannot do without: of several turns, the median counts.  Nothing passes or fails.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.figure import Figure, read_load
from bench.processes import Usage, run_command

_PROGRAM = str(Path(sys.executable).with_name("ticdc-assets"))
_TABLE = "shop.orders"
_COMMANDS = {
    "tables": ["tables"],
    "schema": ["schema", _TABLE],
    "show": ["show", _TABLE],
    "events": ["events", _TABLE],
    "ledger": ["ledger"],
}
_IMPORTS = [sys.executable, "-c", "import pyarrow, deltalake"]
_SESSION = """
import sys
from ticdc_assets.resources.spark import get_session
from ticdc_assets.resources.spark_settings import LITTLE_WORK
spark = get_session(sys.argv[1], settings=LITTLE_WORK)
spark.range(1).write.format("delta").save(sys.argv[1] + "/t")
"""


def measure(*arguments: str) -> list[Figure]:
    """Measure, print and return the results."""
    parser = argparse.ArgumentParser(prog="python -m bench.commands", description=__doc__)
    parser.add_argument("--turns", type=int, default=5, help="turns of the commands that read")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-commands-") as made:
        folder = Path(made)
        session, _ = run_command([sys.executable, "-c", _SESSION, str(folder / "session")])
        demo, _ = run_command([_PROGRAM, "demo", "--dir", str(folder / "demo")])
        figures = _make_figures("demo", demo, "Spark session, one table", session)
        lake = ["--changefeeds", str(folder / "demo/upstream/changefeeds.toml")]
        lake += ["--lake", str(folder / "demo/lake")]
        commands = {name: [_PROGRAM, *words, *lake] for name, words in _COMMANDS.items()}
        usages = _take_turns({"imports": _IMPORTS, **commands}, chosen.turns)
    imports = usages.pop("imports")
    for name, usage in usages.items():
        figures += _make_figures(name, usage, "import pyarrow, deltalake", imports)
    return figures


def _take_turns(commands: dict[str, list[str]], turns: int) -> dict[str, Usage]:
    """Run commands in turns; return the median run of each."""
    runs: dict[str, list[Usage]] = {name: [] for name in commands}
    # The first turn fills the caches of the file system.
    for turn in range(turns + 1):
        for name, command in commands.items():
            usage, _ = run_command(command)
            if turn:
                runs[name].append(usage)
    return {name: _choose_median(found) for name, found in runs.items()}


def _choose_median(usages: Sequence[Usage]) -> Usage:
    return sorted(usages, key=lambda usage: usage.seconds)[len(usages) // 2]


def _make_figures(name: str, usage: Usage, baseline_name: str, baseline: Usage) -> list[Figure]:
    print(
        f"{name:8}{usage.seconds:8.2f} s, CPU {usage.cpu:.2f} s; {baseline_name}:"
        f" {baseline.seconds:.2f} s, CPU {baseline.cpu:.2f} s; load average {read_load()}"
    )
    pairs = {"wall clock": (usage.seconds, baseline.seconds), "CPU": (usage.cpu, baseline.cpu)}
    return [
        Figure(
            group="command",
            name=f"{name}, {title}",
            value=value,
            unit="s",
            baseline_name=baseline_name,
            baseline=other,
            usage=usage,
        )
        for title, (value, other) in pairs.items()
    ]


if __name__ == "__main__":
    measure(*sys.argv[1:])
