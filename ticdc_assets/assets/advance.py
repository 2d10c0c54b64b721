"""The assets of a changefeed: one op that brings all of them up to date, or some tables anew."""

import os
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import dagster as dg

from resources.catalog import read_catalog, read_lines
from resources.deployment import LakeResource, SparkResource
from resources.reading import open_source
from ticdc_assets import naming
from ticdc_assets.assets import results, specs
from ticdc_assets.assets.check_results import evaluate_run_checks
from ticdc_assets.assets.run_budget import RunBudget
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.checks import SnapshotRange, check_specs
from ticdc_assets.errors import ConfigError
from ticdc_assets.events.table_schema import folded
from ticdc_assets.lake.advance import AdvanceResult, Source, advance, replay_tables, sum_results
from ticdc_assets.lake.apply.apply import ReplayRequest
from ticdc_assets.lake.events.event_rows import table_name
from ticdc_assets.lake.log.catalog import LakeCatalog, TableChange, table_changes
from ticdc_assets.lake.store.codegen import WORTHWHILE, set_codegen
from ticdc_assets.lake.store.lake import Lake, LakeSession
from ticdc_assets.lake.store.lock import locked
from ticdc_assets.lake.views.overview import read_existing_snapshot
from ticdc_assets.lake.views.preview import Preview, preview_tables
from ticdc_assets.naming import identifier, layer_asset_key, output_name, table_asset_key

# Which changefeed a run is about: sensors, the run queue and alerts go by it.
FEED_TAG = "ticdc/changefeed"
PREVIEW = "TICDC_PREVIEW_ROWS"
# So many tables at most are looked into in one run, those with the most changes.
_LOOKED_INTO = 20

Results = Iterator[dg.MaterializeResult[Any] | dg.AssetMaterialization | dg.AssetCheckEvaluation]


def feed_assets(feed: Changefeed, lake: Lake, catalog: LakeCatalog) -> dg.AssetsDefinition:
    """Everything that one run makes of a changefeed, as its lake's catalog knows it."""
    all_specs = [*specs.layer_specs(feed, lake), *specs.table_specs(feed, lake, catalog)]
    checks = check_specs(feed, _table_keys(feed, catalog))
    # Named by ourselves: by default two keys may get one name, and names of any script none.
    outputs = {output_name(spec.key): spec for spec in all_specs}
    check_outputs = {output_name(check.asset_key, check.name): check for check in checks}

    @dg.op(
        name=f"advance_{identifier(feed.id)}",
        description=f"Bring the lake of changefeed {feed.id} to the newest checkpoint.",
        out={name: dg.Out(dg.Nothing, is_required=False) for name in (*outputs, *check_outputs)},
        ins={"source": dg.In(dg.Nothing)},
        pool=f"ticdc_{identifier(feed.id)}",
        tags={FEED_TAG: feed.id},
    )
    def _op(context: dg.AssetExecutionContext, spark: SparkResource, lake: LakeResource) -> Results:
        yield from _Run(context, spark, lake.for_changefeed(feed.id), feed).run()

    return dg.AssetsDefinition(
        keys_by_input_name={"source": layer_asset_key(feed, naming.SOURCE)},
        keys_by_output_name={name: spec.key for name, spec in outputs.items()},
        node_def=_op,
        specs=all_specs,
        check_specs_by_output_name=check_outputs,
        can_subset=True,
    )


def advance_job(feed: Changefeed, assets: dg.AssetsDefinition) -> Any:
    """The job that a sensor asks for: all of a changefeed's assets.

    It is planned without checks, which its runs evaluate all the same: see `checking`.  What
    Dagster makes of the job has no public type.
    """
    return dg.define_asset_job(
        f"advance_{identifier(feed.id)}_job",
        selection=dg.AssetSelection.assets(*assets.keys).without_checks(),
        description=f"Bring the lake of changefeed {feed.id} to the newest checkpoint.",
        tags={FEED_TAG: feed.id},
    )


def _table_keys(feed: Changefeed, catalog: LakeCatalog) -> dict[str, dg.AssetKey]:
    return {
        table_name(*names) or "": table_asset_key(feed, naming.CURRENT, *names)
        for names in catalog.named()
    }


