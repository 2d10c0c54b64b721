"""The assets that stand for several tables: all tables of a layer, or those of a database.

They keep the graph of a changefeed with thousands of tables small.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import dagster as dg

from ticdc_assets import naming
from ticdc_assets.assets import data_versions, metadata
from ticdc_assets.assets.specs import STORAGE_KIND, list_versions_layers
from ticdc_assets.log.applied_row import RowCounts
from ticdc_assets.log.catalog import LakeCatalog, LakeTable, TableChange
from ticdc_assets.naming import FeedNames
from ticdc_assets.run import RunReport
from ticdc_assets.safe_text import escape_control

# The page shows at most this many tables; those that need somebody come first.
_MAX_TABLES = 100
_FIRST = ("paused", "waiting", "partial", "live")


def group_tables(
    names: FeedNames, layer: str, catalog: LakeCatalog
) -> dict[dg.AssetKey, list[LakeTable]]:
    """Group the tables of a catalog by the asset that shows them in a layer."""
    groups: dict[dg.AssetKey, list[LakeTable]] = defaultdict(list)
    for table in catalog.named().values():
        of_versions = layer in naming.VERSIONS
        if not of_versions or layer in list_versions_layers(names, table.database, table.table):
            groups[names.table(layer, table.database, table.table)].append(table)
    return groups


def group_changes(
    names: FeedNames, layer: str, changes: Collection[TableChange]
) -> dict[dg.AssetKey, list[TableChange]]:
    """Group the changes of tables by the asset that shows them in a layer."""
    groups: dict[dg.AssetKey, list[TableChange]] = defaultdict(list)
    for change in changes:
        if change.steps or layer != naming.SCHEMA_HISTORY:
            groups[names.table(layer, change.table.database, change.table.table)].append(change)
    return groups


def schema_version(schemas: Mapping[str, str], tables: Collection[LakeTable]) -> str:
    """Return the data version of the schema histories of tables: the newest, of how many."""
    found = [
        schemas[table.incarnation].split("/") for table in tables if table.incarnation in schemas
    ]
    if not found:
        return data_versions.NONE
    return f"{max(int(newest) for newest, _ in found)}/{sum(int(count) for _, count in found)}"


def make_metadata(report: RunReport, changes: Sequence[TableChange]) -> metadata.Metadata:
    """Return the metadata of an asset that stands for the tables that a run changed."""
    counts = sum((change.counts for change in changes), RowCounts())
    ordered = sorted(changes, key=lambda change: _rank(change.table.status))
    records = [
        dg.TableRecord(
            {
                "table": escape_control(change.table.name),
                "status": "dropped" if change.dropped else change.table.status,
                "rows_applied": change.counts.applied,
                "ddls": len(change.steps),
            }
        )
        for change in ordered[:_MAX_TABLES]
    ]
    return {
        **metadata.resolved_ts_metadata(report.after.ts),
        "ticdc/tables_changed": len(changes),
        **metadata.row_counts_metadata(counts),
        "ticdc/ddls": sum(len(change.steps) for change in changes),
        "ticdc/tables": dg.MetadataValue.table(records),
        "ticdc/run_seconds": round(report.seconds, 1),
        "dagster/storage_kind": STORAGE_KIND,
    }


def _rank(status: str) -> int:
    return _FIRST.index(status) if status in _FIRST else len(_FIRST)
