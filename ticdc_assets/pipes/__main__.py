"""Run a changefeed once, as an external process of a Dagster op: `python -m ticdc_assets.pipes`."""

import argparse
from collections.abc import Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import dagster as dg
from dagster_pipes import PipesContext, open_dagster_pipes

from ticdc_assets.assets.advance import FeedRun
from ticdc_assets.naming import FeedNames
from ticdc_assets.pipes.external import find_changefeed
from ticdc_assets.pipes.reports import (
    EXTRA,
    read_evaluation,
    read_metadata,
    write_evaluation,
    write_metadata,
)
from ticdc_assets.resources.deployment import SparkResource, lost_server_errors
from ticdc_assets.resources.lake import get_lake_root
from ticdc_assets.safe_text import redacted_errors
from ticdc_assets.store.lake import Lake


class _Instance:
    """What the project has passed on of earlier runs, in place of Dagster's own instance."""

    def __init__(self, passed: Mapping[str, Any]) -> None:
        self._pages = {
            dg.AssetKey(each["asset_key"]): dg.AssetMaterialization(
                dg.AssetKey(each["asset_key"]),
                metadata=read_metadata(each["metadata"]),
                tags=each["tags"],
            )
            for each in passed.get("materializations", ())
        }
        self._evaluations = {
            evaluation.asset_check_key: evaluation
            for evaluation in map(read_evaluation, passed.get("evaluations", ()))
        }
        self.event_log_storage = self

    def get_runs_count(self, _filter: object) -> int:
        # What waits for this run, only the project knows.
        return 0

    def get_latest_materialization_event(self, key: dg.AssetKey) -> object | None:
        page = self._pages.get(key)
        return None if page is None else SimpleNamespace(asset_materialization=page)

    def get_asset_records(self, keys: Collection[dg.AssetKey]) -> list[object]:
        found = (self.get_latest_materialization_event(key) for key in keys)
        entries = (SimpleNamespace(last_materialization=event) for event in found if event)
        return [SimpleNamespace(asset_entry=entry) for entry in entries]

    def get_asset_check_summary_records(
        self, checks: Collection[dg.AssetCheckKey]
    ) -> dict[dg.AssetCheckKey, object]:
        found = {check: self._evaluations.get(check) for check in checks}
        return {
            check: SimpleNamespace(
                last_completed_check_execution_record=None
                if evaluation is None
                else SimpleNamespace(evaluation=evaluation)
            )
            for check, evaluation in found.items()
        }


class _Context:
    """What a run asks of its context, by the names that Dagster's has."""

    def __init__(self, pipes: PipesContext) -> None:
        passed = pipes.extras.get(EXTRA, {})
        self.log = pipes.log
        self.run = SimpleNamespace(run_id=pipes.run_id)
        self.instance = _Instance(passed)
        self.selected_asset_keys = {dg.AssetKey(key) for key in passed.get("assets", ())}
        self.selected_asset_check_keys: set[dg.AssetCheckKey] = set()

    def log_event(self, event: dg.AssetObservation) -> None:
        for value in event.metadata.values():
            self.log.info(f"{event.asset_key.to_user_string()}: {value.value}")


def _report(pipes: PipesContext, event: object) -> None:
    """Report an event of the run: Pipes has no form for one of an asset that it does not know."""
    match event:
        case dg.MaterializeResult() | dg.AssetMaterialization():
            assert event.asset_key is not None
            message = {
                "asset_key": list(event.asset_key.path),
                "tags": dict(event.tags or {}),
                "metadata": write_metadata(event.metadata or {}),
            }
        case dg.AssetCheckEvaluation():
            message = write_evaluation(event)
        case _:
            return
    pipes.report_custom_message({EXTRA: message})


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the changefeed that is named."""
    parser = argparse.ArgumentParser(prog="python -m ticdc_assets.pipes", description=__doc__)
    parser.add_argument("changefeed", help="its id in the file that TICDC_CHANGEFEEDS names")
    feed = find_changefeed(parser.parse_args(arguments).changefeed)
    location, spark = Lake(get_lake_root(), feed.id), SparkResource()
    with open_dagster_pipes() as pipes, redacted_errors(), lost_server_errors():
        context = _Context(pipes)
        run = FeedRun(cast(dg.AssetExecutionContext, context), FeedNames(feed), location, spark)
        try:
            for event in run.execute(frozenset(context.selected_asset_keys)):
                _report(pipes, event)
        finally:
            spark.close()


if __name__ == "__main__":
    main()
