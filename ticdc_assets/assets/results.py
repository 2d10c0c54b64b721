"""What a run tells of each asset that it changed."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from resources.catalog import table_files
from ticdc_assets import naming
from ticdc_assets.assets.specs import code_block, columns_metadata, escaped, lineage_metadata
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.events.tso import to_datetime
from ticdc_assets.lake.advance import AdvanceResult
from ticdc_assets.lake.log.catalog import (
    AppliedRow,
    LakeCatalog,
    RowCounts,
    SchemaVersionEntry,
    TableChange,
)
from ticdc_assets.lake.store.lake import Lake
from ticdc_assets.lake.views.preview import Preview

Metadata = dict[str, Any]
# What a run has read before it told of it: the Delta versions of the lake's own tables.
LAKE_VERSIONS = "ticdc/delta_versions"
# So many statements at most are shown in full.
_STATEMENTS = 20


def layer_version(layer: str, ts: int) -> dg.DataVersion:
    """The data version of a layer: the resolved ts, but of those that tables come from one for all.

    What they gain is another table's as a rule: a quiet table is not out of step for it.
    """
    return dg.DataVersion("grows" if layer in (naming.RAW, naming.EVENTS) else str(ts))


def history_version(change: TableChange) -> dg.DataVersion:
    """The data version of a table's schema: since when it is as it is."""
    return dg.DataVersion(str(max((step.valid_from for step in change.steps), default=0)))


def current_version(ts: int) -> dg.DataVersion:
    """The data version of a table: what it is at a resolved ts it is at it for good."""
    return dg.DataVersion(str(ts))


def at(ts: int) -> Metadata:
    """A resolved ts as a time, and how far it lies behind."""
    if not ts:
        return {}
    # Greater than what a page's numbers hold exactly, so a text.
    stated: Metadata = {"ticdc/resolved_ts": dg.MetadataValue.text(str(ts))}
    try:
        moment = to_datetime(ts)
    except OverflowError:
        return stated
    behind = max(time.time() - moment.timestamp(), 0.0)
    return {
        **stated,
        "ticdc/resolved_at": dg.MetadataValue.timestamp(moment),
        "ticdc/lag_seconds": round(behind, 1),
    }


def layer_results(
    feed: Changefeed,
    done: AdvanceResult,
    before: LakeCatalog,
    after: LakeCatalog,
    lines: Sequence[AppliedRow],
    seconds: float,
) -> dict[str, Metadata]:
    """What there is to tell of the layers, of those that have something new.

    `lines` are those of `applied` that were written between `before` and `after`.
    """
    took, read, made = done.ingested, done.decoded, done.applied
    found: dict[str, Metadata] = {}
    if took.items:
        items = "files" if feed.transport == "storage" else "records"
        found[naming.RAW] = {f"ticdc/{items}": took.items, "ticdc/bytes": took.bytes}
    if read.rows or read.ddls or read.rejected:
        found[naming.EVENTS] = {
            "ticdc/row_changes": read.rows,
            "ticdc/ddls_and_bootstraps": read.ddls,
            "ticdc/inputs_quarantined": read.rejected,
            "ticdc/files_waiting": len(read.waiting),
        }
    if read.rejected or made.quarantined:
        found[naming.QUARANTINE] = {
            "ticdc/inputs_quarantined": read.rejected,
            "ticdc/rows_quarantined": made.quarantined,
        }
    if after.seq > before.seq:
        came = [line for line in lines if line.replays is None]
        counts = sum((count for line in came for _, count in line.counts), RowCounts())
        found[naming.CHECKPOINTS] = {
            "ticdc/tables_changed": len(after.versions.items() - before.versions.items()),
            "ticdc/tables_replayed": made.replayed,
            "ticdc/row_changes": counts.read,
            "ticdc/rows_quarantined": counts.quarantined,
            "ticdc/snapshot_id": after.seq,
            "ticdc/duration_seconds": round(seconds, 1),
            "ticdc/watermarks": dg.MetadataValue.json(
                {place: str(ts) for place, ts in _watermarks(after).items()}
            ),
            LAKE_VERSIONS: dg.MetadataValue.json(dict(after.read_at)),
        }
        if made.problems:
            problems = "\n".join(f"- {escaped(p.describe())}" for p in made.problems[:_STATEMENTS])
            found[naming.CHECKPOINTS]["ticdc/problems"] = dg.MetadataValue.md(problems)
    return {layer: {**metadata, **at(after.ts)} for layer, metadata in found.items()}


