"""Current tables have the Delta features that their columns and their size need, and no others."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from tests.lake.canal import FEED, change, ddl, placed, row, watermark
from tests.lake.readers import DAFT, READERS, list_lines
from tests.lake.true_versions import PREPARING, list_stated
from tests.usual import usual
from ticdc_assets.cli import engines
from ticdc_assets.events import Column, ColumnType, Index, TableSchema
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.lake.apply import table_features, window_work
from ticdc_assets.lake.apply.current_table import CurrentTable
from ticdc_assets.lake.apply.table_tasks import TableDone
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.protocols.message import Message
from ticdc_assets.schema.effect import ColumnAdded, ColumnChange, ColumnConverted, ColumnRenamed
from ticdc_assets.store.address_log import AddressLog, write_commit
from ticdc_assets.store.delta_log import read_state
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.restores import restore
from ticdc_assets.store.stored_rows import StoredRows
from ticdc_assets.views.asof import as_of

ID = Column("id", ColumnType("int"), nullable=False)
TEXT = Column("v", ColumnType("varchar", length=20))
SCHEMA = TableSchema("d", "t", (ID, TEXT), (Index("PRIMARY", ("id",), unique=True, primary=True),))
OLD_PROPERTIES = {
    "delta.columnMapping.mode": "name",
    "delta.enableDeletionVectors": "true",
    "delta.enableChangeDataFeed": "true",
    "delta.enableTypeWidening": "true",
    "delta.feature.timestampNtz": "supported",
}


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with a table, to copy."""
    root = tmp_path_factory.mktemp("made")
    made = CurrentTable(LakeSession(spark, Lake(str(root), "f"), FEED), "t1")
    made.write_whole(rows(spark, "int(id) id, 'x' v", 3), SCHEMA, "")
    return root


@pytest.fixture
def table(spark: SparkSession, made: Path, tmp_path: Path) -> CurrentTable:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return CurrentTable(LakeSession(spark, Lake(str(tmp_path), "f"), FEED), "t1")


def rows(spark: SparkSession, columns: str, count: int) -> DataFrame:
    return spark.range(count).selectExpr(*columns.split(", "), "5L _commit_ts")


def features(table: CurrentTable) -> set[str]:
    protocol = DeltaTable(table.path).protocol()
    return {*(protocol.reader_features or ()), *(protocol.writer_features or ())}


def content(table: CurrentTable, version: int | None = None) -> list[tuple[object, ...]]:
    """Read the rows in this process, which gives what Spark gives."""
    read = StoredRows(table._reader, table._name, table.version if version is None else version)
    rows = [pa.table(block).drop_columns("_commit_ts").to_pylist() for block in read.read()]
    return sorted(tuple(row.values()) for block in rows for row in block)


def content_with_spark(table: CurrentTable) -> list[tuple[object, ...]]:
    found = table.rows(table.version).drop("_commit_ts")
    return sorted(tuple(row) for row in found.collect())


def with_columns(*columns: Column) -> TableSchema:
    return replace_columns(SCHEMA, columns)


def replace_columns(schema: TableSchema, columns: Sequence[Column]) -> TableSchema:
    return TableSchema(schema.database, schema.table, tuple(columns), schema.indexes)


def test_a_plain_table_is_opened_by_the_oldest_readers(table: CurrentTable) -> None:
    protocol = DeltaTable(table.path).protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    assert DeltaTable(table.path).to_pyarrow_table().num_rows == 3


BIG_ID = Column("id", ColumnType("bigint"), nullable=False)
MOMENT = Column("at", ColumnType("datetime"))
SPACED = Column("a b", ColumnType("int"))
RENAMED = Column("w", ColumnType("varchar", length=20))
CHANGES: Mapping[str, tuple[TableSchema, ColumnChange, set[str]]] = {
    "wider": (
        with_columns(BIG_ID, TEXT),
        ColumnConverted("id", ID.type, BIG_ID.type),
        {"typeWidening"},
    ),
    "renamed": (with_columns(ID, RENAMED), ColumnRenamed("v", "w"), {"columnMapping"}),
    "datetime": (with_columns(ID, TEXT, MOMENT), ColumnAdded(MOMENT), {"timestampNtz"}),
    "named with a space": (
        with_columns(ID, TEXT, SPACED),
        ColumnAdded(SPACED),
        {"columnMapping"},
    ),
}


