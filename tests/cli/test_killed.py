"""`load` killed with -9 at any moment and started again: every row once, every bad row once."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import chain
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from tests.cli.test_load import SCHEMA, declare
from tests.dumpling.exporter import Exporter, ExportOptions, Row
from ticdc_assets.lake.columns.stored_values import format_blocks
from ticdc_assets.lake.log.loads import read_loads
from ticdc_assets.lake.store.lake import Lake
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.lake.store.stored_rows import StoredRows

_TABLES, _ROWS, _KILLS = 4, 300, 8
_TIMEOUT_SECONDS = 300


def start(lake: Path, export: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ticdc_assets.cli", "load", str(export), "--lake", str(lake)]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


def kill_after(run: subprocess.Popen[bytes], lake: Path, files: int) -> bool:
    """Kill a run and its Java once it has added so many files; return False if it ended before."""
    before = sum(1 for _ in lake.rglob("*"))
    until = time.monotonic() + _TIMEOUT_SECONDS
    while run.poll() is None:
        assert time.monotonic() < until
        if sum(1 for _ in lake.rglob("*")) - before >= files:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
            return True
        time.sleep(0.005)
    return False


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_a_load_that_is_killed_anywhere_is_finished_by_the_next(
    here: object, tmp_path: Path, seed: int
) -> None:
    declare(tmp_path)
    random, export, lake = Random(seed), tmp_path / "export", tmp_path / "lake"
    rows: list[Row] = [(str(n), f"text {n}") for n in range(_ROWS)]
    tables = {replace(SCHEMA, table=f"t{n}"): [*rows, ("none", "bad")] for n in range(_TABLES)}
    Exporter(export, ExportOptions("csv", rows_per_file=100)).write(tables)
    lake.mkdir()
    kills = 0
    while kills < _KILLS and kill_after(start(lake, export), lake, random.randint(1, 30)):
        kills += 1
    assert kills > 1
    # Rows in the quarantine make the exit code 1, unless all tables had been loaded before.
    assert start(lake, export).wait(_TIMEOUT_SECONDS) in (0, 1)

    reader = LakeReader(Lake(str(lake), "f"))
    loads = read_loads(reader)
    assert sorted(load.schema.table for load in loads) == [f"t{n}" for n in range(_TABLES)]
    assert {(load.rows, load.quarantined) for load in loads} == {(_ROWS, 1)}
    for load in loads:
        stored = StoredRows(reader, f"current/{load.incarnation}", load.version)
        lines = chain.from_iterable(format_blocks(stored.read(), load.schema))
        found = Counter(tuple(json.loads(line).values()) for line in lines)
        assert found == Counter(rows)
    kept = reader.read(reader.open("quarantine"), ["table"])["table"].to_pylist()
    assert sorted(kept) == [f"t{n}" for n in range(_TABLES)]