def _watermarks(catalog: LakeCatalog) -> Mapping[str, int]:
    return {} if catalog.line is None else catalog.line.watermarks


def current_metadata(
    feed: Changefeed,
    lake: Lake,
    change: TableChange,
    preview: Preview | None,
    ts: int,
    seconds: float,
) -> Metadata:
    """What a run tells of a table's rows."""
    table = change.table
    # A table that is stopped was kept no further.
    kept = table.stopped_ts if table.state in ("paused", "waiting") else None
    told: Metadata = {
        **at(ts if kept is None else kept),
        **row_counts(change.counts),
        "ticdc/run_seconds": round(seconds, 1),
        "dagster/table_name": table.name,
        "dagster/uri": lake.current_path(table.incarnation),
        "ticdc/status": table.state,
        **columns_metadata(table.schema),
        **lineage_metadata(feed, table.schema),
    }
    if table.reason:
        told["ticdc/reason"] = dg.MetadataValue.md(escaped(table.reason))
    if change.version is not None:
        files, size = table_files(lake.current_path(table.incarnation), change.version)
        told |= {
            "ticdc/delta_version": change.version,
            "ticdc/files": files,
            "ticdc/table_bytes": size,
        }
    if change.steps:
        told["ticdc/ddls"] = len(change.steps)
        told["ticdc/ddl"] = dg.MetadataValue.md(statements(change.steps))
    if preview is not None:
        told["dagster/row_count"] = preview.count
        if preview.rows:
            told["ticdc/preview"] = dg.MetadataValue.md(markdown(preview))
    return told


def history_metadata(change: TableChange) -> Metadata:
    """What a run tells of a table's schema."""
    schema = change.table.schema
    return {
        "ticdc/ddls": len(change.steps),
        "ticdc/ddl": dg.MetadataValue.md(statements(change.steps)),
        "ticdc/columns": 0 if schema is None else len(schema.columns),
        "ticdc/key": dg.MetadataValue.json([] if schema is None else list(schema.key)),
        "dagster/table_name": change.table.name,
    }


def row_counts(counts: RowCounts) -> Metadata:
    """What became of the row events that were due."""
    return {
        "ticdc/rows_read": counts.read,
        "ticdc/rows_applied": counts.applied,
        "ticdc/rows_superseded": counts.superseded,
        "ticdc/rows_quarantined": counts.quarantined,
        "ticdc/rows_inexact": counts.inexact,
    }


def without_definition(change: TableChange) -> str:
    """Why a table's page has no definition yet, or none any more, and what to do."""
    how = "reload the code location (Deployment, then Reload), and the graph follows"
    if change.dropped:
        return f"dropped upstream; its rows are kept. To take it out of the graph: {how}."
    if change.before is not None:
        return f"renamed upstream from {change.before.name}. It is known by its new name: {how}."
    return f"new upstream. It is in the lake already; to have it in the graph: {how}."


def statements(steps: Sequence[SchemaVersionEntry]) -> str:
    """Statements as they were carried out, in Markdown."""
    texts = [
        f"-- at commit ts {step.valid_from}\n"
        f"{step.sql or '-- the schema was stated, without a statement'}"
        for step in steps[:_STATEMENTS]
    ]
    if len(steps) > _STATEMENTS:
        texts.append(f"-- and {len(steps) - _STATEMENTS} more: see the schema history")
    return code_block(texts)


def markdown(preview: Preview) -> str:
    """Rows as a table in Markdown; nothing in them is taken for markup."""
    head = [escaped(name) for name in preview.columns]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in preview.rows:
        cells = ("*NULL*" if value is None else escaped(value) or " " for value in row)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
