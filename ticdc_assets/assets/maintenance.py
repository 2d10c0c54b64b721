"""The maintenance job of a changefeed's lake: it makes no asset and changes no row."""

from collections.abc import Iterator

import dagster as dg

from ticdc_assets.assets.advance import FEED_TAG, get_resources, resource_keys
from ticdc_assets.assets.check_results import leave_out_repeated, note_failure, show_evaluations
from ticdc_assets.assets.old_runs import remove_old_runs
from ticdc_assets.checks.proof import evaluate_proofs
from ticdc_assets.lake.kept_days import RETAIN_DAYS, RUN_DAYS
from ticdc_assets.lake.maintain import MaintainResult, check_days, maintain
from ticdc_assets.lake.upgrade import upgrade
from ticdc_assets.log.applied_files import read_existing_snapshot
from ticdc_assets.naming import FeedNames
from ticdc_assets.resources.catalogs import update_catalogs
from ticdc_assets.resources.deployment import lost_server_errors
from ticdc_assets.safe_text import redacted_errors
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.lock import locked
from ticdc_assets.store.reader import LakeNotFound, LakeReader
from ticdc_assets.store.run_id import running_as
from ticdc_assets.stream.problem import HELD_BACK


class Maintenance(dg.Config):
    """After how many days to remove what: old files, records of topics, and finished runs.

    Records of topics are kept by default: `rebuild --from-raw` decodes them again.
    """

    retain_days: int = RETAIN_DAYS
    expire_days: int | None = None
    run_days: int = RUN_DAYS


def maintenance_job(names: FeedNames) -> dg.JobDefinition:
    """Define the job that compacts and expires files of a changefeed's lake."""
    feed, name = names.feed, names.identifier

    @dg.op(
        name=f"compact_{name}_files",
        pool=f"ticdc_{name}",
        required_resource_keys=resource_keys(names.scope),
    )
    def _op(
        context: dg.OpExecutionContext, config: Maintenance
    ) -> Iterator[dg.AssetCheckEvaluation | dg.Output[None]]:
        spark, location = get_resources(context, names)
        # Before a run of minutes waits for its turn.
        check_days(config.retain_days, config.expire_days)
        runs = remove_old_runs(context.instance, {FEED_TAG: names.tag}, config.run_days)
        with redacted_errors(), lost_server_errors(), running_as(context.run.run_id):
            if not has_snapshot(LakeReader(location)):
                context.log.info("The lake holds nothing of this changefeed yet.")
                yield dg.Output(None, metadata={"ticdc/runs_removed": runs})
                return
            with locked(location, "maintain"):
                result = _maintain(spark.open_lake(location, feed), config)
                # An Iceberg catalog names files, which the next maintenance may remove.
                for problem in update_catalogs(location, feed):
                    context.log.warning(problem.describe())
                result.require_whole()
            yield from _note_proofs(context, names, location)
        if result.fold.held is not None:
            context.log.warning(HELD_BACK.format(result.fold.held))
        fold = result.fold.fold
        metadata: dict[str, int] = {
            "ticdc/runs_removed": runs,
            "ticdc/tables_compacted": result.compacted,
            "ticdc/files_before": result.files_before,
            "ticdc/files_after": result.files_after,
            "ticdc/files_removed": result.removed_files,
            "ticdc/bytes_removed": result.removed_bytes,
            "ticdc/records_expired": result.expired,
            "ticdc/row_events_folded": result.fold.folded,
            **({} if fold is None else {"ticdc/fold_ts": fold.ts}),
        }
        yield dg.Output(None, metadata=metadata)

    @dg.job(
        name=f"maintain_{name}",
        description=f"Compact small files of changefeed {feed.id}, and delete what config allows.",
        tags={FEED_TAG: names.tag},
        executor_def=dg.in_process_executor,
    )
    def _job() -> None:
        _op()

    return _job


def _note_proofs(
    context: dg.OpExecutionContext, names: FeedNames, location: Lake
) -> Iterator[dg.AssetCheckEvaluation]:
    """Report which proofs have become old: the job that verifies may not run at all."""
    if names.shown.table_checks:
        found = show_evaluations(names, evaluate_proofs(names.feed, location))
        for evaluation in leave_out_repeated(context, found, ()):
            yield note_failure(context.instance, evaluation, context.run_id)


def has_snapshot(reader: LakeReader) -> bool:
    """Return whether anything of a changefeed was applied."""
    try:
        read_existing_snapshot(reader)
    except LakeNotFound:
        return False
    return True


def _maintain(lake: LakeSession, config: Maintenance) -> MaintainResult:
    upgrade(lake)
    return maintain(
        lake,
        read_existing_snapshot(LakeReader(lake.location)),
        retain_days=config.retain_days,
        expire_days=config.expire_days,
    )
