"""The assets of a changefeed: one op that brings all of them up to date, whatever is selected."""

import time
from collections.abc import Collection, Iterator, Set
from functools import cached_property
from typing import Any

import dagster as dg

from ticdc_assets import naming
from ticdc_assets.assets import metadata, specs
from ticdc_assets.assets.check_results import (
    CheckedAssets,
    RunContext,
    evaluate_run_checks,
    leave_out_repeated,
)
from ticdc_assets.assets.materialize import DagsterEvents, GraphAssets, Materializer
from ticdc_assets.checks import SnapshotRange
from ticdc_assets.log.applied_files import read_existing_snapshot
from ticdc_assets.log.catalog import LakeCatalog
from ticdc_assets.naming import FeedNames, output_name, resource_key, table_asset_key
from ticdc_assets.plan.waits import describe_waits
from ticdc_assets.resources.catalog import read_catalog, read_rows_after
from ticdc_assets.resources.deployment import SparkResource, lost_server_errors
from ticdc_assets.resources.previews import read_preview_rows
from ticdc_assets.resources.reading import open_source
from ticdc_assets.resources.spark import describe_session
from ticdc_assets.run import (
    AdvanceReport,
    LastReport,
    RunBudget,
    advance_windows,
    read_reported_catalog,
)
from ticdc_assets.safe_text import redacted_errors
from ticdc_assets.store.event_rows import make_table_name
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.last_run import RunCommand
from ticdc_assets.store.lock import locked
from ticdc_assets.store.reader import MANY_ROWS, LakeReader
from ticdc_assets.store.run_id import running_as
from ticdc_assets.store.work_size import sized_for
from ticdc_assets.views.stream_limits import describe_lake_limits

# The tag that says which changefeed a run belongs to: sensors, the run queue and alerts use it.
FEED_TAG = "ticdc/changefeed"


def feed_assets(names: FeedNames, lake: Lake, catalog: LakeCatalog) -> dg.AssetsDefinition:
    """Define the assets of a changefeed: its layers, and the tables in its lake's catalog."""
    feed = names.feed
    own_specs = [*specs.layer_specs(feed, lake), *specs.table_specs(names, lake, catalog)]
    all_specs = [names.translate(spec) for spec in own_specs]
    checks = specs.list_checks(names, table_keys(names, catalog))
    # Dagster's default output names may collide, and do not exist for every script.
    outputs = {output_name(spec.key): spec for spec in all_specs}
    defined = frozenset(spec.key for spec in all_specs)
    check_outputs = {output_name(check.asset_key, check.name): check for check in checks}

    @dg.op(
        name=f"update_{names.identifier}",
        description=f"Bring the lake of changefeed {feed.id} to the newest checkpoint.",
        out={name: dg.Out(dg.Nothing, is_required=False) for name in (*outputs, *check_outputs)},
        ins={"source": dg.In(dg.Nothing)},
        pool=f"ticdc_{names.identifier}",
        tags={FEED_TAG: names.tag},
        required_resource_keys=resource_keys(names.scope),
    )
    def _op(context: dg.AssetExecutionContext) -> DagsterEvents:
        spark, location = get_resources(context, names)
        with redacted_errors(), lost_server_errors():
            run = FeedRun(context, names, location, spark)
            yield from run.execute(defined)

    return dg.AssetsDefinition(
        keys_by_input_name={"source": names.layer(naming.SOURCE)},
        keys_by_output_name={name: spec.key for name, spec in outputs.items()},
        node_def=_op,
        specs=all_specs,
        check_specs_by_output_name=check_outputs,
        can_subset=True,
    )


def resource_keys(scope: str) -> set[str]:
    """Return the keys of the resources that runs over a lake take."""
    return {resource_key(scope, name) for name in ("spark", "lake")}


def get_resources(context: RunContext, names: FeedNames) -> tuple[SparkResource, Lake]:
    """Return the session of a run over a changefeed, and its part of the lake."""
    spark, lake = (
        getattr(context.resources, resource_key(names.scope, name)) for name in ("spark", "lake")
    )
    return spark, lake.for_changefeed(names.feed.id)


def advance_job(names: FeedNames, assets: dg.AssetsDefinition) -> Any:
    """Define the job that the sensor requests: all assets of a changefeed.

    It is planned without checks; its runs evaluate them all the same (see `check_results`).
    Dagster has no public type for what `define_asset_job` returns.
    """
    return dg.define_asset_job(
        f"advance_{names.identifier}_job",
        selection=dg.AssetSelection.assets(*assets.keys).without_checks(),
        description=f"Bring the lake of changefeed {names.feed.id} to the newest checkpoint.",
        tags={FEED_TAG: names.tag},
        # A project may have another executor, which would start a process for the one step.
        executor_def=dg.in_process_executor,
    )


