"""What is in the quarantine counts as long as a table may lack it: until that table is gone,
loaded, or verified to equal upstream's.
"""

from pathlib import Path
from typing import cast

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.dumpling.exporter import TSO, Exporter, ExportOptions
from tests.lake.canal import FEED, ddl, placed, row, watermark
from tests.lake.test_load import GONE
from ticdc_assets.dumpling.dialect import Dialect
from ticdc_assets.lake.advance import RecordSource, advance, replay_tables
from ticdc_assets.lake.apply import quarantined_rows
from ticdc_assets.lake.quarantine import list_faults
from ticdc_assets.load.load import load_tables
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.log.verifications import Results, TableVerification, Verdict
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources.load_source import open_export
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.ledger import build_ledger


def create(table: str, ts: int) -> Message:
    return ddl("d", table, TSO + ts, "CREATE", f"CREATE TABLE `d`.`{table}` (`id` INT PRIMARY KEY)")


def list_names(lake: LakeSession) -> tuple[set[str], set[str]]:
    """List the closed faults and the open ones, as table and commit ts since `TSO`."""
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for fault in list_faults(LakeReader(lake.location)):
        assert fault.count == 1
        ts = fault.commit_ts and fault.commit_ts - TSO
        found[fault.is_open].add(f"{fault.table} {ts}")
    return found[False], found[True]


def send_bad_rows(*tables: str) -> list[Message]:
    """Create tables, and send each a row that it cannot have; the value tells reasons apart."""
    rows = [row("d", table, TSO + 2, id=f"{table} 2") for table in tables]
    return [*(create(table, 1) for table in tables), *rows]


def test_rows_count_until_their_table_is_dropped_truncated_or_loaded(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = ("Dropped", "truncated", "renamed", "kept", "gone", "again")
    sent = [
        *send_bad_rows(*tables),
        ddl("d", "dropped", TSO + 3, "ERASE", "DROP TABLE `d`.`dropped`"),
        ddl("d", "truncated", TSO + 3, "TRUNCATE", "TRUNCATE TABLE `d`.`truncated`"),
        row("d", "truncated", TSO + 4, id="truncated 4"),
        # Its name is another table's for a while.
        ddl("d", "other", TSO + 3, "RENAME", "RENAME TABLE `d`.`renamed` TO `d`.`other`"),
        create("renamed", 4),
        row("d", "renamed", TSO + 5, id="renamed 5"),
        ddl("d", "renamed", TSO + 6, "ERASE", "DROP TABLE `d`.`renamed`"),
        # Dropped, and brought back.
        ddl("d", "again", TSO + 3, "ERASE", "DROP TABLE `d`.`again`"),
        ddl("d", "again", TSO + 5, "RECOVER", "RECOVER TABLE `d`.`again`"),
        Message("t", 0, 0, None, b"{"),
        watermark(TSO + 9),
    ]
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), FEED)
    advance(lake, RecordSource(lambda _: placed(sent)))
    assert list_names(lake) == (
        {"Dropped 2", "truncated 2"},
        {"truncated 4", "renamed 2", "renamed 5", "kept 2", "gone 2", "again 2", "None None"},
    )

    def load(ts: int, *ids: str) -> set[str]:
        """Load a table; return what is open then."""
        folder = tmp_path / str(ts)
        Exporter(folder, ExportOptions("csv")).write({GONE: [(id,) for id in ids]}, tso=TSO + ts)
        load_tables(lake, open_export(str(folder), Dialect()))
        later = placed([*sent, watermark(TSO + ts + 5)])
        advance(lake, RecordSource(lambda _: later))
        return {name for name in list_names(lake)[1] if name.startswith("gone")}

    # A load has the row, but may have others that it cannot read.
    assert load(20, "1", "none") == {"gone 20"}
    assert build_ledger(LakeReader(lake.location), read_last_snapshot(lake)).adds_up
    DeltaTable(lake.path("quarantine")).delete("stage = 'load'")
    (fault,) = build_ledger(LakeReader(lake.location), read_last_snapshot(lake)).source.faults
    assert fault == "1 rows could not be loaded, and 0 are in the quarantine"
    assert load(30, "1", "2") == set()


def test_rows_count_until_their_table_is_verified(spark: SparkSession, tmp_path: Path) -> None:
    sent = [
        *send_bad_rows("equal", "different", "partly", "first"),
        ddl("d", "first", TSO + 3, "RENAME", "RENAME TABLE `d`.`first` TO `d`.`second`"),
        create("first", 4),
        *(row("d", table, TSO + 5, id=f"{table} 5") for table in ("equal", "first")),
        watermark(TSO + 9),
    ]
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), FEED)
    advance(lake, RecordSource(lambda _: placed(sent)))
    tables = {
        table.schema.table: table for table in read_last_snapshot(lake).state.incarnations.values()
    }
    results = Results(lake.location)
    results.prepare()

    def verify(table: str, ts: int, verdict: Verdict = "equal", *left_out: str) -> set[str]:
        """Write a verification; return what is closed then."""
        found = TableVerification(
            run=f"{table}-{ts}-{verdict}",
            incarnation=tables[table].id,
            database="d",
            table=table,
            resolved_ts=TSO + ts,
            verdict=verdict,
            left_out=left_out,
        )
        results.add(found)
        return list_names(lake)[0]

    assert verify("different", 9, "differs") == verify("partly", 9, "equal", "v") == set()
    assert verify("equal", 4) == {"equal 2"}
    # What differs since then was not missing then.
    assert verify("equal", 8, "differs") == {"equal 2"}
    assert verify("equal", 9) == {"equal 2", "equal 5"}
    # The row may be of either table.
    assert verify("first", 9) == {"equal 2", "equal 5"}
    assert verify("second", 9) == {"equal 2", "equal 5", "first 2", "first 5"}


@pytest.mark.parametrize("spark_writes", [False, True])
def test_a_replay_leaves_the_rows_of_other_tables_of_the_name(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spark_writes: bool,
) -> None:
    if spark_writes:
        monkeypatch.setattr(quarantined_rows, "can_hold", lambda *_: False)
    session = request.getfixturevalue("spark") if spark_writes else cast("SparkSession", None)
    lake = LakeSession(session, Lake(str(tmp_path), FEED.id), FEED)
    sent = [
        *send_bad_rows("t"),
        row("d", "t", TSO + 2, id="7"),
        ddl("d", "t", TSO + 3, "ERASE", "DROP TABLE `d`.`t`"),
        create("t", 4),
        row("d", "t", TSO + 5, id="t 5"),
        row("d", "t", TSO + 5, id="8"),
        watermark(TSO + 9),
    ]
    advance(lake, RecordSource(lambda _: placed(sent)))
    before = list_names(lake)
    assert before == ({"t 2"}, {"t 5"})
    last = read_last_snapshot(lake)
    [live] = (id for _, id in last.state.names)
    replay_tables(lake, last, ReplayRequest(frozenset({live}), 0), lambda *_: None)
    assert list_names(lake) == before
    assert build_ledger(LakeReader(lake.location), read_last_snapshot(lake)).adds_up
