"""Read the lake's catalog, in milliseconds and without Spark: for definitions and sensors."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import ConfigError
from ticdc_assets.events import TableSchema
from ticdc_assets.events.written import read_json
from ticdc_assets.log.applied_files import find_newest_id, read_rows
from ticdc_assets.log.applied_row import STATE_INTERVAL, AppliedRow, collect_versions
from ticdc_assets.log.catalog import LakeCatalog, LakeTable, SchemaVersionEntry
from ticdc_assets.store.commits import decode_metadata
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeNotFound, LakeReader

# Between two ingests there are at most commits of maintenance.
_COMMITS_TO_SEARCH = 20
_TABLE_COLUMNS = (
    *("incarnation", "database", "table", "status", "reason"),
    *("stopped_ts", "created_ts", "dropped_ts"),
)
_HISTORY_COLUMNS = (
    *("incarnation", "database", "table", "valid_from", "ddl_type", "sql", "schema"),
)


def read_catalog(lake: Lake, pinned: Mapping[str, int] | None = None) -> LakeCatalog:
    """Read the catalog, now or at the Delta versions `pinned`; empty if there is no lake yet.

    An empty `pinned` means no lake.  If the pinned versions were vacuumed, read the newest ones.
    """
    if pinned is not None and not pinned:
        return LakeCatalog()
    reader = LakeReader(lake)
    try:
        tables, history, applied = (
            reader.open(name, None if pinned is None else pinned.get(name))
            for name in ("tables", "schema_history", "applied")
        )
    except LakeNotFound:
        return LakeCatalog()
    except ConfigError:
        if pinned is None:
            raise
        return read_catalog(lake)
    applied_rows = read_rows(reader, applied, find_newest_id(reader, applied) - STATE_INTERVAL)
    last = applied_rows[-1] if applied_rows else None
    rows = reader.read(history, _HISTORY_COLUMNS).to_pylist()
    schemas = _newest_schemas(rows)
    found = reader.read(tables, _TABLE_COLUMNS).to_pylist()
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
        str(applied.metadata().id),
    )


def read_rows_after(lake: Lake, snapshot_id: int) -> list[AppliedRow]:
    """Read the rows of `applied` behind a snapshot, in order."""
    reader = LakeReader(lake)
    try:
        return read_rows(reader, reader.open("applied"), snapshot_id)
    except LakeNotFound:
        return []


def read_last_row(lake: Lake) -> AppliedRow | None:
    """Read the newest row of `applied`; None if there is no lake yet, or it is empty."""
    reader = LakeReader(lake)
    try:
        applied = reader.open("applied")
    except LakeNotFound:
        return None
    rows = read_rows(reader, applied, find_newest_id(reader, applied) - 1)
    return rows[-1] if rows else None


def count_files(lake: Lake, incarnation: str, version: int) -> tuple[int, int]:
    """Count the files of a current table at a Delta version, and their bytes, from its log."""
    table = LakeReader(lake).open(f"current/{incarnation}", version)
    sizes = pa.table(table.get_add_actions(flatten=True))["size_bytes"]
    return len(sizes), int(pc.sum(sizes).as_py() or 0)


def read_ingested_offsets(lake: Lake) -> dict[str, int]:
    """Read up to which offset `raw` has each partition, by `topic-partition`; empty without one."""
    offsets = read_last_ingest(lake).get("offsets") or {}
    return {name: ranges[-1][1] + 1 for name, ranges in offsets.items() if ranges}


def read_last_ingest(lake: Lake) -> dict[str, Any]:
    """Read what the newest commit of records to `raw` says of itself; {} without one."""
    reader = LakeReader(lake)
    try:
        raw = reader.open("raw")
    except LakeNotFound:
        return {}
    with reader.explained(lake.path("raw")):
        commits = raw.history(_COMMITS_TO_SEARCH)
    found = (decode_metadata(commit.get("userMetadata")) for commit in commits)
    return next((each for each in found if each.get("offsets") is not None), {})


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