def table_keys(names: FeedNames, catalog: LakeCatalog) -> dict[str, dg.AssetKey]:
    """Return the asset of each table's rows, by the table's name in `events`.

    A project whose tables have no checks has none.
    """
    feed = names.feed
    if not names.shown.table_checks:
        return {}
    return {
        make_table_name(*table) or "": table_asset_key(feed, naming.CURRENT, *table)
        for table in catalog.named()
    }


class FeedRun:
    """One run over a changefeed, by what was selected for it."""

    def __init__(
        self,
        context: dg.AssetExecutionContext,
        names: FeedNames,
        location: Lake,
        spark: SparkResource,
    ) -> None:
        self._context = context
        self._names = names
        self._feed = names.feed
        self._location = location
        self._spark = spark
        self._selected = set(context.selected_asset_keys)
        self._selected_checks = set(context.selected_asset_check_keys)
        self._preview_rows = read_preview_rows()

    @cached_property
    def _lake(self) -> LakeSession:
        """The lake, opened when it is first used: a tick of the budget may come before."""
        return self._spark.open_lake(self._location, self._feed)

    def execute(self, defined: Set[dg.AssetKey]) -> DagsterEvents:
        """Advance if any of the defined assets is selected, else only check."""
        for limit in describe_lake_limits(self._feed, self._location):
            self._context.log.warning(limit)
        command: RunCommand = "advance" if self._selected else "check"
        with running_as(self._context.run.run_id), locked(self._location, command):
            before = read_catalog(self._location)
            if self._selected:
                yield from self._advance(before, GraphAssets(self._names, defined, self._selected))
            else:
                full = SnapshotRange(0, before.snapshot_id)
                yield from self._check(full, before, self._selected_checks)

    def _advance(self, before: LakeCatalog, assets: GraphAssets) -> DagsterEvents:
        started = time.monotonic()
        reported = read_reported_catalog(self._location, self._find_last_report(), before)
        source = open_source(self._feed)
        budget = RunBudget(self._feed, self._location, self._has_queued_runs)
        lake = self._lake
        windows = advance_windows(lake, source, budget, before, self._context.log)
        session = describe_session(lake.spark) if lake.has_spark else "none was needed"
        self._context.log.info(f"Spark session: {session}")
        report = AdvanceReport(
            feed=self._feed,
            lake=self._location,
            before=reported,
            after=windows.after,
            snapshots=read_rows_after(self._location, reported.snapshot_id),
            seconds=time.monotonic() - started,
            result=windows.result,
            session=session,
            waits=self._find_waits(windows.after),
        )
        materializer = Materializer(self._context, report, assets)
        yield from materializer.materialize_layers(report)
        rows = max(windows.result.decoded.rows, windows.result.applied.rows)
        with sized_for(lake, small=rows < MANY_ROWS):
            yield from materializer.materialize_tables(lake, self._preview_rows)
            # Of a lake that was never reported, nothing has been checked either.
            changed = SnapshotRange(reported.snapshot_id, report.after.snapshot_id)
            checked = self._check(changed, report.after)
            if report.is_idle:
                # Watermarks change no result, unless they are wrong themselves.
                page = self._names.layer(naming.CHECKPOINTS)
                checked = leave_out_repeated(self._context, checked, [page])
            yield from checked
        # Last: if a run ends before this, the next one reports and checks all of it again.
        yield from materializer.materialize_checkpoints(report)
        if windows.failure is not None:
            raise windows.failure

    def _find_waits(self, after: LakeCatalog) -> list[str]:
        """Return what the changefeed keeps waiting for, and log it."""
        if self._feed.transport == "storage" or not after.snapshot_id:
            return []
        snapshot = read_existing_snapshot(LakeReader(self._location))
        waits = describe_waits(self._feed, snapshot.state)
        for wait in waits:
            self._context.log.warning(wait)
        return waits

    def _check(
        self,
        snapshots: SnapshotRange,
        catalog: LakeCatalog,
        selected: Collection[dg.AssetCheckKey] | None = None,
    ) -> Iterator[dg.AssetCheckEvaluation]:
        checked = CheckedAssets(self._names, table_keys(self._names, catalog), selected)
        yield from evaluate_run_checks(self._context, self._lake, snapshots, checked)

    def _has_queued_runs(self) -> bool:
        queued = dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED])
        return bool(self._context.instance.get_runs_count(queued))

    def _find_last_report(self) -> LastReport | None:
        key = self._names.layer(naming.CHECKPOINTS)
        event = self._context.instance.get_latest_materialization_event(key)
        if event is None or event.asset_materialization is None:
            return None
        return metadata.read_last_report(event.asset_materialization.metadata)
