"""The rebuild job of a changefeed: what no button of an asset does.

It applies all events of the tables that a person names again; readers see their former rows until
then.  Nothing is ingested.
"""

import time

import dagster as dg

from ticdc_assets.assets.advance import FEED_TAG, get_resources, resource_keys, table_keys
from ticdc_assets.assets.check_results import CheckedAssets, evaluate_run_checks
from ticdc_assets.assets.materialize import DagsterEvents, GraphAssets, Materializer
from ticdc_assets.checks import SnapshotRange
from ticdc_assets.lake.upgrade import upgrade
from ticdc_assets.naming import FeedNames
from ticdc_assets.resources.catalog import read_catalog, read_rows_after
from ticdc_assets.resources.deployment import lost_server_errors
from ticdc_assets.resources.previews import read_preview_rows
from ticdc_assets.run import RunReport, find_tables, rebuild_tables
from ticdc_assets.safe_text import redacted_errors
from ticdc_assets.store.lock import locked
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.run_id import running_as
from ticdc_assets.views.names import LakeNames


class Rebuilding(dg.Config):
    """The tables to rebuild from all their events, each as `database.table`."""

    tables: list[str]


def rebuild_job(names: FeedNames, assets: dg.AssetsDefinition) -> dg.JobDefinition:
    """Define the job that rebuilds tables of a changefeed."""
    feed, name = names.feed, names.identifier

    @dg.op(
        name=f"replay_{name}_tables",
        out=dg.Out(dg.Nothing, is_required=False),
        pool=f"ticdc_{name}",
        required_resource_keys=resource_keys(names.scope),
    )
    def _op(context: dg.OpExecutionContext, config: Rebuilding) -> DagsterEvents:
        started = time.monotonic()
        preview_rows = read_preview_rows()
        spark, location = get_resources(context, names)
        run = running_as(context.run.run_id)
        with redacted_errors(), lost_server_errors(), run, locked(location, "rebuild"):
            opened = spark.open_lake(location, feed)
            upgrade(opened)
            found = LakeNames.open(LakeReader(location), feed)
            incarnations = find_tables(found, config.tables, "tables")
            before = read_catalog(location)
            after = rebuild_tables(opened, found.applied, incarnations, context.log)
            report = RunReport(
                feed=feed,
                lake=location,
                before=before,
                after=after,
                snapshots=read_rows_after(location, before.snapshot_id),
                seconds=time.monotonic() - started,
            )
            materializer = Materializer(context, report, GraphAssets(names, assets.keys))
            yield from materializer.materialize_tables(opened, preview_rows)
            changed = SnapshotRange(before.snapshot_id, after.snapshot_id)
            checked = CheckedAssets(names, table_keys(names, after))
            yield from evaluate_run_checks(context, opened, changed, checked)

    @dg.job(
        name=f"rebuild_{name}",
        description=f"Rebuild tables of changefeed {feed.id} from all their events.",
        tags={FEED_TAG: names.tag},
        executor_def=dg.in_process_executor,
    )
    def _job() -> None:
        _op()

    return _job
