"""The metadata of materializations."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from ticdc_assets import naming
from ticdc_assets.assets.markdown import code, code_block, format_preview
from ticdc_assets.assets.specs import (
    STORAGE_KIND,
    columns_metadata,
    table_metadata,
)
from ticdc_assets.events.tso import to_datetime
from ticdc_assets.log.applied_row import RowCounts
from ticdc_assets.log.catalog import (
    LakeCatalog,
    LakeTable,
    SchemaVersionEntry,
    TableChange,
)
from ticdc_assets.resources.catalog import count_files
from ticdc_assets.rows.columns import INEXACT
from ticdc_assets.run import AdvanceReport, LastReport, RunReport
from ticdc_assets.safe_text import escape_markdown
from ticdc_assets.store.delta_log import count_rows
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.preview import Preview

Metadata = dict[str, Any]
# Which lake a run reported, and at which Delta versions: the next report starts there.  The name of
# the latter changes with the keys or data versions of assets, so that all are reported again.
LAKE_ID = "ticdc/lake_id"
DELTA_VERSIONS = "ticdc/reported_versions"
# Show at most this many DDLs or problems in full.
_MAX_LINES = 20


def resolved_ts_metadata(ts: int) -> Metadata:
    """Return a resolved ts, its time, and how many seconds it lies behind now."""
    if not ts:
        return {}
    # The UI cannot represent integers of this size exactly: a text.
    stated: Metadata = {"ticdc/resolved_ts": dg.MetadataValue.text(str(ts))}
    try:
        moment = to_datetime(ts)
    except OverflowError:
        return stated
    lag = max(time.time() - moment.timestamp(), 0.0)
    return {
        **stated,
        "ticdc/resolved_at": dg.MetadataValue.timestamp(moment),
        "ticdc/lag_seconds": round(lag, 1),
    }


def layer_metadata(report: AdvanceReport) -> dict[str, Metadata]:
    """Return the metadata of every layer that changed, upstream layers first.

    Watermarks alone change none.  The first report has all of them: an empty quarantine is there.
    """
    if report.is_idle:
        return {}
    result, is_first = report.result, not report.before.snapshot_id
    ingested, decoded, applied = result.ingested, result.decoded, result.applied
    layers: dict[str, Metadata] = {}
    if is_first or ingested.items:
        items = "files" if report.feed.transport == "storage" else "records"
        layers[naming.RAW] = {f"ticdc/{items}": ingested.items, "ticdc/bytes": ingested.bytes}
    if is_first or decoded.rows or decoded.ddls or decoded.quarantined:
        layers[naming.EVENTS] = {
            "ticdc/row_changes": decoded.rows,
            "ticdc/ddls_and_bootstraps": decoded.ddls,
            "ticdc/inputs_quarantined": decoded.quarantined,
            "ticdc/files_waiting": len(decoded.waiting),
        }
    if is_first or decoded.quarantined or applied.quarantined:
        faults = [p.describe() for p in applied.problems if p.kind == "quarantined"]
        layers[naming.QUARANTINE] = {
            "ticdc/inputs_quarantined": decoded.quarantined,
            "ticdc/rows_quarantined": applied.quarantined,
        }
        if faults:
            layers[naming.QUARANTINE]["ticdc/problems"] = _list(faults)
    at = resolved_ts_metadata(report.after.ts)
    return {layer: {**at, **metadata} for layer, metadata in layers.items()}


def checkpoint_metadata(report: AdvanceReport) -> Metadata:
    """Return the metadata of `checkpoints`: the whole lake at its newest snapshot."""
    before, after, result = report.before, report.after, report.result
    # A replay counts rows again that an earlier snapshot counted.
    forward = [snapshot for snapshot in report.snapshots if snapshot.replayed_from is None]
    counts = sum((count.rows for row in forward for count in row.counts), RowCounts())
    watermarks = {} if after.last is None else after.last.watermarks
    metadata = {**resolved_ts_metadata(after.ts), "ticdc/status": _summarize_statuses(after)}
    if result.applied.problems:
        metadata["ticdc/problems"] = _list([p.describe() for p in result.applied.problems])
    if report.waits:
        metadata["ticdc/waiting"] = _list(report.waits)
    return {
        **metadata,
        "ticdc/tables_changed": len(after.versions.items() - before.versions.items()),
        "ticdc/tables_replayed": result.applied.replayed,
        "ticdc/row_changes": counts.read,
        "ticdc/rows_quarantined": counts.quarantined,
        "ticdc/snapshot_id": after.snapshot_id,
        "ticdc/duration_seconds": round(report.seconds, 1),
        "ticdc/spark": report.session,
        "ticdc/watermarks": dg.MetadataValue.json(
            {place: str(ts) for place, ts in watermarks.items()}
        ),
        LAKE_ID: after.lake_id,
        DELTA_VERSIONS: dg.MetadataValue.json(dict(after.read_at)),
    }


def read_last_report(page: Mapping[str, dg.MetadataValue[Any]]) -> LastReport | None:
    """Read from the newest page of `checkpoints` what it reported."""
    lake_id, versions = page.get(LAKE_ID), page.get(DELTA_VERSIONS)
    if not isinstance(lake_id, dg.TextMetadataValue) or not isinstance(
        versions, dg.JsonMetadataValue
    ):
        return None
    if not lake_id.value or not isinstance(versions.value, Mapping):
        return None
    return LastReport(lake_id.value, versions.value)


def _list(texts: Sequence[str]) -> dg.MarkdownMetadataValue:
    lines = [f"- {escape_markdown(text)}" for text in texts[:_MAX_LINES]]
    return dg.MetadataValue.md("\n".join(lines))


def _summarize_statuses(catalog: LakeCatalog) -> str:
    """Return how many tables have which status, for instance `12 live, 1 paused`."""
    counts = Counter(table.status for table in catalog.named().values())
    statuses = ("live", "partial", "waiting", "paused")
    return ", ".join(f"{counts[s]:,} {s}" for s in statuses if counts[s]) or "no tables"


def current_metadata(report: RunReport, change: TableChange, preview: Preview | None) -> Metadata:
    """Return the metadata of a table's rows."""
    table = change.table
    is_stopped = table.status in ("paused", "waiting")
    # A stopped table is correct up to where it stopped, not up to the resolved ts.
    ts = table.stopped_ts if is_stopped and table.stopped_ts is not None else report.after.ts
    metadata: Metadata = {"ticdc/status": table.status}
    if table.reason:
        metadata["ticdc/reason"] = dg.MetadataValue.md(escape_markdown(table.reason))
    metadata |= resolved_ts_metadata(ts)
    if preview is not None:
        metadata["dagster/row_count"] = preview.count
        if preview.rows:
            metadata["ticdc/preview"] = dg.MetadataValue.md(format_preview(preview))
    metadata |= row_counts_metadata(change.counts)
    if change.steps:
        metadata["ticdc/ddls"] = len(change.steps)
        metadata["ticdc/ddl"] = dg.MetadataValue.md(format_ddls(change.steps))
    if change.version is not None:
        files, size = count_files(report.lake, table.incarnation, change.version)
        metadata |= {
            "ticdc/location": report.lake.current_path(table.incarnation),
            "ticdc/delta_version": change.version,
            "ticdc/files": files,
            "ticdc/table_bytes": size,
        }
    return metadata | {
        "ticdc/run_seconds": round(report.seconds, 1),
        **table_metadata(table.name, report.lake.address(table.database, table.table)),
        **columns_metadata(
            table.schema,
            report.feed,
            has_inexact=preview is not None and INEXACT in preview.columns,
        ),
    }


