"""What an Iceberg table states of columns, files and itself is right, or it is not stated."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import EqualTo

from tests.hostile_names import NAMES
from tests.lake.addresses import LIFE, create, send
from tests.lake.canal import row
from tests.lake.iceberg_tables import (
    Stream,
    open_iceberg,
    open_lake,
    read_iceberg,
    read_snapshots,
)
from ticdc_assets.lake.advance import advance
from ticdc_assets.lake.iceberg import published, snapshots
from ticdc_assets.lake.iceberg.columns import CannotPublish, choose_columns
from ticdc_assets.lake.iceberg.data_files import describe_file
from ticdc_assets.lake.iceberg.published import (
    name_catalog_folder,
    publish_iceberg,
    remove_written_by_catalog,
)
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.store.data_files import write_into
from ticdc_assets.store.delta_log import DataFile, Protocol, TableState
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.lease import LockLost


def state(*columns: tuple[str, Any], widened: str | None = None) -> TableState:
    change = [] if widened is None else [{"fromType": widened, "toType": "int"}]
    metadata = {"comment": "said"} | ({"delta.typeChanges": change} if change else {})
    fields = [
        {"name": name, "type": type, "nullable": True, "metadata": metadata}
        for name, type in columns
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    return TableState((), schema, Protocol(1, 2), {}, "")


VECTOR = {"type": "array", "elementType": "float", "containsNull": True}
TEXTS = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}


def test_parts_of_columns_keep_their_ids() -> None:
    first = choose_columns(state(("id", "long"), ("v", VECTOR)), [], 0).schema
    assert [field.field_id for field in first.fields] == [1, 2]
    assert first.highest_field_id == 3
    second = choose_columns(state(("_inexact", TEXTS), ("v", VECTOR)), [first], 3)
    assert not second.is_break
    assert second.schema.find_field("v.element").field_id == 3
    assert second.schema.find_field("_inexact").field_id == 4
    assert second.schema.schema_id == 1
    # A schema that was there before keeps its number.
    again = choose_columns(state(("id", "long"), ("v", VECTOR)), [second.schema, first], 6)
    assert again.schema.schema_id == 0
    # Another kind of column under the same name.
    other = choose_columns(state(("v", "string")), [first, second.schema], 6)
    assert other.is_break
    assert other.schema.find_field("v").field_id == 7


@pytest.mark.parametrize(
    ("before", "after", "fits"),
    [
        ("byte", "short", True),
        ("short", "integer", True),
        ("integer", "long", True),
        ("long", "integer", False),
        ("float", "double", True),
        ("decimal(10,2)", "decimal(12,2)", True),
        ("decimal(10,2)", "decimal(12,4)", False),
        ("decimal(12,2)", "decimal(10,2)", False),
        ("date", "timestamp_ntz", False),
        ("timestamp", "timestamp_ntz", False),
        ("string", "binary", False),
        ("array", "string", False),
    ],
)
def test_a_name_keeps_its_id_while_older_values_can_be_read_as_its_type(
    before: str, after: str, fits: bool
) -> None:
    known = choose_columns(state(("v", VECTOR if before == "array" else before)), [], 0).schema
    found = choose_columns(state(("v", after)), [known], known.highest_field_id)
    assert found.is_break is not fits
    assert (found.schema.find_field("v").field_id == 1) is fits


@pytest.mark.parametrize(
    ("widened", "type", "fits"),
    [
        ("byte", "integer", True),
        ("short", "long", False),
        ("integer", "long", True),
        ("decimal(10,2)", "decimal(12,2)", True),
        ("decimal(10,2)", "decimal(12,4)", False),
    ],
)
def test_files_of_before_a_column_was_widened_are_read_by_all_or_not_published(
    widened: str, type: str, fits: bool
) -> None:
    columns = state(("v", type), widened=widened)
    if fits:
        assert choose_columns(columns, [], 0)
        return
    with pytest.raises(CannotPublish, match=f"'v' was widened from {widened.partition('(')[0]}"):
        choose_columns(columns, [], 0)


def test_any_name_of_a_column_is_taken_or_reported() -> None:
    columns = choose_columns(state(*((name, "string") for name in dict.fromkeys(NAMES))), [], 0)
    assert [field.name for field in columns.schema.fields] == [*dict.fromkeys(NAMES)]
    with pytest.raises(CannotPublish, match="Iceberg does not take its columns"):
        choose_columns(state(("v", VECTOR), ("v.element", "string")), [], 0)
    with pytest.raises(CannotPublish, match="'v' has a type that Iceberg lacks"):
        choose_columns(state(("v", "variant")), [], 0)


def test_bounds_are_stated_where_they_are_exact(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "whole": pa.array([7, -3, None], pa.int16()),
            "day": pa.array([-719162, 19000, None], pa.int32()).cast(pa.date32()),
            # The first day that MySQL has, which not every reader has.
            "first": pa.array([-719528, 19000, None], pa.int32()).cast(pa.date32()),
            "text": pa.array(["é", "a", "b"]),
            "long": pa.array(["x" * 32, "a", "b"]),
            "rough": pa.array([0.1, 2.5, float("nan")], pa.float32()),
            "at": pa.array([1, 2, 3], pa.timestamp("us", "UTC")),
            "v": pa.array([[1.0], None, []], pa.list_(pa.float32())),
        }
    )
    written = write_into(str(tmp_path), rows)
    types = ("short", "date", "date", "string", "string", "float", "timestamp", VECTOR)
    schema = choose_columns(state(*zip(rows.column_names, types, strict=True)), [], 0).schema
    file = DataFile(written.path, written.rows, None, written.size, written.statistics)
    found = describe_file("file:///f", file, 3, schema)
    bounds = {
        schema.find_field(id).name: tuple(
            from_bytes(schema.find_field(id).field_type, bound[id])  # type: ignore[arg-type]
            for bound in (found.lower_bounds, found.upper_bounds)
        )
        for id in found.lower_bounds
    }
    assert bounds == {"whole": (-3, 7), "day": (-719162, 19000), "text": ("a", "é")}
    nulls = {schema.find_field(id).name: n for id, n in found.null_value_counts.items()}
    assert nulls == {"whole": 1, "day": 1, "first": 1, "text": 0, "long": 0, "rough": 0, "at": 0}
    assert (found.record_count, found.file_size_in_bytes) == (3, written.size)


def test_a_commit_writes_a_manifest_and_keeps_those_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = open_lake(tmp_path, "d.t")
    stream = Stream(lake)
    stream.send(create("t", 2), row("d", "t", 3, id="1"))
    stream.send(row("d", "t", 13, id="2"))
    # Many become one.
    monkeypatch.setattr(snapshots, "_MANY_MANIFESTS", 2)
    stream.send(row("d", "t", 23, id="3"))
    table = open_iceberg(lake, "d.t")
    first, second, third = (
        {manifest.manifest_path for manifest in snapshot.manifests(table.io)}
        for snapshot in table.snapshots()
    )
    assert first < second
    assert [len(second), len(third), len(second & third)] == [2, 2, 0]
    ids = [sorted(rows["id"].to_pylist()) for _, rows in read_snapshots(table)]
    assert ids == [[1], [1, 2], [1, 2, 3]]
    # Readers skip files by their bounds.
    chosen = table.scan(row_filter=EqualTo("id", 3))
    assert len([*chosen.plan_files()]) == 1
    assert chosen.to_arrow()["id"].to_pylist() == [3]


def test_a_lake_that_was_moved_or_restored_publishes_all(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "before", "d.*")
    advance(lake, send(4))
    shutil.copytree(tmp_path / "before", tmp_path / "after")
    shutil.rmtree(tmp_path / "before")
    lake = open_lake(tmp_path / "after", "d.*")
    assert advance(lake, send(4)).applied.problems == []
    assert read_iceberg(lake) == {name: LIFE[3][1][name] for name in "bc"}
    home = f"file://{tmp_path}/after/lake/f/iceberg/d.c"
    assert open_iceberg(lake, "d.c").metadata.location == home
    done = Path(lake.path("iceberg"), "published.json")
    for content in ("{", done.read_text().replace('"snapshot_id":', '"snapshot_id":9')):
        done.write_text(content)
        assert publish_iceberg(lake, read_last_snapshot(lake)) == []
        assert json.loads(done.read_text())["snapshot_id"] == read_last_snapshot(lake).snapshot_id
    done.unlink()
    advance(lake, send(6))
    assert read_iceberg(lake) == LIFE[5][1]


def test_a_lake_whose_path_readers_misunderstand_has_no_iceberg_tables(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "50%", "d.*")
    problems = [problem.describe() for problem in advance(lake, send(1)).applied.problems]
    assert problems == [
        f"iceberg: d.{name}: it has no Iceberg table: the path of the lake has '%' in it, which"
        " Iceberg's readers misunderstand"
        for name in "ab"
    ]
    assert read_iceberg(lake) == {}


def test_a_run_that_lost_its_lock_removes_nothing_that_a_catalog_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(str(tmp_path), "f")
    folder = Path(lake.path(name_catalog_folder("d.t")), "metadata")
    folder.mkdir(parents=True)
    names = ("00001.metadata.json", "manifest.avro", "snap-1.avro")
    for name in names:
        (folder / name).touch()

    def lose(_: Lake) -> None:
        raise LockLost("lost")

    with monkeypatch.context() as patch:
        patch.setattr(published, "check_lock", lose)
        with pytest.raises(LockLost):
            remove_written_by_catalog(lake, "d.t")
    assert {each.name for each in folder.iterdir()} == {*names}
    remove_written_by_catalog(lake, "d.t")
    assert [each.name for each in folder.iterdir()] == ["00001.metadata.json"]
