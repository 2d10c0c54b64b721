"""Turn the report of a run into materializations."""

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import dagster as dg

from ticdc_assets import naming
from ticdc_assets.assets import collected, data_versions, metadata
from ticdc_assets.assets.check_results import RunContext
from ticdc_assets.assets.specs import LAYER_UPSTREAM, lineage_metadata
from ticdc_assets.lake.history.marks import find_shown_version
from ticdc_assets.log.applied_row import AppliedRow
from ticdc_assets.log.catalog import LakeTable, TableChange
from ticdc_assets.naming import FeedNames
from ticdc_assets.run import AdvanceReport, RunReport, preview_changed_tables
from ticdc_assets.safe_text import escape_control
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.preview import Preview

DagsterEvents = Iterator[
    dg.MaterializeResult[Any] | dg.AssetMaterialization | dg.AssetCheckEvaluation
]
_Materializations = Iterator[dg.MaterializeResult[Any] | dg.AssetMaterialization]


@dataclass(frozen=True)
class GraphAssets:
    """The assets that have a definition, and those of them that a run was planned with."""

    names: FeedNames
    defined: Set[dg.AssetKey]
    selected: Set[dg.AssetKey] = frozenset()


class Materializer:
    """Materialize the assets that a run changed, whether or not they were selected."""

    def __init__(self, context: RunContext, report: RunReport, assets: GraphAssets) -> None:
        self._context = context
        self._report = report
        self._assets = assets
        self._names = assets.names
        self._schemas = data_versions.schema_versions(report.after)

    def materialize_layers(self, report: AdvanceReport) -> _Materializations:
        """Materialize the layers that changed, except `checkpoints`."""
        for layer, values in metadata.layer_metadata(report).items():
            yield self._layer_materialization(layer, values)

    def materialize_checkpoints(self, report: AdvanceReport) -> _Materializations:
        """Materialize `checkpoints` if there is a new snapshot: it ends the report.

        The next report starts at the Delta versions that this page names.
        """
        if report.after.snapshot_id > report.before.snapshot_id:
            values = metadata.checkpoint_metadata(report)
            yield self._layer_materialization(naming.CHECKPOINTS, values)

    def _layer_materialization(
        self, layer: str, values: metadata.Metadata
    ) -> dg.MaterializeResult[Any] | dg.AssetMaterialization:
        names, upstream = self._names, LAYER_UPSTREAM[layer]
        version = data_versions.layer_version(layer, self._report.after)
        its = data_versions.GROWS if upstream != naming.SOURCE else data_versions.NONE
        made_from = {names.layer(upstream): its}
        return self._materialization(names.layer(layer), values, version, made_from)

    def materialize_tables(self, lake: LakeSession, preview_rows: int) -> _Materializations:
        """Materialize the tables that changed, schema histories first."""
        changes = self._report.find_table_changes()
        if self._names.shown.per != "table":
            yield from self._materialize_collected(changes.values())
            return
        previews = preview_changed_tables(lake, changes, preview_rows)
        # One asset stands for all tables of its name: an existing one comes before a dropped one.
        ordered = sorted(changes.values(), key=lambda change: (change.dropped, change.table.name))
        seen: set[dg.AssetKey] = set()
        for change in ordered:
            key = self._key(naming.SCHEMA_HISTORY, change.table)
            if change.steps and key not in seen:
                yield self._schema_materialization(key, change)
            seen.add(key)
            self._observe_rename(change)
        for change in ordered:
            key = self._key(naming.CURRENT, change.table)
            if key in seen:
                continue
            seen.add(key)
            preview = previews.get(change.table.incarnation)
            yield self._current_materialization(key, change, preview)
        yield from self._materialize_versions()

    def _materialize_collected(self, changes: Collection[TableChange]) -> _Materializations:
        """Materialize the assets that stand for several tables, schema histories first."""
        after = self._report.after
        schemas = collected.group_tables(self._names, naming.SCHEMA_HISTORY, after)
        versions = {
            key: collected.schema_version(self._schemas, its) for key, its in schemas.items()
        }
        ordered = sorted(changes, key=lambda change: (change.dropped, change.table.name))
        for layer in (naming.SCHEMA_HISTORY, naming.CURRENT):
            for key, its in collected.group_changes(self._names, layer, ordered).items():
                first = its[0].table
                schema = self._key(naming.SCHEMA_HISTORY, first)
                if layer == naming.SCHEMA_HISTORY:
                    version = versions.get(key, data_versions.GROWS)
                    made_from = {self._names.layer(naming.EVENTS): data_versions.GROWS}
                else:
                    version = self._find_version(key, [change.content_from for change in its])
                    made_from = {schema: versions.get(schema, data_versions.NONE)}
                values = collected.make_metadata(self._report, its)
                yield self._materialization(key, values, version, made_from)
        yield from self._materialize_versions()

    def _schema_materialization(
        self, key: dg.AssetKey, change: TableChange
    ) -> dg.MaterializeResult[Any] | dg.AssetMaterialization:
        values = metadata.schema_history_metadata(change)
        made_from = {self._names.layer(naming.EVENTS): data_versions.GROWS}
        version = self._schemas[change.table.incarnation]
        return self._table_materialization(key, change, values, version, made_from)

    def _current_materialization(
        self, key: dg.AssetKey, change: TableChange, preview: Preview | None
    ) -> dg.MaterializeResult[Any] | dg.AssetMaterialization:
        values = metadata.current_metadata(self._report, change, preview)
        values |= lineage_metadata(self._names, change.table.schema)
        version = self._find_version(key, [change.content_from])
        schema = self._schemas.get(change.table.incarnation, data_versions.NONE)
        made_from = {self._key(naming.SCHEMA_HISTORY, change.table): schema}
        return self._table_materialization(key, change, values, version, made_from)

    def _find_version(self, key: dg.AssetKey, contents: Sequence[AppliedRow | None]) -> str:
        """Return the data version of tables' rows: the former one if they are as they were."""
        if changed := [row for row in contents if row is not None]:
            newest = max(changed, key=lambda row: row.snapshot_id)
            return data_versions.snapshot_version(newest)
        tags = self._read_tags([key]).get(key, {})
        former = data_versions.read_version(tags)
        return former or data_versions.snapshot_version(self._report.after.last)

    def _materialize_versions(self) -> _Materializations:
        """Materialize the histories and changes that show their tables as these are now."""
        kept = {
            layer: collected.group_tables(self._names, layer, self._report.after)
            for layer in naming.VERSIONS
        }
        currents = {
            key: self._key(naming.CURRENT, its[0])
            for groups in kept.values()
            for key, its in groups.items()
        }
        tags = self._read_tags({*currents, *currents.values()})
        for layer, groups in kept.items():
            for key, its in groups.items():
                current = currents[key]
                version = data_versions.read_version(tags.get(current, {}))
                before = data_versions.read_made_from(tags.get(key, {}), current)
                if version is None or version == before:
                    continue
                if all(self._is_shown(table, layer) for table in its):
                    values = self._versions_metadata(its, layer)
                    yield self._materialization(key, values, version, {current: version})

    def _versions_metadata(self, tables: Sequence[LakeTable], layer: str) -> metadata.Metadata:
        if self._names.shown.per == "table":
            return metadata.versions_metadata(self._report, tables[0], layer)
        return metadata.resolved_ts_metadata(self._report.after.ts) | {"ticdc/tables": len(tables)}

    def _is_shown(self, table: LakeTable, layer: str) -> bool:
        """Whether a history or changes show their table as it is at the newest snapshot."""
        reader = LakeReader(self._report.lake)
        shown = find_shown_version(reader, f"{layer}/{table.incarnation}")
        return shown is not None and shown == self._report.after.versions.get(table.incarnation)

    def _read_tags(self, keys: Collection[dg.AssetKey]) -> dict[dg.AssetKey, data_versions.Tags]:
        """Read the tags of the newest materialization of each asset that has one."""
        records = self._context.instance.get_asset_records(list(keys)) if keys else ()
        found = (record.asset_entry.last_materialization for record in records)
        events = [event.asset_materialization for event in found if event is not None]
        return {event.asset_key: event.tags or {} for event in events if event is not None}

    def _key(self, layer: str, table: LakeTable) -> dg.AssetKey:
        return self._names.table(layer, table.database, table.table)

    def _observe_rename(self, change: TableChange) -> None:
        """Note the new name on the page of the old one."""
        if change.before is None or not change.renamed:
            return
        key = self._key(naming.CURRENT, change.before)
        note = f"this table was renamed to {escape_control(change.table.name)}"
        self._context.log_event(dg.AssetObservation(asset_key=key, metadata={"ticdc/note": note}))

    def _table_materialization(
        self,
        key: dg.AssetKey,
        change: TableChange,
        values: metadata.Metadata,
        version: str,
        made_from: Mapping[dg.AssetKey, str],
    ) -> dg.MaterializeResult[Any] | dg.AssetMaterialization:
        if change.dropped or key not in self._assets.defined:
            note = metadata.note_on_definition(change)
            values["ticdc/note"] = dg.MetadataValue.md(note)
            self._context.log.info(f"{escape_control(change.table.name)}: {note}")
        return self._materialization(key, values, version, made_from)

    def _materialization(
        self,
        key: dg.AssetKey,
        values: metadata.Metadata,
        version: str,
        made_from: Mapping[dg.AssetKey, str],
    ) -> dg.MaterializeResult[Any] | dg.AssetMaterialization:
        tags = data_versions.make_tags(version, made_from, self._context.run.run_id)
        if key in self._assets.selected:
            return dg.MaterializeResult(
                asset_key=key, metadata=values, data_version=dg.DataVersion(version), tags=tags
            )
        # It changed without being selected, or has no definition yet.
        return dg.AssetMaterialization(asset_key=key, metadata=values, tags=tags)
