"""A log or a data file that cannot be read is one line that names it."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from ticdc_assets.errors import ConfigError
from ticdc_assets.store.checkpoints import write_checkpoint
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


def test_statistics_that_spark_has_parsed_are_left_alone(reader: LakeReader) -> None:
    """Of a checkpoint: dates of the year 0 are none of Python's."""
    folder = reader.location.path(TABLE)
    DeltaTable(folder).create_checkpoint()
    [file] = (Path(folder) / "_delta_log").glob("*.checkpoint.parquet")
    rows = pq.read_table(file)
    first = pa.array([-719_528], pa.int32()).cast(pa.date32())
    bounds = pa.StructArray.from_arrays([first.take([0] * rows.num_rows)], ["d"])
    parsed = pa.StructArray.from_arrays([bounds], ["minValues"])
    add = rows["add"].combine_chunks()
    names = [field.name for field in add.type]
    kept = [(name, pc.struct_field(add, name)) for name in names if name != "stats_parsed"]
    columns = [*(array for _, array in kept), parsed]
    changed = pa.StructArray.from_arrays(
        columns, [*(name for name, _ in kept), "stats_parsed"], mask=add.is_null()
    )
    place = rows.schema.get_field_index("add")
    pq.write_table(rows.set_column(place, "add", changed), file)
    with pytest.raises(OverflowError):
        pq.read_table(file).to_pylist()
    assert count_rows(reader, TABLE, 2) == 3
    write_checkpoint(reader, TABLE, 2)
    assert count_rows(reader, TABLE, 2) == 3


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
