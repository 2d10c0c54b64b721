"""Conversion and backfill of rows, compared with the recorded tables before and after each DDL."""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest

from tests.golden import find_folder, open_lines, records
from ticdc_assets.events import Column, RowChange, SchemaChange
from ticdc_assets.events.row_image import load
from ticdc_assets.protocols.simple.json import SimpleJsonDecoder
from ticdc_assets.schema.conversion.convert import backfill, convert_value
from ticdc_assets.schema.types.mysql_type import parse_type
from ticdc_assets.schema.types.value_reader import read_value
from ticdc_assets.schema.types.value_writer import write_value

Row = dict[str, str | None]
Key = tuple[str | None, ...]


class Window(NamedTuple):
    """A keyed table at two recorded points, and the row messages between them."""

    before: dict[str, Any]
    after: dict[str, Any]
    changes: list[RowChange]

    @property
    def key_columns(self) -> list[str]:
        names: list[str] = self.before["primary_key"]
        return names

    def read_key(self, row: Row) -> Key:
        return tuple(row.get(name) for name in self.key_columns)

    def list_images(self) -> Iterator[tuple[int, Row]]:
        for change in self.changes:
            for image in (change.before, change.after):
                if image is not None:
                    yield change.commit_ts, load(image)


@cache
def read_events(workload: str) -> tuple[list[RowChange], list[SchemaChange]]:
    rows: list[RowChange] = []
    changes: list[SchemaChange] = []
    decoder = SimpleJsonDecoder(tz=ZoneInfo("UTC"))
    for message in records(f"{workload}/simple-json"):
        for event in decoder.decode(message):
            if isinstance(event, RowChange):
                rows.append(event)
            elif isinstance(event, SchemaChange):
                changes.append(event)
    return rows, changes


@cache
def list_windows(workload: str) -> list[Window]:
    """Return the windows in which a table's columns changed."""
    points = defaultdict(list)
    for line in open_lines(find_folder(workload) / "truth.jsonl"):
        points[line["table_id"]].append(line)
    windows = []
    for lines in points.values():
        for before, after in pairwise(sorted(lines, key=lambda line: int(line["at_ts"]))):
            if before["primary_key"] and before["columns"] != after["columns"]:
                # A row of a partitioned table has the partition's id; a renamed table keeps its id.
                names = {(line["schema"], line["table"]) for line in (before, after)}
                changes = [
                    change
                    for change in read_events(workload)[0]
                    if before["at_ts"] < change.commit_ts <= after["at_ts"]
                    and ((change.database, change.table) in names or _has_table_id(change, before))
                ]
                windows.append(Window(before, after, changes))
    return windows


def _has_table_id(change: RowChange, line: dict[str, Any]) -> bool:
    return change.table_id == int(line["table_id"])


def _read_rows(line: dict[str, Any]) -> list[Row]:
    names = [column["name"] for column in line["columns"]]
    return [dict(zip(names, row, strict=True)) for row in line["rows"]]


def _read_columns(line: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {column["name"]: column for column in line["columns"]}


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        ("lifecycle", {"int varchar", "decimal decimal", "varchar enum", "int bigint"}),
        ("random_1", {"mediumint varchar", "varchar text", "int bigint"}),
    ],
)
def test_untouched_rows_are_converted_as_tidb_converts_them(
    workload: str, expected: set[str]
) -> None:
    conversions = set()
    for window in list_windows(workload):
        touched = {window.read_key(row) for _, row in window.list_images()}
        rows_after = {window.read_key(row): row for row in _read_rows(window.after)}
        old, new = _read_columns(window.before), _read_columns(window.after)
        for name in old.keys() & new.keys():
            source, target = (parse_type(c[name]["mysql_type"]) for c in (old, new))
            for row in _read_rows(window.before):
                identity = window.read_key(row)
                if source != target and identity not in touched and identity in rows_after:
                    value = read_value(row[name], source, member_names=True)
                    text = write_value(convert_value(value, source, target), target)
                    assert text == rows_after[identity][name]
                    conversions.add(f"{source.name} {target.name}")
    assert expected <= conversions


@pytest.mark.parametrize(("workload", "least"), [("types", 10), ("lifecycle", 3), ("random_1", 5)])
def test_existing_rows_hold_the_default_of_an_added_column(workload: str, least: int) -> None:
    filled = set()
    for table_id, column, added_ts in _find_added_columns(workload):
        for window in list_windows(workload):
            if int(window.before["table_id"]) == table_id and (
                window.before["at_ts"] < added_ts <= window.after["at_ts"]
            ):
                value = write_value(backfill(column, added_ts), column.type)
                for text in _read_existing_rows(window, column, added_ts):
                    assert text == value
                    filled.add(column.name)
    assert len(filled) >= least


def _read_existing_rows(window: Window, column: Column, added_ts: int) -> Iterator[str | None]:
    """Yield a new column's values in existing rows, from later messages or the recorded table."""
    first: dict[Key, RowChange] = {}
    for change in window.changes:
        if change.commit_ts > added_ts:
            image = change.before or change.after
            assert image is not None
            first.setdefault(window.read_key(load(image)), change)
    rows_after = {window.read_key(row): row for row in _read_rows(window.after)}
    for identity in map(window.read_key, _read_rows(window.before)):
        if identity not in first:
            if identity in rows_after and column.name in rows_after[identity]:
                yield rows_after[identity][column.name]
        elif image := first[identity].before:
            # The first change of an existing row has the value that TiDB filled in.
            texts = load(image)
            if column.name in texts:  # neither renamed nor dropped since
                yield write_value(read_value(texts[column.name], column.type), column.type)


def _find_added_columns(workload: str) -> Iterator[tuple[int, Column, int]]:
    """Yield the columns that DDLs added, with table id and commit ts; a rename adds none."""
    known: dict[int, set[str]] = {}
    for change in sorted(read_events(workload)[1], key=lambda change: change.commit_ts):
        if change.schema is None or change.schema.table_id is None:
            continue
        table_id, columns = change.schema.table_id, change.schema.columns
        names = {column.name for column in columns}
        for column in columns:
            renamed = f" TO `{column.name}`" in change.sql or " CHANGE COLUMN " in change.sql
            if column.name not in known.get(table_id, names) and not renamed:
                yield table_id, column, change.commit_ts
        known[table_id] = names