# To give a column another name takes what to add one with a space takes.
@pytest.mark.parametrize("kind", usual(CHANGES, lambda kind: kind != "renamed"))
def test_a_change_of_columns_switches_on_what_it_needs(table: CurrentTable, kind: str) -> None:
    """A killed run may do so twice: what RESTORE leaves of a feature is in nobody's way."""
    after, step, wanted = CHANGES[kind]
    start = table.version
    expected = [(*old, *([None] * (len(after.columns) - 2))) for old in content(table)]
    for _ in range(2):
        table.reshape(SCHEMA, [step], after)
        assert features(table) & {"typeWidening", "columnMapping", "timestampNtz"} == wanted
        assert content(table) == expected
        restore(table._lake.location, table._name, table.version, start)
        assert content(table) == [old[:2] for old in expected]
    # Whole writes go on from there.
    stored = table.rows(start)
    table.write_whole(stored, SCHEMA, "")
    assert content(table) == content_with_spark(table) == [old[:2] for old in expected]


def delete_rows(table: CurrentTable) -> None:
    table._set(table_features.DELETION_VECTORS)
    table._lake.spark.sql(f"DELETE FROM {table.sql} WHERE id = 1").collect()


def insert(table: CurrentTable, values: str) -> None:
    table._lake.spark.sql(f"INSERT INTO {table.sql} VALUES ({values})").collect()


def widen(table: CurrentTable) -> None:
    change_columns(table, "wider")
    insert(table, "5000000000, 'z', 9")


def add_spaced(table: CurrentTable) -> None:
    """Add a column that is in no file, and in one under another name."""
    change_columns(table, "named with a space")
    insert(table, "4, 'z', 7, 9")


# What a reader has to know of a table, and how the table comes to have it.
FEATURES: Mapping[str, tuple[str, Callable[[CurrentTable], None]]] = {
    "plain": ("plain", lambda _: None),
    "with a datetime": ("timestampNtz", lambda table: change_columns(table, "datetime")),
    "with deleted rows": ("deletionVectors", delete_rows),
    "with a renamed column": ("columnMapping", lambda table: change_columns(table, "renamed")),
    "with a spaced column": ("columnMapping", add_spaced),
    "with a wider column": ("typeWidening", widen),
}


def change_columns(table: CurrentTable, kind: str) -> None:
    after, step, _ = CHANGES[kind]
    table.reshape(SCHEMA, [step], after)


@pytest.mark.parametrize("what", usual(FEATURES, lambda what: what != "with a renamed column"))
def test_readers_read_what_the_document_says(table: CurrentTable, what: str) -> None:
    feature, change = FEATURES[what]
    change(table)
    expected = table.rows(table.version).toArrow()
    address, version = publish(table)
    said = {reader: row[feature].reads for reader, row in engines.READERS.items()}
    for name, read in {**READERS, **DAFT}.items():
        for path, at in ((table.path, table.version), (address, version)):
            try:
                lines = list_lines(read(path, at), expected.schema)
            except Exception:
                # Each library raises its own class of error for a feature that it does not read.
                lines = None
            assert (lines is not None) == said[name], (name, path)
            assert lines in (None, list_lines(expected, expected.schema)), (name, path)
    assert said["Spark 4.1 with Delta 4.4"]
    by_spark = table._lake.spark.read.format("delta").load(address).toArrow()
    assert list_lines(by_spark, expected.schema) == list_lines(expected, expected.schema)


def publish(table: CurrentTable) -> tuple[str, int]:
    """Publish a table at an address that it does not lie below: its files are copied."""
    location = table._lake.location
    state = read_state(LakeReader(location), "current/t1", table.version)
    stated = {"ticdc.table": "d.t", "ticdc.resolved_ts": "5"}
    log = AddressLog(location, "current/d.t")
    commit = log.prepare("current/t1", state, stated)
    write_commit(location, commit)
    return location.path("current/d.t"), commit.version


def clustered_by(table: CurrentTable) -> list[str]:
    detail = table._lake.spark.sql(f"DESCRIBE DETAIL {table.sql}").select("clusteringColumns")
    (columns,) = detail.collect()[0]
    return list(columns)


def test_only_a_large_table_has_deletion_vectors_and_clustering(
    table: CurrentTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_features, "LARGE_TABLE", 1 << 20)
    assert not table.adapt_to_size(SCHEMA)
    assert "deletionVectors" not in features(table)
    monkeypatch.setattr(table_features, "LARGE_TABLE", 0)
    for _ in range(2):
        assert table.adapt_to_size(SCHEMA)
        assert {"deletionVectors", "clustering"} <= features(table)
    assert table.version == 2
    # As Spark's RESTORE does.
    for version, columns in ((0, []), (2, ["id"])):
        restore(table._lake.location, table._name, table.version, version)
        assert clustered_by(table) == columns
        assert content_with_spark(table) == [(0, "x"), (1, "x"), (2, "x")]
    # Small again, it loses both.
    monkeypatch.setattr(table_features, "LARGE_TABLE", 1 << 20)
    table.write_whole(table.rows(table.version), SCHEMA, "")
    assert not table.read_detail().has_deletion_vectors


