"""`verify` finds what differs between a lake and a real server, and nothing else."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from msgspec import structs
from pyspark.sql import SparkSession

from tests.lake.upstream_copy import UpstreamCopy, read_schema
from tests.mariadb_server import MariaDb
from ticdc_assets.log.verifications import Results, TableVerification
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.upstream.snapshot import Pace, SnapshotTooOld, UpstreamSnapshot


@pytest.fixture(scope="module")
def server(mariadb: MariaDb) -> MariaDb:
    mariadb.run("CREATE DATABASE v CHARACTER SET utf8mb4", "USE v")
    return mariadb


SMALL = """CREATE TABLE small (id int NOT NULL, line int NOT NULL, name varchar(20), data blob,
    js json, PRIMARY KEY (id, line))"""
BY_NAME = "CREATE TABLE by_name (name varchar(20) NOT NULL PRIMARY KEY, v int) COLLATE utf8mb4_bin"
KEYLESS = "CREATE TABLE keyless (v int, part varchar(20))"


def fill(server: MariaDb) -> None:
    server.run(
        "USE v",
        *(f"DROP TABLE IF EXISTS {name}" for name in ("small", "by_name", "keyless")),
        SMALL,
        "INSERT INTO small SELECT seq DIV 10, seq MOD 10, CONCAT('n', seq),"
        " REPEAT(CHAR(seq MOD 256), IF(seq MOD 50 = 1, 6000, 10)),"
        " JSON_OBJECT('a', seq, 'b', 1) FROM seq_1_to_1000",
        BY_NAME,
        "INSERT INTO by_name SELECT CONCAT('k', seq), seq FROM seq_1_to_1000",
        KEYLESS,
        "INSERT INTO keyless SELECT seq MOD 5, 'x' FROM seq_1_to_1000",
    )


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, server: MariaDb) -> UpstreamCopy:
    """A lake with the rows that `fill` writes, made without Spark."""
    fill(server)
    copy = UpstreamCopy.make(None, tmp_path_factory.mktemp("small"), server)
    for ddl in (SMALL, BY_NAME, KEYLESS):
        copy.copy_without_spark(read_schema("v", ddl))
    return copy


@pytest.mark.parametrize("with_spark", [False, True], ids=["in this process", "with Spark"])
def test_each_change_is_found_and_named(
    small: UpstreamCopy,
    server: MariaDb,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    with_spark: bool,
) -> None:
    copy = small
    if with_spark:
        lake = LakeSession(request.getfixturevalue("spark"), small.lake.location, small.lake.feed)
        copy = replace(small, lake=lake)
        monkeypatch.setattr("ticdc_assets.verify.verify.MANY_ROWS", -1)
    fill(server)
    assert {found.table: found.verdict for found in copy.verify()} == {
        "by_name": "equal",
        "keyless": "equal",
        "small": "equal",
    }

    server.run(
        "USE v",
        "UPDATE small SET name = 'other' WHERE id = 3 AND line = 4",
        "UPDATE small SET data = CONCAT(LEFT(data, 5999), 'X') WHERE id = 50 AND line = 1",
        "DELETE FROM small WHERE id = 70 AND line = 0",
        "INSERT INTO small VALUES (-5, 1, 'new', NULL, NULL), (2000000000, 0, 'new', NULL, NULL)",
        # The same value: MariaDB keeps the text as it is written.
        """UPDATE small SET js = '{"b": 1, "a": 11}' WHERE id = 1 AND line = 1""",
        "UPDATE by_name SET v = v + 1 WHERE name IN ('k1', 'k1000')",
        "DELETE FROM by_name WHERE name = 'k5'",
        "DELETE FROM keyless WHERE v = 2 LIMIT 3",
        "INSERT INTO keyless VALUES (NULL, NULL)",
    )
    by_name, keyless, lines = copy.verify()

    assert by_name.verdict == keyless.verdict == lines.verdict == "differs"
    assert {(d.key, d.what, d.columns, d.cause) for d in lines.differences} == {
        ('{"id": "3", "line": "4"}', "differs", ("name",), "missed"),
        ('{"id": "50", "line": "1"}', "differs", ("data",), "missed"),
        ('{"id": "70", "line": "0"}', "extra", (), "missed"),
        ('{"id": "-5", "line": "1"}', "missing", (), "missed"),
        ('{"id": "2000000000", "line": "0"}', "missing", (), "missed"),
    }
    assert {(d.key, d.what) for d in by_name.differences} == {
        ('{"name": "k1"}', "differs"),
        ('{"name": "k1000"}', "differs"),
        ('{"name": "k5"}', "extra"),
    }
    assert {(d.key, d.what, d.copies, d.lake or d.upstream) for d in keyless.differences} == {
        (None, "extra", 3, '{"v": "2", "part": "x"}'),
        (None, "missing", 1, '{"v": null, "part": null}'),
    }
    shown = next(d for d in lines.differences if d.columns == ("name",))
    assert (json.loads(shown.lake or ""), json.loads(shown.upstream or "")) == (
        {"name": "n34"},
        {"name": "other"},
    )
    (hidden, *_) = copy.verify("v.small", with_values=False)
    assert all(d.lake is None and d.upstream is None for d in hidden.differences)


# Spark reads tables of more than 20,000 rows.
_ROWS = 24_000
LARGE = """CREATE TABLE large (id bigint unsigned NOT NULL PRIMARY KEY, v int, name varchar(40),
    at datetime)"""
AT = "TIMESTAMP'2024-01-01 00:00:00'"


class Killed(BaseException):
    """What ends a run at once."""


@dataclass
class FakeTidb:
    """A MariaDB that says it is TiDB, of which any ts is the present; a query kills the run."""

    copy: UpstreamCopy
    after: int = 1_000_000

    @contextmanager
    def open_snapshot(self, ts: int) -> Iterator[UpstreamSnapshot]:
        with self.copy.environment().open_upstream(ts) as snapshot:
            query = snapshot.query

            def count(sql: str) -> Sequence[tuple[bytes | None, ...]]:
                self.after -= 1
                if self.after < 0:
                    raise Killed
                return query(sql)

            snapshot.query = count  # type: ignore[method-assign]
            yield UpstreamSnapshot([snapshot], Pace(None), is_tidb=True)


def test_a_thousandth_of_a_larger_table_is_found_in_a_fraction_of_its_rows(
    spark: SparkSession, tmp_path: Path, server: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ticdc_assets.verify.table._SPANS_PER_SAVE", 1)
    monkeypatch.setattr("ticdc_assets.verify.table._SECONDS_BETWEEN_SAVES", 0.0)
    for module in ("table", "spark_lake", "narrowing"):
        monkeypatch.setattr(f"ticdc_assets.verify.{module}.ROWS_PER_SPAN", 5_000)
    server.run(
        "USE v",
        "DROP TABLE IF EXISTS large",
        LARGE,
        "INSERT INTO large SELECT seq * 7, seq MOD 100, CONCAT('name ', seq),"
        f" {AT} + INTERVAL seq SECOND FROM seq_1_to_{_ROWS}",
    )
    copy = UpstreamCopy.make(spark, tmp_path, server)
    ids, start = range(1, _ROWS + 1), datetime(2024, 1, 1)
    columns = {
        "id": pa.array([Decimal(id * 7) for id in ids], pa.decimal128(20, 0)),
        "v": pa.array([id % 100 for id in ids], pa.int32()),
        "name": [f"name {id}" for id in ids],
        "at": pa.array([start + timedelta(seconds=id) for id in ids], pa.timestamp("us")),
    }
    copy.put_arrow(read_schema("v", LARGE), pa.table(columns))
    with pytest.raises(Killed):
        copy.verify(open_upstream=FakeTidb(copy, after=7).open_snapshot)
    (equal,) = copy.verify(open_upstream=FakeTidb(copy).open_snapshot)
    # What the killed run had compared is not read again.
    assert 0 < equal.rows_summed < 0.7 * _ROWS
    (equal,) = copy.verify()
    assert (equal.verdict, equal.lake_rows, equal.upstream_rows) == ("equal", _ROWS, _ROWS)
    # Every row was read once, none was sent.
    assert (equal.rows_summed, equal.rows_sent) == (_ROWS, 0)

    server.run("USE v", "UPDATE large SET v = v + 1 WHERE id MOD 7000 = 0")
    (found,) = copy.verify()

    assert (found.verdict, found.different_rows, found.complete) == ("differs", _ROWS // 1000, True)
    expected = {json.dumps({"id": str(id)}) for id in range(7000, 7 * _ROWS + 1, 7000)}
    assert {d.key for d in found.differences} == expected
    assert {d.columns for d in found.differences} == {("v",)}
    # At most 32 rows of a part have to be listed for one that differs, and it is read once.
    assert found.rows_sent <= _ROWS // 1000 * 50


def strip(found: Sequence[TableVerification]) -> list[TableVerification]:
    """Return results without what differs from run to run."""
    same = {"run": "", "seconds": 0, "rows_summed": 0, "rows_sent": 0, "differences": ()}
    return [replace(each, verified_at=datetime.min, **same) for each in found]


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.all_cases)])
def test_a_run_that_was_killed_anywhere_goes_on_to_the_same_result(
    small: UpstreamCopy, server: MariaDb, step: int
) -> None:
    fill(server)
    server.run(
        "USE v",
        "UPDATE small SET name = 'other' WHERE id = 3",
        "DELETE FROM by_name WHERE name = 'k5'",
    )
    tidb = FakeTidb(small, after=1000)
    expected = small.verify(open_upstream=tidb.open_snapshot)
    results = Results(small.lake.location)
    for number in range(0, 1000 - tidb.after, step):
        with pytest.raises(Killed):
            small.verify(open_upstream=FakeTidb(small, after=number).open_snapshot)
        progress, _ = results.progress.read()
        assert progress is not None
        before = results.read_run(progress.run)
        found = small.verify(open_upstream=FakeTidb(small).open_snapshot)
        assert strip(found) == strip(expected)
        # What the killed run had found is reported again, and was not compared again.
        assert found[: len(before)] == before
        assert results.progress.read() == (None, {})
    with pytest.raises(Killed):
        small.verify(open_upstream=FakeTidb(small, after=number).open_snapshot)
    assert before
    # A server that only reads the present has other rows by now.
    fill(server)
    assert {each.verdict for each in small.verify()} == {"equal"}


def read_delta(copy: UpstreamCopy, name: str, found: TableVerification) -> list[dict[str, Any]]:
    rows = DeltaTable(copy.lake.path(name)).to_pyarrow_table().to_pylist()
    return [row for row in rows if row["verification"] == found.id]


def test_a_result_that_was_half_written_is_replaced(
    small: UpstreamCopy, server: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(server)
    server.run("USE v", "DELETE FROM by_name WHERE name IN ('k5', 'k6')")
    write = Results._write

    def kill(self: Results, name: str, *rest: object) -> None:
        if name == "verifications":
            raise Killed
        write(self, name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Results, "_write", kill)
    tidb = FakeTidb(small).open_snapshot
    with pytest.raises(Killed):
        small.verify("v.by_name", open_upstream=tidb)
    monkeypatch.undo()
    (found,) = small.verify("v.by_name", open_upstream=tidb)
    rows = read_delta(small, "differences", found)
    assert sorted(row["key"] for row in rows) == ['{"name": "k5"}', '{"name": "k6"}']
    (row,) = read_delta(small, "verifications", found)
    assert (row["verdict"], row["different_rows"], row["lake_rows"]) == ("differs", 2, 1000)


def test_rows_that_are_equal_after_the_next_window_were_in_flight(
    small: UpstreamCopy, server: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(server)
    server.run("USE v", "UPDATE by_name SET v = -1 WHERE name IN ('k5', 'k6')")

    def wait(run: object) -> object:
        # Meanwhile the lake gets one of the changes; here, upstream takes it back.
        server.run("USE v", "UPDATE by_name SET v = 6 WHERE name = 'k6'")
        small.apply(small.snapshot.state, {})
        return small.snapshot

    monkeypatch.setattr("ticdc_assets.verify.verify._Run._wait_for_window", wait)
    (found,) = small.verify("v.by_name")
    assert (found.verdict, found.in_flight) == ("differs", 1)
    assert [each.key for each in found.differences] == ['{"name": "k5"}']


def test_what_cannot_be_compared_is_said(small: UpstreamCopy, server: MariaDb) -> None:
    fill(server)
    server.run("USE v", "DROP TABLE keyless", "ALTER TABLE small ADD more int, DROP js")
    server.run("USE v", "ALTER TABLE by_name MODIFY v varchar(10)")
    by_name, keyless, lines = small.verify()
    assert (by_name.verdict, by_name.reason) == (
        "differs",
        "column v is varchar upstream, int here",
    )
    assert (keyless.verdict, keyless.reason) == (
        "differs",
        "upstream has no such table, or the user may not read it",
    )
    assert lines.reason == "the lake lacks columns that upstream has: more"

    found = small.verify("v.by_name", "v.small", open_upstream=open_too_late)
    assert {each.verdict for each in found} == {"skipped"}
    assert all("tidb_gc_life_time" in (each.reason or "") for each in found)

    state = small.snapshot.state
    paused = {
        id: structs.replace(table, status="paused", reason="a DDL", stopped_ts=state.ts - 5)
        for id, table in state.incarnations.items()
    }
    small.apply(structs.replace(state, incarnations=paused), {})
    try:
        found = small.verify("v.by_name")
        assert [(each.verdict, each.reason) for each in found] == [
            ("skipped", "it is paused, and upstream only reads the present")
        ]
        fill(server)
        (found_by_fake,) = small.verify("v.by_name", open_upstream=FakeTidb(small).open_snapshot)
        assert (found_by_fake.verdict, found_by_fake.resolved_ts) == ("equal", state.ts - 5)
    finally:
        small.apply(state, {})


@contextmanager
def open_too_late(ts: int) -> Iterator[UpstreamSnapshot]:
    """A fake TiDB whose garbage collection has passed the ts."""
    if ts:
        raise SnapshotTooOld("GC life time is shorter")
    yield UpstreamSnapshot([], Pace(None), is_tidb=True)
