"""Small tables read in this process: the rows are those of Arrow's own reader."""

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from ticdc_assets.store import file_blocks
from ticdc_assets.store import reader as store_reader
from ticdc_assets.store.file_blocks import read_blocks
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader

TABLE = "events"
CONDITIONS = (
    None,
    pc.field("id") > 3,
    pc.field("id") > 99,
    (pc.field("kind") == "row") & (pc.field("id") <= 4),
    pc.field("id").isin([1, 5]) | pc.field("kind").is_null(),
    pc.field("late").is_null() & (pc.field("kind") != "row"),
)


@pytest.fixture
def reader(tmp_path: Path) -> LakeReader:
    """Return a reader of a table of which every file but the last lacks a column."""
    reader = LakeReader(Lake(str(tmp_path), "f"))
    path = reader.location.path(TABLE)
    kinds = ["row", None, "ddl"]
    for first in (0, 3):
        rows = {"id": range(first, first + 3), "kind": kinds, "list": [[1], [], None]}
        write_deltalake(
            path, pa.table({name: pa.array(rows[name]) for name in rows}), mode="append"
        )
    late = pa.table({"id": [6], "kind": ["row"], "list": [[2]], "late": [1.5]})
    write_deltalake(path, late, mode="append", schema_mode="merge")
    return reader


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("columns", [("id",), ("late", "id"), ("list", "kind")])
def test_the_rows_are_those_of_arrow(
    reader: LakeReader, columns: tuple[str, ...], condition: pc.Expression | None
) -> None:
    table = reader.open(TABLE)
    expected = DeltaTable(reader.location.path(TABLE)).to_pyarrow_dataset()
    whole = expected.to_table(columns=list(columns), filter=condition)
    found = reader.read(table, columns, condition)
    assert found.schema == whole.schema
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, whole.to_pylist()))


@pytest.mark.parametrize("condition", [None, pc.field("id").isin(range(1, 100, 7))])
def test_a_large_file_is_read_in_blocks_of_its_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, condition: pc.Expression | None
) -> None:
    monkeypatch.setattr(file_blocks, "_ROWS_PER_BLOCK", 25)
    rows = pa.table({"id": range(100)})
    pq.write_table(rows, tmp_path / "file.parquet", row_group_size=10)
    folder = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    blocks = list(read_blocks(folder, "file.parquet", rows.schema, ["id"], condition))
    assert pa.concat_tables(blocks) == (rows if condition is None else rows.filter(condition))
    assert max(block.num_rows for block in blocks) <= 20
    assert condition is not None or len(blocks) == 5


def test_blocks_of_long_texts_have_few_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_blocks, "_BYTES_PER_BLOCK", 10_000)
    rows = pa.table({"id": range(100), "v": [f"{n:03}" * 300 for n in range(100)]})
    folder = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    for size in (3, 60):
        pq.write_table(rows, tmp_path / f"{size}.parquet", row_group_size=size)
        blocks = list(read_blocks(folder, f"{size}.parquet", rows.schema, ["id", "v"]))
        assert pa.concat_tables(blocks) == rows
        assert 9 <= len(blocks) <= 34
        assert max(block.num_rows for block in blocks) <= 12


def test_no_thread_of_arrow_holds_a_python_file(
    reader: LakeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a thread aborts the process if it lets go while the interpreter ends."""
    calls: list[tuple[str, threading.Thread]] = []

    class File:
        """What delta-rs opens; notes which thread calls it."""

        def __init__(self, file: Any) -> None:
            self._file = file

        def __getattr__(self, name: str) -> Any:
            calls.append((name, threading.current_thread()))
            return getattr(self._file, name)

    def open_input_file(self: DeltaStorageHandler, path: str) -> pa.PythonFile:
        return pa.PythonFile(File(self._handler.open_input_file(path)))

    monkeypatch.setattr(DeltaStorageHandler, "open_input_file", open_input_file)
    # A folder on a disk as an object store is opened.
    as_store = fs.PyFileSystem(DeltaStorageHandler(reader.location.path(TABLE)))
    monkeypatch.setattr(store_reader, "open_folder", lambda _: as_store)
    assert reader.read(reader.open(TABLE), ["id"], pc.field("id") > 3).num_rows == 3
    assert any(name == "read" for name, _ in calls)
    assert not [call for call in calls if isinstance(call[1], threading._DummyThread)]
