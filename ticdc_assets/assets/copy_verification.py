"""The job that compares the current tables of a changefeed with the copy that it declares.

As the verification job, it takes no lock, makes no asset, and reports a check per current table.
"""

from collections.abc import Iterator

import dagster as dg
from pydantic import Field

from ticdc_assets.assets.advance import get_resources, resource_keys
from ticdc_assets.assets.check_results import note_failure, show_evaluations
from ticdc_assets.assets.verification import evaluate_results, show_nothing
from ticdc_assets.log.verifications import Results
from ticdc_assets.naming import FeedNames
from ticdc_assets.resources.copies import open_declared_copy
from ticdc_assets.resources.deployment import lost_server_errors
from ticdc_assets.resources.previews import read_preview_rows
from ticdc_assets.safe_text import redacted_errors
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.verify.against import AgainstEnvironment, verify_copy


class Examination(dg.Config):
    """Which tables to compare, by default all; as of which TSO; and which share of their keys."""

    tables: list[str] = Field(default_factory=list)
    at: int | None = None
    sample_percent: float = Field(default=100.0, gt=0, le=100)


def copy_job(names: FeedNames) -> dg.JobDefinition:
    """Define the job that compares a changefeed's current tables with its copy."""
    feed, name = names.feed, names.identifier

    @dg.op(
        name=f"contrast_{name}_copy",
        out=dg.Out(dg.Nothing, is_required=False),
        required_resource_keys=resource_keys(names.scope),
    )
    def _op(
        context: dg.OpExecutionContext, config: Examination
    ) -> Iterator[dg.AssetCheckEvaluation]:
        spark, location = get_resources(context, names)
        with redacted_errors(), lost_server_errors():
            assert feed.copy is not None
            environment = AgainstEnvironment(
                # Spark starts only if rows of a large window have to be computed.
                LakeSession(lambda: spark.open_lake(location, feed).spark, location, feed),
                open_declared_copy(feed.copy),
                config.at,
                share=config.sample_percent / 100,
                with_values=read_preview_rows() > 0,
            )
            found = evaluate_results(
                *(context, names, location),
                verify_copy(environment, config.tables, show_nothing),
                Results.read_newest_of_copies,
            )
            for evaluation in show_evaluations(names, found):
                # Without checks, what differs is in the lake and the log all the same.
                if names.shown.table_checks:
                    yield note_failure(context.instance, evaluation, context.run_id)

    @dg.job(
        name=f"examine_{name}",
        description=f"Compare the current tables of changefeed {feed.id} with its copy.",
        # Without the tag of the changefeed, on which its other runs wait for each other.
        tags={"ticdc/verifies": names.tag},
        executor_def=dg.in_process_executor,
    )
    def _job() -> None:
        _op()

    return _job
