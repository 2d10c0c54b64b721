"""A copy that is made at any moment, while another process advances, continues as the lake does."""

import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Literal

import pytest

from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.demo import SimulationOptions, encode_truth, prepare
from ticdc_assets.lake.advance import advance
from ticdc_assets.lake.backup import copy_lake
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.resources.reading import open_source
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.asof import as_of
from ticdc_assets.views.ledger import build_ledger

PROJECT = Path(__file__).parents[2]
# A window after each checkpoint; the last one is there when the process ends.
RUNS = """
import sys, time
from pathlib import Path
from tests.lake.test_backup import make_simulation, open_lake
from ticdc_assets.lake.advance import advance
from ticdc_assets.resources.reading import open_source
from ticdc_assets.store.lock import is_lock_wanted, locked

root, transport, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
lake = None
for _ in make_simulation(root / "feed", transport, seed):
    lake = lake or open_lake(root / "feed", root / "lake")
    with locked(lake.location, "advance", waiting=lambda _: None):
        assert advance(lake, open_source(lake.feed)).applied.problems == []
    print(flush=True)
    # As a run that loops over windows does.
    while is_lock_wanted(lake.location):
        time.sleep(0.01)
"""


def make_simulation(folder: Path, transport: Literal["storage", "dump"], seed: int):
    is_folder = transport == "storage"
    return prepare(
        folder,
        SimulationOptions(
            protocol="csv" if is_folder else "canal-json",
            transport=transport,
            seed=seed,
            transactions=84,
            flush_every=12,
        ),
    )


def open_lake(feed: Path, root: Path) -> LakeSession:
    (declared,) = load_changefeeds(feed / "changefeeds.toml").values()
    location = Lake(str(root), declared.id)
    return LakeSession(lambda: pytest.fail("Spark was started"), location, declared)


def check(lake: LakeSession, truth: object) -> None:
    shown = as_of(lake)
    found = {(t.schema.database, t.schema.table): list(shown.lines(t)) for t in shown.tables()}
    assert found == truth
    ledger = build_ledger(LakeReader(lake.location), read_last_snapshot(lake))
    assert ledger.adds_up, ledger


@pytest.mark.slow
@pytest.mark.parametrize(
    "transport", ["storage", pytest.param("dump", marks=pytest.mark.all_cases)]
)
def test_a_copy_made_while_runs_go_on_continues_to_the_truth(
    tmp_path: Path, transport: Literal["storage", "dump"]
) -> None:
    random, seed = Random(7), 3
    command = [sys.executable, "-c", RUNS, str(tmp_path), transport, str(seed)]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    copies: list[tuple[Path, int]] = []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as runs:
        assert runs.stdout is not None
        # The first window is there.
        runs.stdout.readline()
        lake = open_lake(tmp_path / "feed", tmp_path / "lake")
        while runs.poll() is None:
            # Every third one brings the one before up to date.
            into = tmp_path / f"copy{len(copies) - len(copies) // 3}"
            copy_lake(lake.location, str(into), waiting=lambda _: None)
            copy = open_lake(tmp_path / "feed", into)
            copies.append((into, read_last_snapshot(copy).snapshot_id))
            time.sleep(random.uniform(0, 0.5))
        assert runs.returncode == 0
    simulation = make_simulation(tmp_path / "again", transport, seed)
    for _ in simulation:
        pass
    newest = read_last_snapshot(lake)
    check(lake, encode_truth(simulation.truth(newest.ts)))
    assert len({snapshot for _, snapshot in copies}) > 3, copies
    for into in {into for into, _ in copies}:
        copy = open_lake(tmp_path / "feed", into)
        check(copy, encode_truth(simulation.truth(read_last_snapshot(copy).ts)))
        assert advance(copy, open_source(copy.feed)).applied.problems == []
        assert read_last_snapshot(copy).ts == newest.ts
        check(copy, encode_truth(simulation.truth(newest.ts)))