def schema_history_metadata(change: TableChange) -> Metadata:
    """Return the metadata of a table's schema history."""
    schema = change.table.schema
    return {
        "ticdc/ddls": len(change.steps),
        "ticdc/ddl": dg.MetadataValue.md(format_ddls(change.steps)),
        "ticdc/columns": 0 if schema is None else len(schema.columns),
        "ticdc/key": dg.MetadataValue.json([] if schema is None else list(schema.key)),
        "dagster/table_name": change.table.name,
        "dagster/storage_kind": STORAGE_KIND,
    }


def versions_metadata(report: RunReport, table: LakeTable, layer: str) -> Metadata:
    """Return the metadata of a table's history or changes."""
    name, reader = f"{layer}/{table.incarnation}", LakeReader(report.lake)
    stored = reader.open(name)
    columns = [dg.TableColumn(field.name, str(field.type.type)) for field in stored.schema().fields]
    return {
        **resolved_ts_metadata(report.after.ts),
        "dagster/row_count": count_rows(reader, name, stored.version()),
        "ticdc/delta_version": stored.version(),
        **table_metadata(table.name, report.lake.path(name)),
        "dagster/column_schema": dg.TableSchema(columns),
    }


def row_counts_metadata(counts: RowCounts) -> Metadata:
    """Return what became of a table's pending row events."""
    return {
        "ticdc/rows_read": counts.read,
        "ticdc/rows_applied": counts.applied,
        "ticdc/rows_superseded": counts.superseded,
        "ticdc/rows_quarantined": counts.quarantined,
        "ticdc/rows_inexact": counts.inexact,
    }


def note_on_definition(change: TableChange) -> str:
    """Explain in Markdown why a table has no definition, or an outdated one, and for how long."""
    reload = "the definitions are reloaded, as the sensor `reload_definitions` does by itself"
    if change.dropped:
        return f"dropped upstream; its rows are kept. It leaves the graph when {reload}."
    if change.renamed and change.before is not None:
        before = code(change.before.name)
        return f"renamed upstream from {before}. The graph shows its new name when {reload}."
    return f"new upstream and already in the lake. It is in the graph when {reload}."


def format_ddls(steps: Sequence[SchemaVersionEntry]) -> str:
    """Format the DDLs that were applied, in Markdown."""
    texts = [
        f"-- at commit ts {step.valid_from}\n{step.sql or '-- schema stated without a DDL'}"
        for step in steps[:_MAX_LINES]
    ]
    if len(steps) > _MAX_LINES:
        texts.append(f"-- and {len(steps) - _MAX_LINES} more: see the schema history")
    return code_block(texts)
