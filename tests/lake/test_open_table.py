"""A table that is handed out again is what it would be if it were opened anew."""

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from ticdc_assets.store import open_table as opening
from ticdc_assets.store.open_table import open_table

TABLES = ("t", "t/u")
ACTIONS = ("append", "overwrite", "delete", "add column", "log", "replace", "copy", "open", "drop")


class State(NamedTuple):
    version: int
    columns: list[str]
    files: list[dict[str, object]]

    @classmethod
    def of(cls, table: DeltaTable) -> "State":
        files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        files.sort(key=lambda file: str(file["path"]))
        return cls(table.version(), [field.name for field in table.schema().fields], files)


def write(path: Path, mode: str = "append") -> None:
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
    write_deltalake(path, rows, mode=mode, schema_mode="merge")  # type: ignore[arg-type]


def change(path: Path, action: str, step: int) -> None:
    """Change a table as another process does."""
    if action in {"append", "overwrite"}:
        write(path, action)
    elif action == "delete":
        DeltaTable(path).delete("id = 2")
    elif action == "add column":
        table = DeltaTable(path)
        rows = pa.table({f"c{step}": pa.array([step], pa.int64())})
        write_deltalake(table, rows, mode="append", schema_mode="merge")
    elif action == "log":
        table = DeltaTable(path)
        table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 days"})
        table.create_checkpoint()
        table.cleanup_metadata()
    elif action == "replace":
        shutil.rmtree(path)
        for _ in range(step % 4 + 1):
            write(path)
    elif action == "copy":
        # The same versions and times, at the same path.
        shutil.copytree(path, f"{path}-copy", copy_function=shutil.copy2)
        shutil.rmtree(path)
        Path(f"{path}-copy").rename(path)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.sampled_from(TABLES)), max_size=20))
def test_a_table_is_what_is_committed_when_it_is_opened_and_remains_that(
    steps: list[tuple[str, str]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder, name.replace("/", "-")) for name in TABLES}
        for path in paths.values():
            write(path)
        held: list[tuple[DeltaTable, State]] = []
        for number, (action, name) in enumerate(steps):
            if action == "open":
                table = open_table(str(paths[name]))
                state = State.of(DeltaTable(paths[name]))
                assert State.of(table) == state
                held.append((table, state))
                del table
            elif action == "drop" and held:
                held.pop(0)
            else:
                change(paths[name], action, number)
            for table, state in held:
                assert State.of(table) == state
                del table


def test_only_what_nobody_uses_is_handed_out_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def count(*arguments: object, **settings: object) -> DeltaTable:
        opened.append(arguments)
        return DeltaTable(*arguments, **settings)  # type: ignore[arg-type]

    path = tmp_path / "t"
    write(path)
    monkeypatch.setattr(opening, "DeltaTable", count)
    table = open_table(str(path))
    assert open_table(str(path)) is not table
    assert len(opened) == 2
    assert open_table(str(path)) is not table
    assert len(opened) == 2
    # Its owner may commit with it.
    table = open_table(str(path))
    write_deltalake(table, pa.table({"id": [4]}), mode="append")
    write(path)
    assert table.version() == 1
    del table
    assert open_table(str(path)).version() == 2
    assert len(opened) == 3


def test_few_are_kept(tmp_path: Path) -> None:
    write(tmp_path / "t0")
    for number in range(1, 100):
        shutil.copytree(tmp_path / "t0", tmp_path / f"t{number}")
    for number in range(100):
        assert open_table(str(tmp_path / f"t{number}")).version() == 0
    assert len(opening._kept) < 50
