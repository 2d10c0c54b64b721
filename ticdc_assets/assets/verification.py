"""The verification job of a changefeed: it makes no asset, and reports a check per current table.

It reads Delta versions that no run changes, so it takes no lock and runs beside advances.
"""

from collections.abc import Iterator

import dagster as dg
from pydantic import Field

from ticdc_assets.assets.advance import get_resources, resource_keys
from ticdc_assets.assets.check_results import note_failure, show_evaluations
from ticdc_assets.checks.equality import make_equality_evaluation
from ticdc_assets.lake.log.verifications import Results
from ticdc_assets.naming import FeedNames
from ticdc_assets.resources.catalog import read_catalog
from ticdc_assets.resources.deployment import lost_server_errors
from ticdc_assets.resources.previews import read_preview_rows
from ticdc_assets.resources.upstream import find_upstream
from ticdc_assets.safe_text import redacted_errors
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.verify.verify import Environment, verify


class Verification(dg.Config):
    """Which tables to compare, by default all, and how much load upstream may get."""

    tables: list[str] = Field(default_factory=list)
    max_connections: int = 4
    rows_per_second: int | None = None
    wait_seconds: float = 60.0


def verification_job(names: FeedNames) -> dg.JobDefinition:
    """Define the job that compares a changefeed's current tables with upstream."""
    feed, name = names.feed, names.identifier

    @dg.op(
        name=f"compare_{name}_tables",
        out=dg.Out(dg.Nothing, is_required=False),
        required_resource_keys=resource_keys(names.scope),
    )
    def _op(
        context: dg.OpExecutionContext, config: Verification
    ) -> Iterator[dg.AssetCheckEvaluation]:
        spark, location = get_resources(context, names)
        with redacted_errors(), lost_server_errors():
            database = find_upstream(
                feed,
                max_connections=config.max_connections,
                rows_per_second=config.rows_per_second,
            )
            environment = Environment(
                LakeReader(location),
                feed,
                lambda: spark.open_lake(location, feed),
                database.open_snapshot,
                with_values=read_preview_rows() > 0,
                wait_seconds=config.wait_seconds,
            )
            shown = {table.incarnation for table in read_catalog(location).named().values()}

            def evaluate() -> Iterator[dg.AssetCheckEvaluation]:
                results = verify(environment, config.tables, lambda rows: None)
                for found in results:
                    context.log.info(f"{found.name}: {found.verdict}")
                    if found.incarnation in shown and names.shown.per == "table":
                        yield make_equality_evaluation(feed, found)
                if names.shown.per != "table":
                    # A check of several tables is about those that are not compared now, too.
                    newest = Results(location).read_newest().values()
                    each = (found for found in newest if found.incarnation in shown)
                    yield from (make_equality_evaluation(feed, found) for found in each)

            for evaluation in show_evaluations(names, evaluate()):
                if not names.shown.table_checks:
                    # What differs is in the lake and the log all the same.
                    continue
                yield note_failure(context.instance, evaluation, context.run_id)

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
