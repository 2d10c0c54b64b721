"""Turn the report of a run into materializations."""

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg

from ticdc_assets import naming
from ticdc_assets.assets import metadata
from ticdc_assets.assets.specs import list_versions_layers
from ticdc_assets.lake.log.catalog import TableChange
from ticdc_assets.lake.views.preview import Preview
from ticdc_assets.naming import layer_asset_key, table_asset_key
from ticdc_assets.run import AdvanceReport, RunReport
from ticdc_assets.safe_text import escape_control

DagsterEvents = Iterator[
    dg.MaterializeResult[Any] | dg.AssetMaterialization | dg.AssetCheckEvaluation
]


class Materializer:
    """Materialize the assets that a run changed, whether or not they were selected."""

    def __init__(self, context: dg.AssetExecutionContext, report: RunReport) -> None:
        self._context = context
        self._report = report

    def materialize_layers(self, report: AdvanceReport) -> DagsterEvents:
        """Materialize the layers that changed, except `checkpoints`."""
        for layer, values in metadata.layer_metadata(report).items():
            yield self._layer_materialization(layer, values)

    def materialize_checkpoints(self, report: AdvanceReport) -> DagsterEvents:
        """Materialize `checkpoints` if there is a new snapshot: it ends the report.

        The next report starts at the Delta versions that this page names.
        """
        if report.after.snapshot_id > report.before.snapshot_id:
            values = metadata.checkpoint_metadata(report)
            yield self._layer_materialization(naming.CHECKPOINTS, values)

    def _layer_materialization(
        self, layer: str, values: metadata.Metadata
    ) -> dg.MaterializeResult[Any] | dg.AssetMaterialization:
        key = layer_asset_key(self._report.feed, layer)
        version = metadata.layer_version(layer, self._report.after.ts)
        return self._materialization(key, values, version)

    def materialize_tables(
        self, changes: Mapping[str, TableChange], previews: Mapping[str, Preview]
    ) -> DagsterEvents:
        """Materialize the tables that changed, schema histories first."""
        # One asset stands for all tables of its name: an existing one comes before a dropped one.
        ordered = sorted(changes.values(), key=lambda change: (change.dropped, change.table.name))
        seen: set[dg.AssetKey] = set()
        for change in ordered:
            key = self._table_key(naming.SCHEMA_HISTORY, change)
            if change.steps and key not in seen:
                version = metadata.schema_version(change)
                yield self._table_materialization(
                    key, change, metadata.schema_history_metadata(change), version
                )
            seen.add(key)
            self._observe_rename(change)
        for change in ordered:
            key = self._table_key(naming.CURRENT, change)
            if key in seen:
                continue
            seen.add(key)
            preview = previews.get(change.table.incarnation)
            values = metadata.current_metadata(self._report, change, preview)
            version = metadata.current_version(self._report.after.ts)
            yield self._table_materialization(key, change, values, version)
            table = change.table
            for layer in list_versions_layers(self._report.feed, table.database, table.table):
                stored = metadata.versions_metadata(self._report, change, layer)
                if stored is not None:
                    key = self._table_key(layer, change)
                    yield self._table_materialization(key, change, stored, version)

    def _table_key(self, layer: str, change: TableChange) -> dg.AssetKey:
        return table_asset_key(self._report.feed, layer, change.table.database, change.table.table)

    def _observe_rename(self, change: TableChange) -> None:
        """Note the new name on the page of the old one."""
        if change.before is None or not change.renamed:
            return
        old = change.before
        key = table_asset_key(self._report.feed, naming.CURRENT, old.database, old.table)
        note = f"this table was renamed to {escape_control(change.table.name)}"
        self._context.log_event(dg.AssetObservation(asset_key=key, metadata={"ticdc/note": note}))

    def _table_materialization(
        self,
        key: dg.AssetKey,
        change: TableChange,
        values: metadata.Metadata,
        version: dg.DataVersion,
    ) -> dg.MaterializeResult[Any] | dg.AssetMaterialization:
        if change.dropped or key not in self._context.assets_def.keys_by_output_name.values():
            note = metadata.note_on_definition(change)
            values["ticdc/note"] = dg.MetadataValue.md(note)
            self._context.log.info(f"{escape_control(change.table.name)}: {note}")
        return self._materialization(key, values, version)

    def _materialization(
        self, key: dg.AssetKey, values: metadata.Metadata, version: dg.DataVersion
    ) -> dg.MaterializeResult[Any] | dg.AssetMaterialization:
        if key in self._context.selected_asset_keys:
            return dg.MaterializeResult(asset_key=key, metadata=values, data_version=version)
        # It changed without being selected, or has no definition yet.
        return dg.AssetMaterialization(asset_key=key, metadata=values)
