"""The verification job of a changefeed: it makes no asset, and reports a check per current table.

It reads Delta versions that no run changes, so it takes no lock and runs beside advances.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import dagster as dg
from pydantic import Field

from ticdc_assets.assets.advance import get_resources, resource_keys
from ticdc_assets.assets.check_results import note_failure, show_evaluations
from ticdc_assets.assets.maintenance import has_snapshot
from ticdc_assets.checks.equality import make_equality_evaluation
from ticdc_assets.checks.proof import evaluate_proofs
from ticdc_assets.log.verifications import Results, TableVerification
from ticdc_assets.naming import FeedNames
from ticdc_assets.resources.catalog import read_catalog
from ticdc_assets.resources.deployment import SparkResource, lost_server_errors
from ticdc_assets.resources.previews import read_preview_rows
from ticdc_assets.resources.upstream import find_upstream
from ticdc_assets.safe_text import redacted_errors
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.verify.night import Night
from ticdc_assets.verify.verify import Environment, verify


class Verification(dg.Config):
    """Which tables to compare, by default all, and how much load upstream may get.

    With `share`, tonight's share of the tables, by the setting `prove-every-days`.
    """

    tables: list[str] = Field(default_factory=list)
    share: bool = False
    max_connections: int = 4
    rows_per_second: int | None = None
    wait_seconds: float = 60.0


def share_config(names: FeedNames) -> dict[str, Any]:
    """Return the configuration of a run that compares tonight's share."""
    return {"ops": {_op_name(names): {"config": {"share": True}}}}


def _op_name(names: FeedNames) -> str:
    return f"compare_{names.identifier}_tables"


def verification_job(names: FeedNames) -> dg.JobDefinition:
    """Define the job that compares a changefeed's current tables with upstream."""
    feed, name = names.feed, names.identifier

    @dg.op(
        name=_op_name(names),
        out=dg.Out(dg.Nothing, is_required=False),
        required_resource_keys=resource_keys(names.scope),
    )
    def _op(
        context: dg.OpExecutionContext, config: Verification
    ) -> Iterator[dg.AssetCheckEvaluation | dg.Output[None]]:
        spark, location = get_resources(context, names)
        with redacted_errors(), lost_server_errors():
            if config.share and not has_snapshot(LakeReader(location)):
                context.log.info("The lake holds nothing of this changefeed yet.")
                return
            environment = _open_environment(names, location, spark, config)
            night = Night(environment, show_nothing) if config.share else None
            results = night.verify() if night else verify(environment, config.tables, show_nothing)
            evaluations = _evaluate(context, names, location, results)
            for evaluation in show_evaluations(names, evaluations):
                if not names.shown.table_checks:
                    # What differs is in the lake and the log all the same.
                    continue
                yield note_failure(context.instance, evaluation, context.run_id)
            if night is not None:
                if night.left:
                    context.log.warning(f"left for the next night: {', '.join(night.left)}")
                yield dg.Output(None, metadata=_list_cost(night))

    @dg.job(
        name=f"verify_{name}",
        description=f"Compare the current tables of changefeed {feed.id} with upstream.",
        # Without the tag of the changefeed, on which its other runs wait for each other.
        tags={"ticdc/verifies": names.tag},
        executor_def=dg.in_process_executor,
    )
    def _job() -> None:
        _op()

    return _job


def _open_environment(
    names: FeedNames, location: Lake, spark: SparkResource, config: Verification
) -> Environment:
    feed = names.feed
    database = find_upstream(
        feed, max_connections=config.max_connections, rows_per_second=config.rows_per_second
    )
    return Environment(
        LakeReader(location),
        feed,
        lambda: spark.open_lake(location, feed),
        database.open_snapshot,
        with_values=read_preview_rows() > 0,
        wait_seconds=config.wait_seconds,
    )


def _evaluate(
    context: dg.OpExecutionContext,
    names: FeedNames,
    location: Lake,
    results: Iterator[TableVerification],
) -> Iterator[dg.AssetCheckEvaluation]:
    """Make the check results of verifications, and then those of all proofs."""
    yield from evaluate_results(context, names, location, results, Results.read_newest)
    yield from evaluate_proofs(names.feed, location)


# Parameters: a run, and what it found; `read_newest` reads results of the same kind.
def evaluate_results(
    context: dg.OpExecutionContext,
    names: FeedNames,
    location: Lake,
    results: Iterator[TableVerification],
    read_newest: Callable[[Results], Mapping[str, TableVerification]],
) -> Iterator[dg.AssetCheckEvaluation]:
    """Make the check results of what is compared, with a line per table in the log."""
    feed = names.feed
    shown = {table.incarnation for table in read_catalog(location).named().values()}
    for found in results:
        context.log.info(f"{found.name}: {found.verdict}")
        if found.incarnation in shown and names.shown.per == "table":
            yield make_equality_evaluation(feed, found)
    if names.shown.per != "table":
        # A check of several tables is about those that are not compared now, too.
        newest = read_newest(Results(location)).values()
        each = (found for found in newest if found.incarnation in shown)
        yield from (make_equality_evaluation(feed, found) for found in each)


def _list_cost(night: Night) -> dict[str, int]:
    """Return what a share cost the database, and how many tables are left of it."""
    return {
        "ticdc/rows_read": night.rows_read,
        "ticdc/rows_sent": night.rows_sent,
        "ticdc/statements": night.statements,
        "ticdc/bytes_received": night.bytes_received,
        "ticdc/tables_left": len(night.left),
    }


def show_nothing(rows: int) -> None:
    """Show no progress: the log of the run has a line per table."""
