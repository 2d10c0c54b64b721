"""Measure how large a lake gets under steady change, by layer, with maintenance from time to time.

Run as `python -m bench.keeping`.  One process, without Spark, follows the simulated shop window by
window.  After every few windows, maintenance keeps what the last few seconds need: a day of a real
lake is a few windows here.  Nothing passes or fails.
"""

import argparse
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import NoReturn

from bench.figure import Figure
from bench.processes import Clock
from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.demo import SimulationOptions, prepare
from ticdc_assets.lake.advance import FolderSource, advance
from ticdc_assets.lake.maintain import maintain
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.resources.storage import open_sink_folder
from ticdc_assets.store import address_log
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.stored_sizes import StoredSize, measure_stored

_SECONDS_PER_DAY = 24 * 60 * 60
_ADDRESS_DAYS = "interval 30 seconds"
_ROWS = 10


def measure(*arguments: str) -> list[Figure]:
    """Measure and print; there is no baseline, so no figure for the chart."""
    parser = argparse.ArgumentParser(prog="python -m bench.keeping", description=__doc__)
    parser.add_argument("--windows", type=int, default=400)
    parser.add_argument("--transactions", type=int, default=10, help="transactions per window")
    parser.add_argument("--every", type=int, default=4, help="windows between maintenances")
    parser.add_argument("--keep", type=float, default=2, help="maintenances whose time is kept")
    parser.add_argument("--fold", action="store_true", help="fold row events that are as old")
    parser.add_argument("--nothing", action="store_true", help="never maintain, to compare")
    chosen = parser.parse_args(arguments)
    each = chosen.transactions
    options = SimulationOptions(transactions=chosen.windows * each, flush_every=each, history=False)
    with tempfile.TemporaryDirectory(prefix="bench-keeping-") as made:
        simulation = prepare(Path(made) / "upstream", options)
        feed = next(iter(load_changefeeds(simulation.changefeeds).values()))
        lake = LakeSession(_start_no_spark, Lake(str(Path(made) / "lake"), feed.id), feed)
        source = FolderSource(open_sink_folder(feed), partial(open_sink_folder, feed))
        # The logs at addresses are shortened by their own property, which states days.
        address_log._OWN_PROPERTIES["delta.logRetentionDuration"] = _ADDRESS_DAYS
        steps, began, maintained = iter(simulation), time.monotonic(), 0
        clock = Clock()
        for window in range(1, chosen.windows + 1):
            for step in steps:
                if step.transactions >= window * each:
                    break
            for problem in advance(lake, source).applied.problems:
                print(f"PROBLEM: {problem.describe()}")
            if not window % chosen.every and not chosen.nothing:
                maintained += 1
                # What the last few maintenances took with the windows between them.
                kept = (time.monotonic() - began) / maintained * chosen.keep
                days = kept / _SECONDS_PER_DAY
                last, folded = read_last_snapshot(lake), days if chosen.fold else None
                maintain(lake, last, retain_days=days, keep_events_days=folded)
            if not window % max(chosen.windows // _ROWS, 1):
                _print(window, measure_stored(LakeReader(lake.location), 0))
        print(f"{chosen.windows} windows: {clock.read_usage()}")
    return []


def _start_no_spark() -> NoReturn:
    raise AssertionError("this takes no Spark")


def _print(window: int, sizes: dict[str, StoredSize]) -> None:
    stored = {layer: size.stored_bytes for layer, size in sizes.items()}
    newest = {layer: size.bytes for layer, size in sizes.items()}
    cells = [f"{layer} {size >> 10:,}/{newest[layer] >> 10:,}" for layer, size in stored.items()]
    total = sum(stored.values()) >> 10
    print(f"{window:>5} windows: {total:,} kB; stored/newest in kB: {', '.join(cells)}", flush=True)


if __name__ == "__main__":
    measure(*sys.argv[1:])
