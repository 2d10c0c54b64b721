"""Each promise is found broken where it is, and nowhere else."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.checks.made import (
    FOLDER,
    SIMPLE,
    Made,
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
    row_checksums_match,
    row_events_are_stored_once,
    row_schemas_are_known,
    updates_have_both_values,
)
from ticdc_assets.events import TableSchema
from ticdc_assets.events.written import write_json
from ticdc_assets.protocols.registry import get_traits
from ticdc_assets.schema.types.checksum import compute_checksum
from ticdc_assets.storage_sink.schema_file import read_schema_file

CONTENT = (
    b'{"Table":"a","Schema":"d","Version":1,"TableVersion":70,"Query":"CREATE TABLE a","Type":3,'
    b'"TableColumns":[{"ColumnName":"id","ColumnType":"INT","ColumnIsPk":"true"}],'
    b'"TableColumnsTotal":1}'
)
CRC = read_schema_file(CONTENT).checksum


def checksum(stated: TableSchema, id: int, off: int = 0) -> tuple[object, ...]:
    values = {"id": id, "v": "x"}
    return (1, False, compute_checksum(values, stated.columns) + off, 0)


def bootstrap(seq: int) -> dict[str, Any]:
    stated = write_json(schema())
    statement = f'{{"schema":{stated},"position":{{"type":"TopicPosition","topic":"t",'
    statement += '"partition":0,"offset":1}}'
    named = {"database": "d", "table": "a", "name": "`d`.`a`", "schema_version": 7}
    return event(seq, "bootstrap", batch=1, statement=statement, **named)


# What is as it should be: rows of every kind, some sent twice, some sent again.
EVENTS = [
    bootstrap(1),
    row(2, "insert", 90, batch=1),
    event(3, "batch", batch=1, partition=None),
    row(2, "insert", 90, number=10, index=1),
    row(11, "insert", 110),
    row(12, "update", 120),
    row(13, "delete", 130),
    row(14, "delete", 130, before='{"ID":"14"}'),
    row(15, "insert", 200, checksum=checksum(schema(), 15)),
    row(16, "insert", 300, after=None),
    ddl(17, 140, 0, "ALTER TABLE a"),
    ddl(18, 140, 1, "ALTER TABLE a"),
    # At just the resolved ts the other copy may come yet.
    ddl(19, 200, 0, "ALTER TABLE b"),
    event(20, "batch", partition=None),
]
APPLIED = [line(1, 100, 1), line(2, 200, 2, counts=[count("a", 5, 4, 1)])]
HISTORY = [version("a", 50), version("b", 60, 6), version("b", 150, 6), version("c", 60, None)]
RAW = [{"batch": 1, "seq": 3}, {"batch": 2, "seq": 20}]
RIGHT = {"events": EVENTS, "applied": APPLIED, "schema_history": HISTORY, "raw": RAW}


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


@pytest.fixture(scope="module")
def simple(spark: SparkSession) -> Iterator[CheckContext]:
    with Made(spark, SIMPLE, RIGHT) as scene:
        yield scene


@pytest.fixture(scope="module")
def folder(spark: SparkSession) -> Iterator[CheckContext]:
    with Made(spark, FOLDER, FILES) as scene:
        yield scene


def test_nothing_is_found_where_all_is_right(simple: CheckContext, folder: CheckContext) -> None:
    for scene in (simple, folder):
        for invariant in INVARIANTS:
            if invariant.holds_for(scene.feed):
                assert found(invariant, scene) == [], invariant.name


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
    row(43, "insert", 150, checksum=checksum(schema(), 43, off=1)),
    row(44, "insert", 150, checksum=(1, True, 5, 0)),
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
def broken(spark: SparkSession) -> Iterator[CheckContext]:
    history = [*HISTORY, version("b", 160, 5)]
    lines = [
        line(1, 100, 1, watermarks={"t-0": 190, "t-1": 100}),
        line(2, 90, 2, counts=[count("a", 5, 4, 2)], watermarks={"t-0": 180, "t-1": 200}),
    ]
    refused = {"batch": 2, "seq": 50, "stage": "decode", "error": "MalformedMessage"}
    doubted = {**refused, "error": "ChecksumMismatch", "seq": 51}
    old = {**refused, "batch": 1}
    tables = {**RIGHT, "events": [*EVENTS, *BROKEN_ROWS], "schema_history": history}
    tables |= {"applied": lines, "quarantine": [refused, doubted, old]}
    with Made(spark, SIMPLE, tables) as scene:
        yield scene


@pytest.fixture(scope="module")
def broken_folder(spark: SparkSession) -> Iterator[CheckContext]:
    with Made(spark, FOLDER, BROKEN_FOLDER, decoded=1) as scene:
        yield scene


@pytest.mark.parametrize(
    ("invariant", "column", "expected"),
    [
        (inserts_have_no_old_value, "place", ["t-0-30-0", "t-0-31-0"]),
        (deletes_have_no_new_value, "place", ["t-0-32-0", "t-0-33-0"]),
        (updates_have_both_values, "place", ["t-0-34-0", "t-0-35-0", "t-0-36-0"]),
        (handle_keys_are_present, "place", ["t-0-37-0", "t-0-38-0"]),
        (row_events_are_stored_once, "place", ["t-0-41-0"]),
        (row_schemas_are_known, "place", ["t-0-39-0", "t-0-40-0"]),
        (row_checksums_match, "place", ["t-0-43-0"]),
        (no_new_rows_below_resolved_ts, "place", ["t-0-42-0"]),
        (ddl_reaches_all_partitions, "not_in_partitions", ["0"]),
        (schema_versions_increase, "valid_from", ["160"]),
        (resolved_ts_is_monotonic, "partition", ["all", "t-0"]),
        (quarantine_is_empty, "error", ["MalformedMessage"]),
        (
            ledger_balances,
            "what",
            [
                "inputs that were refused and kept",
                "row events applied, superseded and quarantined, line 2",
                "row events read",
            ],
        ),
    ],
    ids=lambda given: getattr(given, "name", ""),
)
def test_what_breaks_a_promise_is_found(
    broken: CheckContext, invariant: Invariant, column: str, expected: list[str]
) -> None:
    assert of_column(invariant, broken, column) == expected


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
def test_what_breaks_a_promise_of_the_folder_is_found(
    broken_folder: CheckContext, invariant: Invariant, column: str, expected: list[str]
) -> None:
    assert of_column(invariant, broken_folder, column) == expected


def test_a_file_without_old_values_has_updates_without_them() -> None:
    csv = changefeed_from_uri("file:///data?protocol=csv")
    assert not get_traits(csv).has_old_values(csv)
    assert get_traits(SIMPLE).has_old_values(SIMPLE)


def test_nothing_is_asked_of_the_key_of_a_table_that_is_stopped(spark: SparkSession) -> None:
    paused = [table(status="paused", reason="?", stopped_ts=100, stopped_snapshot_id=1)]
    tables = {**RIGHT, "events": [row(37, "insert", 150, after='{"v":"x"}')]}
    with Made(spark, SIMPLE, tables, incarnations=paused) as scene:
        assert found(handle_keys_are_present, scene) == []


def test_a_row_that_says_nothing_of_its_schema_is_found_whatever_the_history_lacks(
    spark: SparkSession,
) -> None:
    # No version of the table has a number either.
    rows = [row(50, "insert", 150, name="c", schema_version=None)]
    with Made(spark, SIMPLE, {**RIGHT, "events": rows}) as scene:
        assert of_column(row_schemas_are_known, scene, "place") == ["t-0-50-0"]


def test_a_file_numbered_below_the_first_fills_no_gap(spark: SparkSession) -> None:
    files = [file(n, number) for n, number in enumerate((0, 1, 3), 1)]
    with Made(spark, FOLDER, {**FILES, "raw": files}) as scene:
        assert of_column(data_file_numbers_have_no_gaps, scene, "first_missing") == ["2"]


def found(invariant: Invariant, scene: CheckContext) -> list[Any]:
    return invariant.find(scene).collect()


def of_column(invariant: Invariant, scene: CheckContext, column: str) -> list[str]:
    return sorted(str(one[column]) for one in found(invariant, scene))
