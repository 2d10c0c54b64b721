"""Read the lake's own small tables with delta-rs, in milliseconds: for definitions and sensors.

Current tables use Delta features that only Spark supports.
"""

import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from resources.storage import describe_error
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import TableSchema
from ticdc_assets.events.written import read_json
from ticdc_assets.lake.log.applied_row import (
    APPLIED_COLUMNS,
    STATE_INTERVAL,
    AppliedRow,
    collect_versions,
    decode_applied_row,
)
from ticdc_assets.lake.log.catalog import LakeCatalog, LakeTable, SchemaVersionEntry
from ticdc_assets.lake.store.lake import Lake

_TABLE_COLUMNS = (
    *("incarnation", "database", "table", "status", "reason"),
    *("stopped_ts", "created_ts", "dropped_ts"),
)


def read_catalog(lake: Lake, pinned: Mapping[str, int] | None = None) -> LakeCatalog:
    """Read the catalog, now or at the Delta versions `pinned`; empty if there is no lake yet.

    An empty `pinned` means no lake.  If the pinned versions were vacuumed, read the newest ones.
    """
    if pinned is not None and not pinned:
        return LakeCatalog()
    try:
        tables, history, applied = (
            _open(lake, name, pinned) for name in ("tables", "schema_history", "applied")
        )
    except TableNotFoundError:
        return LakeCatalog()
    except (DeltaError, OSError) as error:
        if pinned is not None:
            return read_catalog(lake)
        raise _unreadable(lake, error) from None
    applied_rows = _read_rows(applied, _newest_id(applied) - STATE_INTERVAL)
    last = applied_rows[-1] if applied_rows else None
    rows = history.to_pyarrow_table(
        columns=["incarnation", "database", "table", "valid_from", "ddl_type", "sql", "schema"]
    ).to_pylist()
    schemas = _newest_schemas(rows)
    found = tables.to_pyarrow_table(columns=list(_TABLE_COLUMNS)).to_pylist()
    return LakeCatalog(
        {row["incarnation"]: _table(row, schemas.get(row["incarnation"])) for row in found},
        last,
        {} if last is None else collect_versions(applied_rows, last),
        [
            SchemaVersionEntry(
                *(row["incarnation"], row["database"], row["table"]),
                *(row["valid_from"], row["ddl_type"] or "", row["sql"] or ""),
            )
            for row in rows
            if row["incarnation"]
        ],
        {
            "tables": tables.version(),
            "schema_history": history.version(),
            "applied": applied.version(),
        },
    )


def read_rows_after(lake: Lake, snapshot_id: int) -> list[AppliedRow]:
    """Read the rows of `applied` behind a snapshot, in order."""
    try:
        return _read_rows(_open(lake, "applied", None), snapshot_id)
    except TableNotFoundError:
        return []
    except (DeltaError, OSError) as error:
        raise _unreadable(lake, error) from None


def read_last_row(lake: Lake) -> AppliedRow | None:
    """Read the newest row of `applied`; None if there is no lake yet, or it is empty."""
    try:
        applied = _open(lake, "applied", None)
        rows = _read_rows(applied, _newest_id(applied) - 1)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        raise _unreadable(lake, error) from None
    return rows[-1] if rows else None


def _newest_id(applied: DeltaTable) -> int:
    """Return the greatest snapshot id from the statistics in the log, without opening a file."""
    actions = pa.table(applied.get_add_actions(flatten=True))
    if not actions.num_rows:
        return 0
    return int(pc.max(actions["max.snapshot_id"]).as_py() or 0)


def table_files(path: str, version: int | None = None) -> tuple[int, int]:
    """Count the files of a Delta table at a version, and their bytes, from its log."""
    found = DeltaTable(_uri(path), version=version, storage_options=_options(path))
    sizes = pa.table(found.get_add_actions(flatten=True))["size_bytes"]
    return len(sizes), int(pc.sum(sizes).as_py() or 0)


def _open(lake: Lake, name: str, pinned: Mapping[str, int] | None) -> DeltaTable:
    path = lake.path(name)
    version = None if pinned is None else pinned.get(name)
    return DeltaTable(_uri(path), version=version, storage_options=_options(path))


def _uri(path: str) -> str:
    """Write a path or URI for delta-rs: it calls Hadoop's s3a s3."""
    return f"s3://{path.removeprefix('s3a://')}" if path.startswith("s3a://") else path


def _options(path: str) -> dict[str, str] | None:
    """Return the settings that delta-rs does not read from the environment itself."""
    if path.startswith(("s3://", "s3a://")) and os.environ.get("AWS_ENDPOINT_URL", "").startswith(
        "http://"
    ):
        return {"allow_http": "true"}
    return None


def _unreadable(lake: Lake, error: Exception) -> ConfigError:
    reason = f"cannot be read: {describe_error(error) or type(error).__name__}"
    return ConfigError(reason, file=lake.root, setting="TICDC_LAKE")


def _read_rows(applied: DeltaTable, after: int) -> list[AppliedRow]:
    """Read the rows of `applied` behind a snapshot, in order."""
    chosen = applied.to_pyarrow_dataset().to_table(
        columns=list(APPLIED_COLUMNS), filter=pc.field("snapshot_id") > after
    )
    rows = (decode_applied_row(row) for row in chosen.to_pylist())
    return sorted(rows, key=lambda row: row.snapshot_id)


def _newest_schemas(rows: list[dict[str, Any]]) -> dict[str, TableSchema]:
    last: dict[str, dict[str, Any]] = {}
    for row in rows:
        known = last.get(row["incarnation"])
        if row["incarnation"] and (known is None or row["valid_from"] >= known["valid_from"]):
            last[row["incarnation"]] = row
    return {id: read_json(row["schema"], TableSchema) for id, row in last.items() if row["schema"]}


def _table(row: dict[str, Any], schema: TableSchema | None) -> LakeTable:
    return LakeTable(
        *(row["incarnation"], row["database"], row["table"], row["status"], row["reason"]),
        *(row["stopped_ts"], row["created_ts"], row["dropped_ts"]),
        schema,
    )