CREATE = "CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` VARCHAR(20))"
NOON = "2024-02-29 12:00:00"
WINDOWS: Mapping[int, Sequence[Message]] = {
    20: [ddl("d", "t", 10, "CREATE", CREATE), row("d", "t", 11, id="1", v="x")],
    40: [
        ddl("d", "t", 30, "ALTER", "ALTER TABLE `t` ADD COLUMN `at` DATETIME"),
        change("INSERT", "d", "t", 31, {"id": "2", "v": "y", "at": NOON}, at="datetime"),
    ],
    60: [
        ddl("d", "t", 50, "ALTER", "ALTER TABLE `t` RENAME COLUMN `v` TO `w x`"),
        change("DELETE", "d", "t", 51, {"id": "1", "w x": "x"}),
    ],
    80: [
        ddl("d", "t", 70, "ALTER", "ALTER TABLE `t` MODIFY COLUMN `id` BIGINT"),
        change("INSERT", "d", "t", 71, {"id": "5000000000", "w x": "z"}, id="bigint"),
    ],
}
RIGHT = {
    20: [b'{"id":"1","v":"x"}\n'],
    40: [b'{"id":"1","v":"x","at":null}\n', b'{"id":"2","v":"y","at":"2024-02-29 12:00:00"}\n'],
    60: [b'{"id":"2","w x":"y","at":"2024-02-29 12:00:00"}\n'],
    80: [
        b'{"id":"2","w x":"y","at":"2024-02-29 12:00:00"}\n',
        b'{"id":"5000000000","w x":"z","at":null}\n',
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "large"), [pytest.param(False, False, marks=pytest.mark.all_cases), (True, True)]
)
def test_a_table_goes_through_every_change(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: bool, large: bool
) -> None:
    """A table of an older lake has all features on from its creation."""
    monkeypatch.setattr(table_features, "LARGE_TABLE", -1 if large else 1 << 20)
    if old:
        commit = window_work.commit_table

        def commit_as_before(location: Lake, done: TableDone, *arguments: Any) -> int:
            commit(location, done, *arguments)
            table = CurrentTable(lake, done.id)
            table._set(OLD_PROPERTIES)
            return table.version

        monkeypatch.setattr(window_work, "commit_table", commit_as_before)
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), FEED)
    messages: list[Message] = []
    snapshots = []
    for ts, window in WINDOWS.items():
        messages += [*window, watermark(ts)]
        source = RecordSource(lambda _, sent=tuple(messages): placed(sent))
        assert advance(lake, source).applied.problems == []
        snapshots.append(read_last_snapshot(lake))
    for ts, lines in RIGHT.items():
        seen = as_of(lake, ts)
        assert list(seen.lines(seen.find("d.t")[0])) == lines, ts
    (incarnation,) = snapshots[-1].versions
    table = CurrentTable(lake, incarnation)
    # A replay goes back to any snapshot, across each switch.
    now = content(table)
    versions = [snapshot.versions[incarnation] for snapshot in snapshots]
    for version in versions[:-1]:
        before = content(table, version)
        restore(table._lake.location, table._name, table.version, version)
        assert content(table) == before
    restore(table._lake.location, table._name, table.version, versions[-1])
    assert content(table) == content_with_spark(table) == now


def test_a_large_table_states_its_ts_where_only_its_columns_change(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_features, "LARGE_TABLE", -1)
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), FEED)
    messages = list(WINDOWS[20])
    # The last one changes nothing.
    for ts, columns in {
        20: None,
        40: "ADD COLUMN `c` INT",
        60: "RENAME COLUMN `v` TO `w`, DROP COLUMN `c`",
        80: None,
    }.items():
        if columns is not None:
            messages.append(ddl("d", "t", ts - 10, "ALTER", f"ALTER TABLE `t` {columns}"))
        messages.append(watermark(ts))
        source = RecordSource(lambda _, sent=tuple(messages): placed(sent))
        assert advance(lake, source).applied.problems == []
        ((incarnation, version),) = read_last_snapshot(lake).versions.items()
        folder = Path(lake.current_path(incarnation))
        *_, (stated, true_ts, _) = list_stated(folder, PREPARING)
        assert (stated, true_ts) == (version, min(ts, 60))
    assert content_with_spark(CurrentTable(lake, incarnation)) == [(1, "x")]
