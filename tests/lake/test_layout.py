"""Tables are laid out as their owner declares, through DDL, changes of mind and pauses."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field
from pyspark.sql import SparkSession

from tests.lake.addresses import need_none
from tests.lake.canal import FEED, change, ddl, placed, watermark
from tests.lake.readers import READERS, list_lines
from tests.lake.true_versions import PREPARING_PLAIN, list_stated
from ticdc_assets.changefeed.layout import TableLayout
from ticdc_assets.lake.advance import AdvanceResult, RecordSource, advance, replay_tables
from ticdc_assets.lake.apply import table_features
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.protocols.message import Message
from ticdc_assets.reference.replay import ModelReplay
from ticdc_assets.rows.lines import format_blocks
from ticdc_assets.store.data_files import write_into
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import StoredRows
from ticdc_assets.stream.reading import read_topic_events
from ticdc_assets.views.asof import as_of

LARGEST = (1 << 63) - 1
BIGINT = TableLayout(("d.t",), bigint_unsigned="bigint")
# What takes a table to its next version without rows of it.
CREATE = "CREATE TABLE t (id INT PRIMARY KEY, u BIGINT UNSIGNED, v VARCHAR(20))"

TYPES = {
    **dict.fromkeys(("u", "w", "x"), "bigint unsigned"),
    "n": "int",
    "day": "date",
    "at": "datetime",
    "moment": "datetime",
}


class Changefeed:
    """A changefeed that sends more and more, whose owner changes the declaration."""

    def __init__(self, folder: Path, spark: SparkSession | None = None) -> None:
        self._folder = folder
        self._spark = spark
        self._sent: list[Message] = []
        self._ts = 0
        self._compared = -1
        self.lake = self._open()

    def _open(self, *layouts: TableLayout) -> LakeSession:
        feed = replace(FEED, layouts=layouts)
        session = need_none if self._spark is None else self._spark
        return LakeSession(session, Lake(f"{self._folder}/lake", FEED.id), feed)

    def declare(self, *layouts: TableLayout) -> None:
        self.lake = self._open(*layouts)

    def put(self, id: int, **values: str) -> None:
        self._ts += 10
        types = {name: TYPES[name] for name in values if name in TYPES}
        message = change("INSERT", "d", "t", self._ts, {"id": str(id), **values}, **types)
        self._sent.append(message)

    def update(self, id: int, old: dict[str, str], **values: str) -> None:
        self._ts += 10
        types = {name: TYPES[name] for name in values if name in TYPES}
        new = {"id": str(id), **values}
        self._sent.append(change("UPDATE", "d", "t", self._ts, new, old, **types))

    def run_ddl(self, sql: str, kind: str = "ALTER") -> None:
        self._ts += 10
        self._sent.append(ddl("d", "t", self._ts, kind, sql))

    def advance(self) -> AdvanceResult:
        """Send what there is up to now, and compare each new version of the table."""
        if not self._sent or self._sent[-1] != watermark(self._ts + 9):
            self._sent.append(watermark(self._ts + 9))
        done = advance(self.lake, RecordSource(lambda _: placed(self._sent)))
        self.compare()
        return done

    def resume(self) -> None:
        applied = read_last_snapshot(self.lake)
        (table,) = applied.state.incarnations.values()
        request = ReplayRequest(frozenset((table.id,)), table.stopped_snapshot_id or 0)
        replay_tables(self.lake, applied, request, lambda *_: None)
        self.compare()

    def compare(self) -> None:
        """Compare the rows of each version with those of the model at the ts that it states."""
        (id,) = read_last_snapshot(self.lake).versions
        folder = Path(self.lake.current_path(id))
        for version, ts, _ in list_stated(folder, PREPARING_PLAIN, self._compared):
            self._compared = version
            model = ModelReplay(FEED)
            model.add(read_topic_events(FEED, placed(self._sent), None))
            model.advance(ts)
            schema = as_of(self.lake, ts).state.incarnations[id].schema
            stored = StoredRows(LakeReader(self.lake.location), f"current/{id}", version)
            lines = [line for lines in format_blocks(stored.read(), schema) for line in lines]
            assert sorted(lines) == model.encode_table(model.find_table("d.t")), (version, ts)

    @property
    def current(self) -> DeltaTable:
        (id,) = read_last_snapshot(self.lake).versions
        return DeltaTable(self.lake.current_path(id))

    @property
    def address(self) -> str:
        return self.lake.path("current/d.t")

    def read(self) -> pa.Table:
        """Read the address with every reader, and return what one of them has read."""
        table = DeltaTable(self.address)
        found = {name: read(self.address, table.version()) for name, read in READERS.items()}
        first, *others = found.values()
        for other in others:
            assert list_lines(other, first.schema) == list_lines(first, first.schema)
        return first

    def types(self) -> dict[str, str]:
        return {field.name: str(field.type.type) for field in self._list_fields()}

    def nullable(self) -> dict[str, bool]:
        return {field.name: field.nullable for field in self._list_fields()}

    def _list_fields(self) -> list[Field]:
        fields = DeltaTable(self.address).schema().fields
        return [field for field in fields if not field.name.startswith("_")]


@pytest.fixture
def changefeed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Changefeed:
    # Large tables are Spark's.
    monkeypatch.setattr(table_features, "LARGE_TABLE", 1 << 20)
    return Changefeed(tmp_path)


def test_a_bigint_unsigned_is_a_decimal_or_a_bigint(changefeed: Changefeed) -> None:
    changefeed.run_ddl(CREATE, "CREATE")
    changefeed.put(1, u=str(LARGEST), v="a")
    changefeed.advance()
    assert changefeed.types()["u"] == "decimal(20,0)"
    # The owner wants it otherwise: nothing new comes, and the table is written again, once.
    changefeed.declare(BIGINT)
    assert changefeed.advance().is_idle
    assert changefeed.types()["u"] == "long"
    version = changefeed.current.version()
    assert changefeed.advance().is_idle
    assert changefeed.current.version() == version
    assert changefeed.read()["u"].to_pylist() == [LARGEST]
    # Through DDL, and rows that are only added.
    changefeed.put(2, u="7", v="b")
    changefeed.advance()
    changefeed.run_ddl("ALTER TABLE t RENAME COLUMN u TO w, ADD COLUMN x BIGINT UNSIGNED")
    changefeed.advance()
    assert changefeed.types() == {"id": "integer", "w": "long", "v": "string", "x": "long"}
    changefeed.run_ddl("ALTER TABLE t MODIFY w DECIMAL(30)")
    changefeed.advance()
    assert changefeed.types() == {"id": "integer", "w": "decimal(30,0)", "v": "string", "x": "long"}
    changefeed.declare()
    changefeed.advance()
    assert changefeed.types()["x"] == "decimal(20,0)"
    assert sorted(changefeed.read()["id"].to_pylist()) == [1, 2]


def test_a_value_that_no_bigint_holds_pauses_the_table(changefeed: Changefeed) -> None:
    changefeed.declare(BIGINT)
    changefeed.run_ddl(CREATE, "CREATE")
    changefeed.put(1, u=str(LARGEST), v="a")
    changefeed.advance()
    changefeed.put(2, u=str(LARGEST + 1), v="b")
    (problem,) = changefeed.advance().applied.problems
    text = problem.describe()
    assert text.startswith("paused: d.t, ")
    for part in ("column u", "commit ts 30, t-0-3-0", '"decimal"', "[[changefeed.layout]]"):
        assert part in text, text
    assert str(LARGEST + 1) not in text
    assert changefeed.read()["id"].to_pylist() == [1]
    # The next window leaves it as it is, and so does a change of mind, until it is resumed.
    changefeed.declare()
    changefeed.put(3, u="3", v="c")
    changefeed.advance()
    assert changefeed.types()["u"] == "long"
    changefeed.resume()
    assert changefeed.types()["u"] == "decimal(20,0)"
    assert sorted(changefeed.read()["u"].to_pylist()) == [3, LARGEST, LARGEST + 1]
    # What is there already pauses it, too.
    changefeed.declare(BIGINT)
    (problem,) = changefeed.advance().applied.problems
    assert "column u: a value (commit ts 30)" in problem.describe()
    assert changefeed.types()["u"] == "decimal(20,0)"


def test_rows_are_sorted_by_a_column_through_ddl(changefeed: Changefeed) -> None:
    changefeed.run_ddl(
        "CREATE TABLE t (id INT PRIMARY KEY, day DATE, at DATETIME(6), v VARCHAR(20))", "CREATE"
    )
    ids = Random(1).sample(range(28), 28)
    for id in ids:
        day = f"2026-01-{28 - id:02}"
        changefeed.put(id, day=day, at=f"{day} 12:00:00.000001", v="x")
    changefeed.advance()
    assert not is_sorted_by(changefeed.current, "at")
    changefeed.declare(TableLayout(("d.*",), cluster_by="AT"))
    changefeed.advance()
    assert is_sorted_by(changefeed.current, "at")
    (stated,) = pa.table(changefeed.current.get_add_actions())["min"].to_pylist()
    assert str(stated["at"]).startswith("2026-01-01 12:00:00")
    changefeed.read()
    # Rows that come later are sorted among themselves, and with the others when all are written.
    changefeed.put(50, day="2026-02-02", at="2026-02-02 00:00:00.000000", v="x")
    changefeed.put(51, day="2026-02-01", at="2026-02-01 00:00:00.000000", v="x")
    changefeed.advance()
    assert is_sorted_by(changefeed.current, "at")
    # Its name is another one now: what is declared names no column any more.
    changefeed.run_ddl("ALTER TABLE t RENAME COLUMN at TO moment")
    (problem,) = changefeed.advance().applied.problems
    assert problem.kind == "layout"
    assert not problem.data_may_differ
    assert "cluster-by names the column AT, which the table does not have" in problem.reason
    changefeed.put(52, day="2026-01-01", moment="2026-01-01 00:00:00.000000", v="x")
    assert changefeed.advance().applied.problems == []
    changefeed.declare(TableLayout(("d.*",), cluster_by="moment"))
    changefeed.advance()
    assert is_sorted_by(changefeed.current, "moment")


def is_sorted_by(table: DeltaTable, column: str) -> bool:
    return all(each == sorted(each) for each in read_files(table, column))


def read_files(table: DeltaTable, column: str) -> Sequence[Sequence[object]]:
    """Read the values of a column, file by file, in the order of rows."""
    files = [pq.read_table(uri) for uri in table.file_uris()]
    return [each[column].to_pylist() for each in files]


@pytest.mark.parametrize(
    ("micros", "zone", "bounds"),
    [
        ([3, None, 2_000_000], None, ("1970-01-01T00:00:00.000003", "1970-01-01T00:00:02.000000")),
        ([-1], "UTC", ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z")),
        ([None], None, None),
        # The last microsecond of year 0, which some readers do not know.
        ([-62_135_596_800_000_001, 0], None, None),
    ],
)
def test_the_log_states_bounds_of_the_moments_by_which_rows_are_sorted(
    tmp_path: Path, micros: list[int | None], zone: str | None, bounds: tuple[str, str] | None
) -> None:
    moments = pa.array(micros, pa.int64()).cast(pa.timestamp("us", zone))
    days = moments.cast(pa.timestamp("us")).cast(pa.date32(), safe=False)
    rows = pa.table({"at": moments, "other": moments, "day": days})
    stated = json.loads(write_into(str(tmp_path), rows, sorted_by="at").statistics)
    # Days are stated whatever the order is.
    for name, length in (("at", 99), ("day", 10)):
        wanted = (None, None) if bounds is None else tuple(each[:length] for each in bounds)
        assert (stated["minValues"].get(name), stated["maxValues"].get(name)) == wanted
    assert "other" not in stated["minValues"]


def test_not_null_is_stated_where_no_row_has_null(changefeed: Changefeed) -> None:
    changefeed.run_ddl(
        "CREATE TABLE t (id INT PRIMARY KEY, day DATE NOT NULL, v VARCHAR(20) NOT NULL, n INT)",
        "CREATE",
    )
    changefeed.put(1, day="2026-01-01", v="a", n="1")
    changefeed.advance()
    assert changefeed.nullable() == {"id": True, "day": True, "v": True, "n": True}
    changefeed.declare(TableLayout(("*.*",), not_null=True))
    assert changefeed.advance().is_idle
    assert changefeed.nullable() == {"id": False, "day": False, "v": False, "n": True}
    assert changefeed.read()["id"].to_pylist() == [1]
    # A zero date is NULL in Delta, and the column says what it is upstream.
    changefeed.put(2, day="0000-00-00", v="b", n="2")
    changefeed.advance()
    assert changefeed.nullable() == {"id": False, "day": True, "v": False, "n": True}
    table = DeltaTable(changefeed.address)
    stated = {field.name: field.metadata.get("ticdc.not_null") for field in table.schema().fields}
    assert [name for name, value in stated.items() if value] == ["day"]
    assert table.metadata().configuration["ticdc.not_null"] == '["id", "day", "v"]'
    assert sorted(changefeed.read()["id"].to_pylist()) == [1, 2]
    # DDL decides again, and a column that is added has no NULL in older rows either.
    changefeed.run_ddl(
        "ALTER TABLE t MODIFY v VARCHAR(20) NULL, MODIFY n INT NOT NULL, ADD x INT NOT NULL"
    )
    changefeed.advance()
    assert changefeed.nullable() == {"id": False, "day": True, "v": True, "n": False, "x": False}
    changefeed.read()
    changefeed.declare()
    changefeed.advance()
    assert set(changefeed.nullable().values()) == {True}
    assert "ticdc.not_null" not in DeltaTable(changefeed.address).metadata().configuration
    assert changefeed.current.schema().fields[0].nullable


def test_a_large_table_is_laid_out_by_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    monkeypatch.setattr(table_features, "LARGE_TABLE", -1)
    changefeed = Changefeed(tmp_path, spark)

    day = "2026-01-01 00:00:00"
    changefeed.run_ddl(
        "CREATE TABLE t (id INT PRIMARY KEY, u BIGINT UNSIGNED, v VARCHAR(20), at DATETIME)",
        "CREATE",
    )
    for id in (1, 2, 3):
        changefeed.put(id, u=str(10 - id), v="a", at=day)
    changefeed.advance()
    changefeed.update(1, {"v": "a"}, u="9", v="b", at=day)
    changefeed.advance()
    assert "deletionVectors" in (changefeed.current.protocol().reader_features or ())
    changefeed.declare(BIGINT, TableLayout(("d.t",), cluster_by="at", not_null=True))
    changefeed.put(4, u="1", v="c", at=day)
    changefeed.advance()
    assert changefeed.types()["u"] == "long"
    assert changefeed.nullable() == {"id": False, "u": True, "v": True, "at": True}
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{changefeed.current.table_uri}`")
    assert detail.select("clusteringColumns").collect()[0][0] == ["at"]
    changefeed.update(2, {"v": "a"}, u="8", v="d", at=day)
    changefeed.run_ddl("ALTER TABLE t ADD COLUMN x BIGINT UNSIGNED")
    assert changefeed.advance().applied.problems == []
    assert changefeed.types()["x"] == "long"
    assert changefeed.nullable()["id"] is False
    rows = spark.read.format("delta").load(changefeed.address)
    assert sorted(rows.toArrow()["u"].to_pylist()) == [1, 7, 8, 9]
    changefeed.put(5, x=str(LARGEST + 1), v="e", u="0", at=day)
    (problem,) = changefeed.advance().applied.problems
    assert "column x: a value (commit ts" in problem.describe()
