"""Run all benchmarks and print their figures as one table.

Each runs in a process of its own, so that none counts what another leaves behind.  The figures are
saved as JSON, and their ratios to the baselines as a chart.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from bench import catalogs, commands, decode, dev, kafka, lake, load, windows
from bench.figure import Figure
from bench.processes import call_apart
from bench.report import draw_chart, format_json, format_table

_BENCHMARKS: Mapping[str, Callable[[], list[Figure]]] = {
    "decode": decode.measure,
    "lake": lake.measure,
    "load": load.measure,
    "kafka": kafka.measure,
    "windows": windows.measure,
    "commands": commands.measure,
    "catalogs": catalogs.measure,
    "dev": dev.measure,
}


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=_BENCHMARKS, default=list(_BENCHMARKS))
    parser.add_argument("--json", type=Path, default=Path("artefacts/bench.json"))
    parser.add_argument("--chart", type=Path, default=Path("artefacts/bench.png"))
    chosen = parser.parse_args()
    figures: list[Figure] = []
    missing = []
    for name in chosen.only:
        print(f"\n--- bench.{name}", flush=True)
        try:
            figures += call_apart(_BENCHMARKS[name])
        except RuntimeError as error:
            # The others took many minutes, and are printed all the same.
            missing.append(f"missing: bench.{name}: {error}")
    print("", format_table(figures), *missing, sep="\n")
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_text(format_json(figures))
    draw_chart(figures, chosen.chart)
    print(f"saved as {chosen.json} and {chosen.chart}")
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
