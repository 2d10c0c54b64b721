"""The verification job of a changefeed: it makes no asset, and reports a check per current table.

It reads Delta versions that no run changes, so it takes no lock and runs beside advances.
"""

from collections.abc import Iterator

import dagster as dg
from pydantic import Field

from ticdc_assets.assets.check_results import note_failure
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.checks.equality import make_equality_evaluation
from ticdc_assets.naming import identifier
from ticdc_assets.resources.catalog import read_catalog
from ticdc_assets.resources.deployment import LakeResource, SparkResource, lost_server_errors
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


def verification_job(feed: Changefeed) -> dg.JobDefinition:
    """Define the job that compares a changefeed's current tables with upstream."""
    name = identifier(feed.id)

    @dg.op(name=f"compare_{name}_tables", out=dg.Out(dg.Nothing, is_required=False))
    def _op(
        context: dg.OpExecutionContext,
        config: Verification,
        spark: SparkResource,
        lake: LakeResource,
    ) -> Iterator[dg.AssetCheckEvaluation]:
        location = lake.for_changefeed(feed.id)
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
            for found in verify(environment, config.tables, lambda rows: None):
                context.log.info(f"{found.name}: {found.verdict}")
                if found.incarnation in shown:
                    evaluation = make_equality_evaluation(feed, found)
                    yield note_failure(context.instance, evaluation, context.run_id)

    @dg.job(
        name=f"verify_{name}",
        description=f"Compare the current tables of changefeed {feed.id} with upstream.",
        # Without the tag of the changefeed, on which its other runs wait for each other.
        tags={"ticdc/verifies": feed.id},
    )
    def _job() -> None:
        _op()

    return _job
