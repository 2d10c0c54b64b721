"""A log or a data file that cannot be read is one line that names it."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from ticdc_assets.errors import ConfigError
from ticdc_assets.store.delta_log import count_rows
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import StoredRows

TABLE = "current/t"


@pytest.fixture
def reader(tmp_path: Path) -> LakeReader:
    reader = LakeReader(Lake(str(tmp_path), "f"))
    for id in range(3):
        write_deltalake(reader.location.path(TABLE), pa.table({"id": [id]}), mode="append")
    return reader


def commit(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020}.json"


def test_every_version_is_counted_and_read(reader: LakeReader) -> None:
    for version in range(3):
        assert count_rows(reader, TABLE, version) == version + 1
        found = [n for block in StoredRows(reader, TABLE, version).read() for n in block["id"]]
        assert sorted(n.as_py() for n in found) == list(range(version + 1))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda table: commit(table, 1).unlink(), "version 2 is not in the Delta log"),
        (lambda table: commit(table, 1).write_text('{"add":'), f"{1:020}.json"),
        (lambda table: commit(table, 1).write_text('{"add":{"path":7}}'), f"{1:020}.json"),
        (lambda table: commit(table, 1).write_bytes(b"\xff\n"), f"{1:020}.json"),
        (lambda table: damage_data(table, b"PAR1"), ".parquet"),
        (lambda table: damage_data(table, None), ".parquet"),
    ],
)
def test_damage_is_one_line_that_names_the_file(
    reader: LakeReader, damage: Callable[[Path], object], reason: str
) -> None:
    damage(Path(reader.location.path(TABLE)))
    with pytest.raises(ConfigError) as error:
        list(StoredRows(reader, TABLE, 2).read())
    assert reason in error.value.reason
    assert error.value.file == reader.location.path(TABLE)
    assert str(error.value).isprintable()


def damage_data(table: Path, content: bytes | None) -> None:
    file = next(table.glob("*.parquet"))
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
