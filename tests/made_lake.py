"""Lakes made without Spark: the small tables that definitions and sensors read."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import msgspec
import pyarrow as pa
from deltalake import write_deltalake

from ticdc_assets.events import Column, ColumnType, TableSchema
from ticdc_assets.events.table_schema import Index
from ticdc_assets.store.arrow import arrow_schema
from ticdc_assets.store.contracts import APPLIED, CONTRACTS
from ticdc_assets.store.lake import Lake


def schema(database: str, table: str, *columns: str) -> TableSchema:
    """A table with an integer key, and texts."""
    made = [Column("id", ColumnType("bigint", unsigned=True), nullable=False)]
    made += [Column(name, ColumnType("varchar", length=20), comment="a text") for name in columns]
    return TableSchema(database, table, tuple(made), (Index("PRIMARY", ("id",), True, True),))


# Parameters: the columns that tests state.
def write_snapshot(
    lake: Lake,
    snapshot_id: int,
    ts: int,
    versions: Mapping[str, int] = {},
    watermarks: Mapping[str, int] | None = None,
    state: str = "{}",
) -> None:
    """Append a row to `applied`; `state` is that of the first one."""
    row = {
        "snapshot_id": snapshot_id,
        "committed_at": datetime.now(UTC),
        "resolved_ts": ts,
        "batch": snapshot_id,
        "decoded_batch": snapshot_id,
        "watermarks": list((watermarks or {"metadata": ts}).items()),
        "versions": list(versions.items()),
        "counts": [],
        "replayed_from": None,
        "state_snapshot_id": 1,
        "watermark_state": "{}",
        "state": state if snapshot_id == 1 else None,
    }
    rows = pa.Table.from_pylist([row], schema=arrow_schema(APPLIED))
    write_deltalake(lake.path("applied"), rows, mode="append")


def write_tables(lake: Lake, schemas: Iterable[TableSchema], **statuses: str) -> None:
    """Write the catalog anew; `statuses` by table name."""
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
    for name, lines in (("tables", tables), ("schema_history", history)):
        rows = pa.Table.from_pylist(lines, schema=arrow_schema(CONTRACTS[name]))
        write_deltalake(lake.path(name), rows, mode="overwrite")
