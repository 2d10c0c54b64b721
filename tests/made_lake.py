"""Lakes made without Spark: their own small tables, just as far as definitions and sensors look."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import msgspec
import pyarrow as pa
from deltalake import write_deltalake

from ticdc_assets.events import Column, ColumnType, TableSchema
from ticdc_assets.events.table_schema import Index
from ticdc_assets.lake.store.lake import Lake

_COUNT = pa.struct(
    [("incarnation", pa.string()), ("name", pa.string())]
    + [(name, pa.int64()) for name in ("read", "applied", "superseded", "quarantined", "inexact")]
)
_NUMBERS = pa.map_(pa.string(), pa.int64())
_APPLIED = pa.schema(
    [
        *[
            ("snapshot_id", pa.int64()),
            ("committed_at", pa.timestamp("us", "UTC")),
            ("resolved_ts", pa.int64()),
        ],
        *[
            ("batch", pa.int64()),
            ("decoded_batch", pa.int64()),
            ("watermarks", _NUMBERS),
            ("versions", _NUMBERS),
        ],
        *[
            ("counts", pa.list_(_COUNT)),
            ("replayed_from", pa.int64()),
            ("state_snapshot_id", pa.int64()),
        ],
    ]
)
_TABLES = pa.schema(
    [(name, pa.string()) for name in ("incarnation", "database", "table", "status", "reason")]
    + [(name, pa.int64()) for name in ("stopped_ts", "created_ts", "dropped_ts")]
)
_HISTORY = pa.schema(
    [(name, pa.string()) for name in ("incarnation", "database", "table")]
    + [("valid_from", pa.int64())]
    + [(name, pa.string()) for name in ("ddl_type", "sql", "schema")]
)


def schema(database: str, table: str, *columns: str) -> TableSchema:
    """A table with an integer key, and texts."""
    made = [Column("id", ColumnType("bigint", unsigned=True), nullable=False)]
    made += [Column(name, ColumnType("varchar", length=20), comment="a text") for name in columns]
    return TableSchema(database, table, tuple(made), (Index("PRIMARY", ("id",), True, True),))


def write_snapshot(lake: Lake, snapshot_id: int, ts: int, versions: Mapping[str, int] = {}) -> None:
    """Append a row to `applied`."""
    line = {
        "snapshot_id": snapshot_id,
        "committed_at": datetime.now(UTC),
        "resolved_ts": ts,
        "batch": snapshot_id,
        "decoded_batch": snapshot_id,
        "watermarks": [("metadata", ts)],
        "versions": list(versions.items()),
        "counts": [],
        "replayed_from": None,
        "state_snapshot_id": 1,
    }
    rows = pa.Table.from_pylist([line], schema=_APPLIED)
    write_deltalake(lake.path("applied"), rows, mode="append")


def write_tables(lake: Lake, schemas: Iterable[TableSchema], **statuses: str) -> None:
    """Write what tables there are, in place of those that were; by name how one is."""
    schemas = list(schemas)
    tables, history = [], []
    for number, one in enumerate(schemas):
        incarnation = f"t{number}"
        status = statuses.get(one.table, "live")
        tables.append(
            {
                "incarnation": incarnation,
                "database": one.database,
                "table": one.table,
                "status": status,
                "reason": "a *statement*" if status == "paused" else None,
                "created_ts": 1,
            }
        )
        history.append(
            {
                "incarnation": incarnation,
                "database": one.database,
                "table": one.table,
                "valid_from": 1,
                "ddl_type": "3",
                "sql": "CREATE TABLE t",
                "schema": msgspec.json.encode(one).decode(),
            }
        )
    for name, lines, columns in (
        ("tables", tables, _TABLES),
        ("schema_history", history, _HISTORY),
    ):
        rows = pa.Table.from_pylist(lines, schema=columns)
        write_deltalake(lake.path(name), rows, mode="overwrite")
