"""As long as no session runs, this process does several times more work by itself."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.lake.addresses import need_none
from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.demo import SimulationOptions, prepare
from ticdc_assets.lake.advance import FolderSource, advance
from ticdc_assets.lake.apply import task_runs, window
from ticdc_assets.lake.events import decode_folder
from ticdc_assets.lake.events.event_files import EventFile
from ticdc_assets.resources.storage import open_sink_folder
from ticdc_assets.store.lake import Lake, LakeSession

_FEW = 500
_FILE_SIZE = 16 << 10


@pytest.mark.parametrize("limit", ["rows", "bytes"])
def test_a_session_is_not_started_for_what_is_done_before_it_could(
    limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if limit == "rows":
        monkeypatch.setattr(task_runs, "FEW_ROWS", _FEW)
        monkeypatch.setattr(task_runs, "_ROWS_PER_TABLE", 0)
        monkeypatch.setattr(window, "_FEW_ROWS", _FEW)
    else:
        # A row of this feed takes some 130 bytes.
        monkeypatch.setattr(decode_folder, "_LITTLE_WORK", _FEW * 150)
        monkeypatch.setattr(decode_folder, "_WORK_PER_FILE", 0)
    assert _load(tmp_path / "medium", 3 * _FEW) == 3 * _FEW
    with pytest.raises(AssertionError, match="needs no Spark"):
        _load(tmp_path / "large", 9 * _FEW)


def _load(folder: Path, rows: int, start: Callable[[], SparkSession] = need_none) -> int:
    """Load a table, by default where no session can start; return how many rows it got."""
    options = SimulationOptions(
        workload="bulk",
        transactions=10,
        flush_every=10,
        tables=1,
        rows_each=rows // 10,
        file_size=_FILE_SIZE,
    )
    simulation = prepare(folder / "upstream", options)
    for _ in simulation:
        pass
    (feed,) = load_changefeeds(simulation.changefeeds).values()
    lake = LakeSession(start, Lake(str(folder / "lake"), feed.id), feed)
    opened = partial(open_sink_folder, feed)
    advance(lake, FolderSource(opened(), opened))
    return DeltaTable(lake.location.address("bulk", "t1")).count()


def test_every_file_is_decoded_once_while_the_session_starts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode_folder, "_LITTLE_WORK", 1)
    monkeypatch.setattr(decode_folder, "_LEAST_PER_TASK", 1)
    decoded: list[int] = []
    is_one_done = Event()

    def decode_here(self: decode_folder.FolderDecode, task: pa.Table) -> list[EventFile]:
        files = decode(self, task)
        decoded.append(sum(file.kinds.get("row", 0) for file in files))
        is_one_done.set()
        return files

    def start() -> SparkSession:
        assert is_one_done.wait(60)
        return spark

    decode = decode_folder.FolderDecode._decode_here
    monkeypatch.setattr(decode_folder.FolderDecode, "_decode_here", decode_here)
    assert _load(tmp_path, 3 * _FEW, start) == 3 * _FEW
    # The workers have done the others.
    assert 0 < sum(decoded) < 3 * _FEW
