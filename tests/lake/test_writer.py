"""Commits that the process itself writes: what they replace, and what concurrent ones do."""

from decimal import Decimal
from pathlib import Path
from secrets import token_hex

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.lake.canal import FEED
from ticdc_assets.errors import ConfigError
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.restores import restore
from ticdc_assets.store.stage_commits import StageMark, commit_rows, read_last_stage_commit
from ticdc_assets.store.writer import ConcurrentCommit, LakeWriter, is_writable

ROWS = pa.schema([("name", pa.string()), ("number", pa.int64())])
HOSTILE = ["a", "'", "''", "\\", "\\'", '"', "`", "%", "_", "' OR '1' = '1", "--", "\n", "表", "👍"]


def make_rows(names: list[str], number: int) -> pa.Table:
    return pa.table([names, [number] * len(names)], schema=ROWS)


def read(location: Lake) -> list[tuple[str, int]]:
    reader = LakeReader(location)
    rows = reader.read(reader.open("t"), ["name", "number"])
    return sorted(tuple(row.values()) for row in rows.to_pylist())


@given(st.lists(st.one_of(st.sampled_from(HOSTILE), st.text("'\\\" x%"))), st.data())
@example(HOSTILE, None)
def test_only_rows_with_one_of_the_values_are_replaced(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], data: st.DataObject | None
) -> None:
    location = Lake(str(tmp_path_factory.mktemp("lake")), "f")
    writer = LakeWriter(location)
    names = [*dict.fromkeys(["other", *names])]
    chosen = HOSTILE if data is None else [n for n in names if data.draw(st.booleans())]
    chosen = chosen or names[:1]
    writer.replace("t", make_rows(names, 1))
    writer.replace_where("t", "name", chosen, make_rows(chosen, 2))
    kept = [(name, 1) for name in names if name not in chosen]
    assert read(location) == sorted([*kept, *((name, 2) for name in chosen)])


def test_a_struct_may_be_the_first_to_have_a_datetime(tmp_path: Path) -> None:
    location = Lake(str(tmp_path), "f")
    writer, commit = LakeWriter(location), CommitProperties()
    plain, dated = (
        pa.schema([("row", pa.struct([("at", type)]))]) for type in (pa.int64(), pa.timestamp("us"))
    )
    writer.create_of_files("u", plain, [], {}, commit)
    writer.replace_by_files(LakeReader(location).open("u"), dated, [], commit)
    assert pa.schema(LakeReader(location).open("u").schema().to_arrow()) == dated


@pytest.fixture
def lake(tmp_path: Path) -> LakeSession:
    location = Lake(str(tmp_path), "f")
    LakeWriter(location).create("t", ROWS, {})
    # No session: nothing here takes Spark.
    return LakeSession(None, location, FEED)  # type: ignore[arg-type]


def test_a_stage_commits_each_of_its_numbers_once(lake: LakeSession) -> None:
    assert commit_rows(lake, "t", make_rows(["a"], 1), StageMark("ingest", 1))
    assert not commit_rows(lake, "t", make_rows(["b"], 1), StageMark("ingest", 1))
    assert commit_rows(lake, "t", make_rows(["c"], 1), StageMark("decode", 1))
    assert commit_rows(lake, "t", make_rows(["d"], 2), StageMark("ingest", 3))
    assert not commit_rows(lake, "t", make_rows(["e"], 2), StageMark("ingest", 2))
    assert read(lake.location) == [("a", 1), ("c", 1), ("d", 2)]


def test_many_small_commits_make_few_files(lake: LakeSession) -> None:
    reader = LakeReader(lake.location)
    most = 0
    for number in range(1, 71):
        assert commit_rows(lake, "t", make_rows(["a"], number), StageMark("ingest", number))
        most = max(most, reader.measure(reader.open("t")).number)
        assert read_last_stage_commit(lake, "t", "ingest").number == number
    assert most < 40
    assert read(lake.location) == [("a", number) for number in range(1, 71)]


def test_files_of_half_the_size_of_a_class_are_merged_too(lake: LakeSession) -> None:
    reader = LakeReader(lake.location)
    for number in range(1, 41):
        random = [token_hex(16) for _ in range(40_000)]
        commit_rows(lake, "t", make_rows(random, number), StageMark("ingest", number))
    files = reader.measure(reader.open("t"))
    assert files.size > 40 * (600 << 10)
    assert files.number < 40