class _Run:
    """One run over a changefeed."""

    def __init__(
        self, context: dg.AssetExecutionContext, spark: SparkResource, lake: Lake, feed: Changefeed
    ) -> None:
        self._context = context
        self._resource = spark
        self._lake = lake
        self._feed = feed
        self._selected = set(context.selected_asset_keys)
        self._planned = set(context.selected_asset_check_keys)
        self._rows = int(os.environ.get(PREVIEW) or 5)

    def run(self) -> Results:
        """Do what was asked for, and tell of it."""
        layers = any(naming.table_of(key) is None for key in self._selected)
        with locked(self._lake):
            before = read_catalog(self._lake)
            if layers:
                yield from self._advance(before)
            elif self._selected:
                yield from self._rebuild(before)
            else:
                # Checks alone: all there is, not only what a run has changed.
                yield from self._check(SnapshotRange(0, before.seq), before, self._planned)

    def _open(self) -> LakeSession:
        return self._resource.open_lake(self._lake, self._feed)

    def _advance(self, before: LakeCatalog) -> Results:
        begun = time.monotonic()
        # Before this run tells anything itself.
        told = self._told(before)
        source = open_source(self._feed)
        stay = RunBudget(self._feed, self._lake, self._context.instance)
        spark = self._open().spark
        self._context.log.info(f"Spark is up after {time.monotonic() - begun:.1f} s")
        windows, after, failed = self._windows(source, stay, before)
        done = sum_results(windows)
        seconds = time.monotonic() - begun
        lines = read_lines(self._lake, told.seq)
        layers = results.layer_results(self._feed, done, told, after, lines, seconds)
        for layer in naming.LAYERS:
            if layer in layers:
                version = results.layer_version(layer, after.ts)
                yield from self._result(layer_asset_key(self._feed, layer), layers[layer], version)
        with set_codegen(spark, max(done.decoded.rows, done.applied.rows) > WORTHWHILE):
            yield from self._tables(table_changes(told, after, lines), after.ts, seconds)
            # Of a lake that no run has told of all is told, and what is new is checked.
            yield from self._check(SnapshotRange(told.seq or before.seq, after.seq), after)
        if failed is not None:
            raise failed

    def _windows(
        self, source: Source, stay: RunBudget, before: LakeCatalog
    ) -> tuple[list[AdvanceResult], LakeCatalog, Exception | None]:
        """Go from checkpoint to checkpoint; what was done, to which end, and what failed then."""
        lake = self._open()
        windows: list[AdvanceResult] = []
        after, over = before, None
        while over is None:
            at = time.monotonic()
            progress = _Progress(self._context)
            try:
                windows.append(advance(lake, source, progress=progress))
                self._said(windows[-1], time.monotonic() - at)
                after = read_catalog(self._lake)
                over = stay.is_over(before, after)
            except Exception as error:
                if not windows:
                    raise
                # What was done before is told of all the same.
                self._context.log.info("the run ends: it has failed")
                return windows, after, error
        self._context.log.info(f"the run ends: {over}")
        return windows, after, None

    def _told(self, now: LakeCatalog) -> LakeCatalog:
        """The lake as it was last told of: a run that was killed, or a command, tells nothing."""
        key = layer_asset_key(self._feed, naming.CHECKPOINTS)
        event = self._context.instance.get_latest_materialization_event(key)
        if event is None or event.asset_materialization is None:
            return LakeCatalog()
        versions = event.asset_materialization.metadata.get(results.LAKE_VERSIONS)
        pinned = versions.value if isinstance(versions, dg.JsonMetadataValue) else None
        if not isinstance(pinned, Mapping):
            return LakeCatalog()
        told = read_catalog(self._lake, pinned)
        # A lake that was made anew since has fewer lines.
        return told if told.seq <= now.seq else LakeCatalog()

    def _rebuild(self, before: LakeCatalog) -> Results:
        """Make the selected tables anew from all their events; nothing new is taken in."""
        begun = time.monotonic()
        names = {naming.table_of(key) for key in self._selected}
        wanted = {(folded(name[0]), folded(name[1])) for name in names if name is not None}
        named = before.named()
        ids = {
            table.incarnation
            for (database, table_), table in named.items()
            if (folded(database), folded(table_)) in wanted
        }
        if not ids:
            raise ConfigError("none of these tables is in the lake any more", setting="selection")
        lake = self._open()
        applied = read_existing_snapshot(lake)
        replay = ReplayRequest(frozenset(ids), 0)
        progress = _Progress(self._context)
        done = replay_tables(lake, applied, replay, progress)
        for problem in done.problems:
            self._context.log.warning(problem.describe())
        after = read_catalog(self._lake)
        found = table_changes(before, after, read_lines(self._lake, before.seq))
        yield from self._tables(found, after.ts, time.monotonic() - begun)
        yield from self._check(SnapshotRange(before.seq, after.seq), after, self._planned)

    # What is told

    def _tables(self, found: Mapping[str, TableChange], ts: int, seconds: float) -> Results:
        # Those that are there go before what was dropped under the same name.
        ordered = sorted(found.values(), key=lambda change: (change.dropped, change.table.name))
        looked_into = self._previews(found)
        seen: set[dg.AssetKey] = set()
        for change in ordered:
            key = self._key(naming.HISTORY, change)
            if change.steps and key not in seen:
                version = results.history_version(change)
                yield from self._table_result(
                    key, change, results.history_metadata(change), version
                )
            seen.add(key)
            self._tell_of_rename(change)
        for change in ordered:
            key = self._key(naming.CURRENT, change)
            if key in seen:
                continue
            seen.add(key)
            preview = looked_into.get(change.table.incarnation)
            told = results.current_metadata(self._feed, self._lake, change, preview, ts, seconds)
            yield from self._table_result(key, change, told, results.current_version(ts))

    def _key(self, layer: str, change: TableChange) -> dg.AssetKey:
        return table_asset_key(self._feed, layer, change.table.database, change.table.table)

    def _tell_of_rename(self, change: TableChange) -> None:
        """The page of the old name says what the table is called now."""
        if change.before is None or not change.renamed:
            return
        old = change.before
        key = table_asset_key(self._feed, naming.CURRENT, old.database, old.table)
        note = f"this table is called {change.table.name} now"
        self._context.log_event(dg.AssetObservation(asset_key=key, metadata={"ticdc/note": note}))

    def _previews(self, found: Mapping[str, TableChange]) -> dict[str, Preview]:
        there = [c for c in found.values() if c.version is not None and not c.dropped]
        there.sort(key=lambda change: -change.counts.read)
        chosen = {
            change.table.incarnation: change.version
            for change in there[:_LOOKED_INTO]
            if change.version is not None
        }
        if not chosen:
            return {}
        return preview_tables(self._open(), chosen, max(self._rows, 0))

    def _table_result(
        self,
        key: dg.AssetKey,
        change: TableChange,
        told: results.Metadata,
        version: dg.DataVersion,
    ) -> Results:
        if change.dropped or key not in self._context.assets_def.keys_by_output_name.values():
            note = results.without_definition(change)
            told["ticdc/note"] = dg.MetadataValue.md(note)
            self._context.log.info(f"{change.table.name} is {note}")
        yield from self._result(key, told, version)

    def _result(self, key: dg.AssetKey, told: results.Metadata, version: dg.DataVersion) -> Results:
        if key in self._selected:
            yield dg.MaterializeResult(asset_key=key, metadata=told, data_version=version)
            return
        # It changed all the same: what was not asked for, or has no definition yet.
        yield dg.AssetMaterialization(asset_key=key, metadata=told)

    def _check(
        self,
        window: SnapshotRange,
        catalog: LakeCatalog,
        checks: Collection[dg.AssetCheckKey] | None = None,
    ) -> Results:
        context, keys = self._context, _table_keys(self._feed, catalog)
        yield from evaluate_run_checks(context, self._open(), window, keys, checks)

    def _said(self, done: AdvanceResult, seconds: float) -> None:
        for problem in done.applied.problems:
            self._context.log.warning(problem.describe())
        self._context.log.info(
            f"applied up to {done.applied.resolved_ts} in {seconds:.1f} s:"
            f" {done.applied.rows:,} row changes, {done.applied.ddls:,} DDLs"
        )


class _Progress:
    """Writes how far a stage is into the run's log, now and then."""

    def __init__(self, context: dg.AssetExecutionContext) -> None:
        self._context = context
        self._said = time.monotonic()

    def __call__(self, stage: str, done: int, of: int | None) -> None:
        if time.monotonic() - self._said >= 10:
            self._said = time.monotonic()
            self._context.log.info(f"{stage}: {done:,}" + ("" if of is None else f" of {of:,}"))
