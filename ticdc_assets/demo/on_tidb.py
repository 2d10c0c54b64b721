"""The changes of a workload, made on TiDB."""

from collections.abc import Iterator, Sequence

from ticdc_assets.demo.change import (
    CREATE_DATABASE,
    Change,
    ChangedRow,
    CommittedTransaction,
    Ddl,
    RowTexts,
    Truth,
)
from ticdc_assets.demo.column_type import BINARY, identifier
from ticdc_assets.demo.recorder import Recorder
from ticdc_assets.events import Column, TableSchema

# By this table, which no changefeed has, a database shows that it is the demo's.
MARKER = "made_by_ticdc_assets"


class OnTidb:
    """A database of TiDB; what comes back has its ts, and the values that it stored."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def make(self, change: Change) -> Sequence[Change]:
        if isinstance(change, CommittedTransaction):
            made = self._recorder.transact(
                map(_write_statement, change.rows), dict(_write_clauses(change.rows))
            )
            return [] if made is None else [made]
        made_ddls: list[Ddl] = self._recorder.execute(change.sql)
        if change.kind == CREATE_DATABASE:
            marker = f"{identifier(change.database)}.{identifier(MARKER)}"
            self._recorder.execute_unrecorded(f"CREATE TABLE {marker} (id INT PRIMARY KEY)")
        return made_ddls

    def now(self) -> int:
        return self._recorder.now()

    def truth(self, ts: int | None = None) -> Truth:
        return self._recorder.truth(ts)


def _write_statement(change: ChangedRow) -> str:
    """Write the statement that makes a change of one row."""
    schema, old, new, _ = change
    name = f"{identifier(schema.database)}.{identifier(schema.table)}"
    if new is None:
        return f"DELETE FROM {name} WHERE {_write_match(schema, old or ())}"
    if old is None:
        values = ", ".join(map(_write_value, schema.columns, new))
        return f"INSERT INTO {name} ({_list_names(schema)}) VALUES ({values})"
    changed = ", ".join(
        f"{identifier(column.name)} = {_write_value(column, text)}"
        for column, before, text in zip(schema.columns, old, new, strict=True)
        if before != text
    )
    return f"UPDATE {name} SET {changed} WHERE {_write_match(schema, old)}"


def _write_clauses(changes: Sequence[ChangedRow]) -> Iterator[tuple[str, str]]:
    """Write, for each table, which rows changes are of."""
    keys: dict[str, tuple[TableSchema, list[RowTexts]]] = {}
    for change in changes:
        _, rows = keys.setdefault(change.table.table, (change.table, []))
        rows += (row for row in (change.old, change.new) if row is not None)
    for table, (schema, rows) in keys.items():
        matches = dict.fromkeys(f"({_write_match(schema, row)})" for row in rows)
        yield table, "WHERE " + " OR ".join(matches)


def _write_match(schema: TableSchema, row: RowTexts) -> str:
    return " AND ".join(
        f"{identifier(column.name)} = {_write_value(column, text)}"
        for column, text in zip(schema.columns, row, strict=True)
        if column.name in schema.key
    )


def _list_names(schema: TableSchema) -> str:
    return ", ".join(identifier(column.name) for column in schema.columns)


def _write_value(column: Column, text: str | None) -> str:
    if text is None:
        return "NULL"
    if column.type.name in BINARY:
        return f"x'{text}'"
    if column.type.name == "bit":
        return text
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
