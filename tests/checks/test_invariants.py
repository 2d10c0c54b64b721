"""Every invariant finds its violations, and nothing else."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.checks.in_memory import (
    FOLDER,
    SIMPLE,
    InMemoryContext,
    count,
    ddl,
    event,
    line,
    row,
    schema,
    table,
    version,
)
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.checks.invariants import INVARIANTS, CheckContext, Invariant
from ticdc_assets.checks.invariants.accounting import ledger_balances, quarantine_is_empty
from ticdc_assets.checks.invariants.folder import (
    data_file_numbers_have_no_gaps,
    data_files_are_immutable,
    data_files_are_readable,
    schema_file_checksums_match,
)
from ticdc_assets.checks.invariants.order import (
    commit_ts_is_monotonic_per_file,
    ddl_reaches_all_partitions,
    no_new_rows_below_resolved_ts,
    resolved_ts_is_monotonic,
    schema_versions_increase,
)
from ticdc_assets.checks.invariants.rows import (
    deletes_have_no_new_value,
    handle_keys_are_present,
    inserts_have_no_old_value,
    row_events_are_stored_once,
    row_schemas_are_known,
    rows_are_not_marked_corrupted,
    updates_have_both_values,
)
from ticdc_assets.events.written import write_json
from ticdc_assets.protocols.registry import get_traits
from ticdc_assets.storage_sink.schema_file import read_schema_file

CONTENT = (
    b'{"Table":"a","Schema":"d","Version":1,"TableVersion":70,"Query":"CREATE TABLE a","Type":3,'
    b'"TableColumns":[{"ColumnName":"id","ColumnType":"INT","ColumnIsPk":"true"}],'
    b'"TableColumnsTotal":1}'
)
CRC = read_schema_file(CONTENT).checksum


def bootstrap(seq: int) -> dict[str, Any]:
    stated = write_json(schema())
    statement = f'{{"schema":{stated},"position":{{"type":"TopicPosition","topic":"t",'
    statement += '"partition":0,"offset":1}}'
    named = {"database": "d", "table": "a", "name": "`d`.`a`", "schema_version": 7}
    return event(seq, "bootstrap", batch=1, statement=statement, **named)


CORRUPTED = {"version": 1, "corrupted": True, "current": 7, "previous": 0}
# Valid events: rows of every kind, some in two partitions, some repeated.
EVENTS = [
    bootstrap(1),
    row(2, "insert", 90, batch=1),
    event(3, "batch", batch=1, partition=None),
    row(2, "insert", 90, number=10, index=1),
    row(11, "insert", 110),
    row(12, "update", 120),
    # Its message held the key only.
    row(12, "update", 125, index=1, before='{"id":"12"}', statement="fetched"),
    row(13, "delete", 130),
    row(14, "delete", 130, before='{"ID":"14"}'),
    row(15, "insert", 200, checksum={**CORRUPTED, "corrupted": False}),
    row(16, "insert", 300, after=None),
    ddl(17, 140, 0, "ALTER TABLE a"),
    ddl(18, 140, 1, "ALTER TABLE a"),
    # At exactly the resolved ts the other copy may still arrive.
    ddl(19, 200, 0, "ALTER TABLE b"),
    event(20, "batch", partition=None),
]
APPLIED = [line(1, 100, 1), line(2, 200, 2, counts=[count("a", 6, 5, 1)])]
HISTORY = [version("a", 50), version("b", 60, 6), version("b", 150, 6), version("c", 60, None)]
RAW = [{"batch": 1, "seq": 3}, {"batch": 2, "seq": 20}]
VALID = {"events": EVENTS, "applied": APPLIED, "schema_history": HISTORY, "raw": RAW}


def file(seq: int, number: int, role: str = "data", **more: Any) -> dict[str, Any]:
    named = {"database": "d", "table": "a", "version": 70, "number": number, "size": 9}
    path = f"d/a/70/CDC{number:020}.json"
    return {"batch": 2, "seq": seq, "role": role, "path": path, **named, **more}


def schema_file(seq: int, checksum: int = CRC, version: int = 70) -> dict[str, Any]:
    named = {"path": f"d/a/meta/schema_{version}_{checksum:010}.json", "content": CONTENT}
    return {"batch": 2, "seq": seq, "role": "schema", **named, "version": version, "size": 9} | {
        "checksum": checksum
    }


def in_file(seq: int, number: int, ts: int, path: str | None = None) -> dict[str, Any]:
    place = {"source": path or file(seq, 1)["path"], "partition": None, "number": number}
    return row(seq, "insert", ts, index=number, observed="{}", schema_version=70, **place)


FILES = {
    "raw": [file(1, 1, batch=1), schema_file(2), file(3, 2), {"batch": 2, "seq": 9, "size": 1}],
    "events": [
        *(in_file(3, n, ts, file(3, 2)["path"]) for n, ts in ((1, 110), (2, 110), (3, 150))),
        event(3, "file", source=file(3, 2)["path"], partition=None),
        event(9, "batch", partition=None),
    ],
    "applied": [
        line(1, 100, 1, watermarks={"metadata": 100}),
        line(2, 200, 2, watermarks={"metadata": 200}, counts=[count("a", 3, 3, 0)]),
    ],
    "schema_history": [version("a", 50, 70)],
}


@pytest.fixture(scope="module", params=[True, False], ids=["few", "many"])
def few(request: pytest.FixtureRequest) -> bool:
    """Whether the driver holds the rows, or Spark."""
    return bool(request.param)


@pytest.fixture(scope="module")
def simple(spark: SparkSession, few: bool) -> Iterator[CheckContext]:
    with InMemoryContext(spark, SIMPLE, VALID, few=few) as context:
        yield context


@pytest.fixture(scope="module")
def folder(spark: SparkSession, few: bool) -> Iterator[CheckContext]:
    with InMemoryContext(spark, FOLDER, FILES, few=few) as context:
        yield context


def test_valid_events_violate_nothing(simple: CheckContext, folder: CheckContext) -> None:
    for context in (simple, folder):
        for invariant in INVARIANTS:
            if invariant.applies_to(context.feed):
                assert find(invariant, context) == [], invariant.name


BROKEN_ROWS = [
    row(30, "insert", 150, before='{"id":"30"}'),
    row(31, "insert", 150, after=None),
    row(32, "delete", 150, after='{"id":"32"}'),
    row(33, "delete", 150, before=None),
    row(34, "update", 150, before=None),
    row(35, "update", 150, before='{"id":"35"}'),
    row(36, "update", 150, after=None),
    row(37, "insert", 150, after='{"id":null,"v":"x"}'),
    row(38, "update", 150, before='{"v":"w"}', after='{"v":"x"}'),
    row(39, "insert", 150, schema_version=9),
    row(40, "insert", 150, schema_version=None),
    row(41, "insert", 150),
    row(41, "insert", 150),
    row(42, "insert", 100),
    row(43, "insert", 150, checksum=CORRUPTED),
    ddl(45, 145, 1, "DROP TABLE x"),
]
BROKEN_FOLDER = {
    **FILES,
    "raw": [
        *FILES["raw"],
        file(4, 4),
        file(5, 2, "changed data"),
        file(6, 5),
        schema_file(7, checksum=CRC + 1),
        schema_file(8, version=71),
    ],
    "events": [
        *FILES["events"],
        *(event(n, "file", source=file(n, k)["path"], partition=None) for n, k in ((4, 4), (5, 2))),
        in_file(4, 1, 120, file(4, 4)["path"]),
        in_file(4, 2, 119, file(4, 4)["path"]),
    ],
}


@pytest.fixture(scope="module")
def broken(spark: SparkSession, few: bool) -> Iterator[CheckContext]:
    history = [*HISTORY, version("b", 160, 5)]
    lines = [
        line(1, 100, 1, watermarks={"t-0": 190, "t-1": 100}),
        line(2, 90, 2, counts=[count("a", 5, 4, 2)], watermarks={"t-0": 180, "t-1": 200}),
    ]
    quarantined = {"batch": 2, "seq": 50, "stage": "decode", "error": "MalformedMessage"}
    checksum_mismatch = {**quarantined, "error": "ChecksumMismatch", "seq": 51}
    old = {**quarantined, "batch": 1}
    tables = {**VALID, "events": [*EVENTS, *BROKEN_ROWS], "schema_history": history}
    tables |= {"applied": lines, "quarantine": [quarantined, checksum_mismatch, old]}
    with InMemoryContext(spark, SIMPLE, tables, few=few) as context:
        yield context


@pytest.fixture(scope="module")
def broken_folder(spark: SparkSession, few: bool) -> Iterator[CheckContext]:
    with InMemoryContext(spark, FOLDER, BROKEN_FOLDER, decoded=1, few=few) as context:
        yield context


@pytest.mark.parametrize(
    ("invariant", "column", "expected"),
    [
        (inserts_have_no_old_value, "position", ["t-0-30-0", "t-0-31-0"]),
        (deletes_have_no_new_value, "position", ["t-0-32-0", "t-0-33-0"]),
        (updates_have_both_values, "position", ["t-0-34-0", "t-0-35-0", "t-0-36-0"]),
        (handle_keys_are_present, "position", ["t-0-37-0", "t-0-38-0"]),
        (rows_are_not_marked_corrupted, "position", ["t-0-43-0"]),
        (row_events_are_stored_once, "position", ["t-0-41-0"]),
        (row_schemas_are_known, "position", ["t-0-39-0", "t-0-40-0"]),
        (no_new_rows_below_resolved_ts, "position", ["t-0-42-0"]),
        (ddl_reaches_all_partitions, "missing_in_partitions", ["0"]),
        (schema_versions_increase, "valid_from", ["160"]),
        (resolved_ts_is_monotonic, "partition", ["all", "t-0"]),
        (quarantine_is_empty, "error", ["MalformedMessage"]),
        (
            ledger_balances,
            "what",
            [
                "quarantined inputs",
                "row events applied, superseded and quarantined, snapshot 2",
                "row events read",
            ],
        ),
    ],
    ids=lambda given: getattr(given, "name", ""),
)
def test_an_invariant_finds_its_violations(
    broken: CheckContext, invariant: Invariant, column: str, expected: list[str]
) -> None:
    assert find_column(invariant, broken, column) == expected


@pytest.mark.parametrize(
    ("invariant", "column", "expected"),
    [
        (data_file_numbers_have_no_gaps, "first_missing", ["3"]),
        (data_files_are_immutable, "path", ["d/a/70/CDC00000000000000000002.json"]),
        (data_files_are_readable, "path", ["d/a/70/CDC00000000000000000005.json"]),
        (schema_file_checksums_match, "version", ["70", "71"]),
        (commit_ts_is_monotonic_per_file, "commit_ts", ["119"]),
    ],
    ids=lambda given: getattr(given, "name", ""),
)
def test_an_invariant_of_the_folder_finds_its_violations(
    broken_folder: CheckContext, invariant: Invariant, column: str, expected: list[str]
) -> None:
    assert find_column(invariant, broken_folder, column) == expected


def test_updates_in_csv_have_no_old_value_by_default() -> None:
    csv = changefeed_from_uri("file:///data?protocol=csv")
    assert not get_traits(csv).has_old_values(csv)
    assert get_traits(SIMPLE).has_old_values(SIMPLE)


def test_handle_keys_of_a_paused_table_are_not_checked(spark: SparkSession) -> None:
    paused = [table(status="paused", reason="?", stopped_ts=100, stopped_snapshot_id=1)]
    tables = {**VALID, "events": [row(37, "insert", 150, after='{"v":"x"}')]}
    with InMemoryContext(spark, SIMPLE, tables, incarnations=paused) as context:
        assert find(handle_keys_are_present, context) == []


def test_a_row_without_a_schema_version_or_observed_types_is_reported(
    spark: SparkSession,
) -> None:
    # The table has no numbered schema version either.
    rows = [row(50, "insert", 150, name="c", schema_version=None)]
    with InMemoryContext(spark, SIMPLE, {**VALID, "events": rows}) as context:
        assert find_column(row_schemas_are_known, context, "position") == ["t-0-50-0"]


def test_a_file_numbered_0_fills_no_gap(spark: SparkSession) -> None:
    files = [file(n, number) for n, number in enumerate((0, 1, 3), 1)]
    with InMemoryContext(spark, FOLDER, {**FILES, "raw": files}) as context:
        assert find_column(data_file_numbers_have_no_gaps, context, "first_missing") == ["2"]


def find(invariant: Invariant, context: CheckContext) -> list[Any]:
    return invariant.find(context).collect()


def find_column(invariant: Invariant, context: CheckContext, column: str) -> list[str]:
    return sorted(str(row_[column]) for row_ in find(invariant, context))
