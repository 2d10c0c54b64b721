"""Runs of a job over two tables whose check results a test scripts."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import dagster as dg
import pytest

# The UI asks for statuses by GraphQL, which asks this; Dagster has no public way.
from dagster._core.definitions.assets.graph.base_asset_graph import BaseAssetGraph
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from ticdc_assets.assets import check_results
from ticdc_assets.assets.check_results import CheckedAssets
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.checks import SnapshotRange
from ticdc_assets.naming import FeedNames
from ticdc_assets.resources import deployment
from ticdc_assets.resources.deployment import SparkResource
from ticdc_assets.store.lake import Lake

FEED = changefeed_from_uri("file:///data?protocol=csv", id="f")
TABLES = [dg.AssetKey(["f", "current", "d", name]) for name in "ab"]
A, B = (dg.AssetCheckKey(key, "keys_are_unique") for key in TABLES)


@dg.multi_asset(
    specs=[dg.AssetSpec(key, skippable=True) for key in TABLES],
    check_specs=[dg.AssetCheckSpec(check.name, asset=check.asset_key) for check in (A, B)],
    can_subset=True,
)
def tables(context: dg.AssetExecutionContext) -> Iterator[dg.AssetCheckEvaluation]:
    lake = SparkResource().open_lake(Lake("unused", "f"), FEED)
    found = check_results.evaluate_run_checks(
        context, lake, SnapshotRange(1, 2), CheckedAssets(FeedNames(FEED), {})
    )
    is_idle = "idle" in context.run.tags
    yield from check_results.leave_out_repeated(context, found, [TABLES[1]]) if is_idle else found


DEFINITIONS = dg.Definitions(
    assets=[tables],
    jobs=[
        dg.define_asset_job("unplanned", dg.AssetSelection.assets(*TABLES).without_checks()),
        dg.define_asset_job("planned", dg.AssetSelection.assets(*TABLES)),
    ],
)


class Runs:
    """Run jobs whose checks return scripted results."""

    def __init__(
        self, instance: dg.DagsterInstance, patch: pytest.MonkeyPatch, *, blocking: bool = True
    ) -> None:
        self._blocking = blocking
        self._instance = instance
        self._patch = patch
        patch.setattr(deployment, "get_session", lambda *_, **__: None)
        # The checks that had failed before, according to the run.
        self.had_failed: set[dg.AssetCheckKey] = set()

    def run(
        self, job: str, *, idle: bool = False, **found: bool | Literal["warns"]
    ) -> dg.ExecuteInProcessResult:
        """Run a job with these check results of tables `a` and `b`;
        `idle`: nothing came, and `b` is materialized.
        """

        def evaluate(*arguments: Any) -> Iterator[dg.AssetCheckEvaluation]:
            has_failed = arguments[-1]
            self.had_failed = {check for check in (A, B) if has_failed(check)}
            for check in (A, B):
                what = found.get(check.asset_key.path[-1])
                if what is not None:
                    yield dg.AssetCheckEvaluation(
                        asset_key=check.asset_key,
                        check_name=check.name,
                        passed=what is True,
                        severity=dg.AssetCheckSeverity("WARN" if what == "warns" else "ERROR"),
                        description=f"{found}",
                        blocking=self._blocking,
                    )

        self._patch.setattr(check_results, "evaluate_checks", evaluate)
        job_ = DEFINITIONS.resolve_job_def(job)
        tags = {"idle": "yes"} if idle else {}
        return job_.execute_in_process(instance=self._instance, raise_on_error=False, tags=tags)

    def plan(self, job: str) -> None:
        """Plan a run that never starts."""
        self._instance.create_run_for_job(DEFINITIONS.resolve_job_def(job))

    def shown(self) -> dict[str, str]:
        """Return the status that the UI shows per table."""
        shown = statuses(self._instance, [A, B])
        return {check.asset_key.path[-1]: status for check, status in shown.items()}


def statuses(
    instance: dg.DagsterInstance, checks: Sequence[dg.AssetCheckKey]
) -> dict[dg.AssetCheckKey, str]:
    """Return the status that the UI shows of checks that have one."""
    records = instance.event_log_storage.get_latest_asset_check_execution_by_key(checks)
    return {check: record.status.value for check, record in records.items()}


def stale_statuses(instance: dg.DagsterInstance, graph: BaseAssetGraph[Any]) -> dict[str, str]:
    """Return the status that the UI shows of assets that are missing or stale."""
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    found = {key: resolver.get_status(key).value for key in graph.get_all_asset_keys()}
    return {key.to_user_string(): found[key] for key in sorted(found) if found[key] != "FRESH"}
