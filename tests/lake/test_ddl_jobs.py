"""A DDL that TiDB is in the middle of: readers see a part of it before its commit ts."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from tests.lake.recorded_tidb import DATABASE, RecordedTidb, Recording, read_recordings
from tests.lake.upstream_copy import UpstreamCopy
from tests.mariadb_server import MariaDb
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.events import TableSchema
from ticdc_assets.load import upstream_source
from ticdc_assets.load.upstream_source import UpstreamTable, open_upstream_source
from ticdc_assets.schema.catalog import SchemaCatalog
from ticdc_assets.upstream.ddl_jobs import find_unfinished
from ticdc_assets.upstream.definition import read_definition, read_definition_at
from ticdc_assets.upstream.snapshot import (
    RowsUnreadable,
    TableUnreadable,
    UpstreamError,
    UpstreamSnapshot,
)

RECORDINGS = read_recordings()
DROP_COLUMN = RECORDINGS["alter table t drop column v"]
RENAME = RECORDINGS["rename table t to u, o to t"]
# TiDB works on it for long, and shows nothing before it is done.
ADD_INDEX = RECORDINGS["alter table t add index k (v)"]
FEED = changefeed_from_uri("kafka://h:9092/t?protocol=simple", id="f")


def show(recording: Recording, table: str, ts: int) -> TableSchema | None:
    """Return the definition of a table that readers see at a TSO."""
    tidb = RecordedTidb(recording, ts)
    try:
        return read_definition(tidb.query, DATABASE, table)
    except RowsUnreadable:
        return None


def define(recording: Recording, table: str, ts: int) -> TableSchema | None:
    try:
        return read_definition_at(RecordedTidb(recording), DATABASE, table, ts)
    except RowsUnreadable:
        return None


@pytest.mark.parametrize("sql", RECORDINGS)
def test_a_definition_has_nothing_of_a_ddl_before_its_commit_ts_and_all_of_it_from_then_on(
    sql: str,
) -> None:
    recording = RECORDINGS[sql]
    first, *changes = recording.changes
    assert recording.done in changes
    is_seen_early = False
    for table in recording.tables:
        before, after = show(recording, table, first), show(recording, table, changes[-1])
        for ts in [first, *(at for change in changes for at in (change - 1, change))]:
            expected = before if ts < recording.done else after
            assert define(recording, table, ts) == expected, (table, ts)
            is_seen_early |= show(recording, table, ts) != expected
    assert is_seen_early == (recording is not ADD_INDEX)


def test_a_ddl_that_may_take_hours_is_no_reason_to_wait_while_readers_see_nothing_of_it() -> None:
    jobs = [
        RecordedTidb(ADD_INDEX, ts).query("FROM mysql.tidb_ddl_job") for ts in ADD_INDEX.changes
    ]
    assert any(jobs)
    for ts in ADD_INDEX.changes:
        assert find_unfinished(RecordedTidb(ADD_INDEX, ts).query) == []


def test_a_job_that_cannot_be_read_is_an_error_that_names_its_table() -> None:
    for job in ((b"{}", b"1"), (b'{"type":6,"state":1,"schema_state":2}', b"x"), (b"", b"")):
        with pytest.raises(UpstreamError, match="tidb_ddl_job has a job that cannot be read"):
            find_unfinished(lambda sql, job=job: [job])


# Loads


def load(recording: Recording, ts: int | None, *, takes: list[int], **rights: bool) -> list[str]:
    """Open the tables as a load does; a newest TSO is the next one of `takes`."""

    @contextmanager
    def open_snapshot(at: int | None) -> Iterator[UpstreamSnapshot]:
        tidb = RecordedTidb(recording, **rights)
        with tidb.open_snapshot(takes.pop(0) if at is None else at) as snapshot:
            yield snapshot

    with open_upstream_source(open_snapshot, "h:4000", FEED, ts, ()) as source:
        return [*source.notes, *map(describe, source.choose_tables(()))]


def describe(table: UpstreamTable) -> str:
    try:
        schema = table.read_schema(SchemaCatalog())
    except TableUnreadable as error:
        return f"{table.table}: {error}"
    return f"{table.table}: {', '.join(column.name for column in schema.columns)}"


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_source, "_POLL_INTERVAL", 0.0)


def test_a_load_takes_a_tso_at_which_no_ddl_of_its_tables_is_unfinished(hurried: None) -> None:
    takes = [DROP_COLUMN.middle, DROP_COLUMN.middle, DROP_COLUMN.done, 0]
    assert load(DROP_COLUMN, None, takes=takes) == ["t: id, w"]
    assert takes == [0]
    before = [ADD_INDEX.middle, 0]
    assert load(ADD_INDEX, None, takes=before) == ["t: id, v, w"]
    assert before == [0]


def test_a_load_as_of_a_given_tso_fails_a_table_that_readers_see_half_changed(
    hurried: None,
) -> None:
    (found,) = load(DROP_COLUMN, DROP_COLUMN.middle, takes=[])
    (unfinished,) = find_unfinished(RecordedTidb(DROP_COLUMN, DROP_COLUMN.middle).query)
    assert found == (
        "t: at this TSO, TiDB is in the middle of a DDL of it, and readers see a part of that"
        " before its commit ts: load it when the DDL has ended, or as of before it"
        f" (--at {unfinished.start_ts}): alter table t drop column v"
    )
    assert load(DROP_COLUMN, unfinished.start_ts, takes=[]) == ["t: id, v, w"]
    # Both tables of a RENAME, by the names that readers see already.
    renamed = load(RENAME, RENAME.middle, takes=[])
    assert [line.partition(": at this TSO")[0] for line in renamed] == ["t", "u"]


def test_a_load_waits_for_a_ddl_no_longer_than_it_may(
    hurried: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_source, "_PATIENCE", 0.0)
    (found,) = load(DROP_COLUMN, None, takes=[DROP_COLUMN.middle])
    assert found.endswith("alter table t drop column v")


def test_without_the_right_to_read_the_jobs_a_note_names_it(hurried: None) -> None:
    note, table = load(DROP_COLUMN, None, takes=[DROP_COLUMN.middle], may_read_jobs=False)
    assert "GRANT SELECT ON mysql.tidb_ddl_job" in note
    assert "SELECT command denied" in note
    assert table == "t: id, w"


# Verifications


@pytest.mark.parametrize("may_read_jobs", [True, False])
def test_a_table_that_differs_in_the_middle_of_a_ddl_is_no_difference(
    tmp_path: Path, mariadb: MariaDb, may_read_jobs: bool
) -> None:
    copy = UpstreamCopy.make(None, tmp_path, mariadb)
    tables = {"t": (DROP_COLUMN, "drop column v"), "o": (RENAME, "rename table t to u, o to t")}
    for table, (recording, sql) in tables.items():
        schema = show(recording, table, recording.changes[0])
        assert schema is not None
        names = [column.name for column in schema.columns]
        copy.put_arrow(schema, pa.table({name: pa.array([], pa.int32()) for name in names}))
        tidb = RecordedTidb(recording, may_read_jobs=may_read_jobs)
        at_middle = partial(tidb.open_snapshot, recording.middle)
        (found,) = copy.verify(f"rec.{table}", open_upstream=lambda ts, at=at_middle: at())
        assert found.verdict == ("skipped" if may_read_jobs else "differs")
        assert ("in the middle of a DDL" in (found.reason or "")) == may_read_jobs
        assert (sql in (found.reason or "")) == may_read_jobs