def test_rows_of_a_large_file_are_not_written_again_with_small_ones(lake: LakeSession) -> None:
    reader = LakeReader(lake.location)
    random = [token_hex(16) for _ in range(200_000)]
    assert commit_rows(lake, "t", make_rows(random, 0), StageMark("ingest", 1))
    (large,) = reader.list_files(reader.open("t")).paths
    for number in range(2, 50):
        commit_rows(lake, "t", make_rows(["a"], number), StageMark("ingest", number))
    paths = reader.list_files(reader.open("t")).paths
    assert large in paths
    assert len(paths) < 40
    assert len(read(lake.location)) == 200_048


def test_a_table_is_taken_back_to_a_version_that_is_there_by_one_run(lake: LakeSession) -> None:
    location = lake.location
    for number in (1, 2):
        commit_rows(lake, "t", make_rows(["a"], number), StageMark("ingest", number))
    assert restore(location, "t", 2, 2) == 2
    assert restore(location, "t", 2, 1) == 3
    assert read(location) == [("a", 1)]
    # Another run has committed since this one opened the table.
    with pytest.raises(ConcurrentCommit, match="run the command again"):
        restore(location, "t", 2, 1)
    DeltaTable(location.path("t")).vacuum(0, dry_run=False, enforce_retention_duration=False)
    newest = LakeReader(location).open("t").version()
    with pytest.raises(ConfigError, match="parquet is gone: load the table again"):
        restore(location, "t", newest, 2)
    with pytest.raises(ConfigError, match="there is no Delta log"):
        restore(location, "none", 1, 0)
    assert read(location) == [("a", 1)]


def test_of_two_commits_at_once_with_one_number_only_one_takes_effect(
    lake: LakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = [LakeReader(lake.location).open("t") for _ in range(2)]
    assert commit_rows(lake, "t", make_rows(["a"], 1), StageMark("ingest", 1))
    properties = CommitProperties(app_transactions=[Transaction("ingest", 1)])
    with pytest.raises(ConcurrentCommit, match="another run may be at work in this lake"):
        LakeWriter(lake.location).append(opened[0], make_rows(["b"], 1), properties)
    open_now = LakeReader.open
    # The first time, it is as it was before the other commit.
    handles = [opened[1]]
    monkeypatch.setattr(
        LakeReader,
        "open",
        lambda self, table: handles.pop() if handles else open_now(self, table),
    )
    assert not commit_rows(lake, "t", make_rows(["c"], 1), StageMark("ingest", 1))
    assert handles == []
    assert read(lake.location) == [("a", 1)]


def test_a_table_is_created_once(lake: LakeSession) -> None:
    writer = LakeWriter(lake.location)
    writer.replace("t", make_rows(["a"], 1))
    writer.create("t", ROWS, {})
    assert read(lake.location) == [("a", 1)]
    found = LakeReader(lake.location).find("t")
    assert found is not None
    assert is_writable(found)
    assert LakeReader(lake.location).find("u") is None


def test_a_storage_that_cannot_be_written_is_an_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a file where the lake's folder should be")
    with pytest.raises(ConfigError, match=r"f/t: --lake: cannot be written: [^\n]+\Z"):
        LakeWriter(Lake(str(tmp_path), "f")).create("t", ROWS, {})


def test_decimals_have_no_rounded_statistics(lake: LakeSession) -> None:
    rows = pa.table({"d": pa.array([None, 10**37 + 1], pa.decimal128(38, 0))})
    LakeWriter(lake.location).replace("d", rows)
    files = pa.table(DeltaTable(lake.path("d")).get_add_actions(flatten=True)).to_pylist()
    assert [(file["num_records"], file.get("max.d")) for file in files] == [(2, None)]


def test_decimals_have_no_statistics_as_readers_would_skip_files_that_have_them(
    spark: SparkSession, lake: LakeSession
) -> None:
    """delta-rs states 9223372036854775807 for the first of them, and rounds the second."""
    fractions = pa.array([Decimal("1234567890123456.7891")], pa.decimal128(20, 4))
    rows = pa.table({"d": pa.array([10**37 + 1], pa.decimal128(38, 0)), "d.x": fractions, "i": [1]})
    writer = LakeWriter(lake.location)
    writer.replace("d", rows)
    for _ in range(2):
        found = LakeReader(lake.location).find("d")
        assert found is not None
        writer.append(found, rows)
    stored = spark.read.format("delta")
    wanted = "d = 10000000000000000000000000000000000001 AND `d.x` = 1234567890123456.7891BD"
    assert stored.load(lake.path("d")).where(wanted).count() == 3
    compacted = LakeReader(lake.location).find("d")
    assert compacted is not None
    writer.compact(compacted)
    files = pa.table(DeltaTable(lake.path("d")).get_add_actions(flatten=True)).to_pylist()
    assert [(file["num_records"], file.get("max.i")) for file in files] == [(3, 1)]
    assert stored.load(lake.path("d")).where(wanted).count() == 3
