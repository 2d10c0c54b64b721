"""The checks of a run: what was found is told, whether or not the run was planned with them.

Dagster shows a check that was planned, and of which nothing was said as its table did not change,
as skipped, and no more as it was found.  So runs that a sensor asks for are planned without checks,
and what a person has planned keeps its last result where there is nothing new.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import cache, partial

import dagster as dg

from ticdc_assets.checks import SnapshotRange, evaluate_checks
from ticdc_assets.lake.store.lake import LakeSession

# The run in which a check that has failed failed first: whoever is told of it is told once.
FIRST_FAILED = "ticdc/first_failed_in"


def evaluate_run_checks(
    context: dg.AssetExecutionContext,
    lake: LakeSession,
    window: SnapshotRange,
    tables: Mapping[str, dg.AssetKey],
    selected: Collection[dg.AssetCheckKey] | None = None,
) -> Iterator[dg.AssetCheckEvaluation]:
    """What checks find in a window: all of them, or the selected ones."""
    if selected is not None and not selected:
        return
    last = cache(partial(_last, context.instance))
    told: set[dg.AssetCheckKey] = set()

    def has_failed(check: dg.AssetCheckKey) -> bool:
        before = last(check)
        return before is not None and not before.passed

    for found in evaluate_checks(lake, window, tables, selected, has_failed):
        told.add(found.asset_check_key)
        if found.passed:
            yield found
        else:
            yield _since(last(found.asset_check_key), found, context.run.run_id)
    for check in context.selected_asset_check_keys - told:
        before = last(check)
        if before is not None:
            yield before


def _since(
    before: dg.AssetCheckEvaluation | None, found: dg.AssetCheckEvaluation, run: str
) -> dg.AssetCheckEvaluation:
    """What was found, with the run that found it first, which is this one if it is news."""
    first = None
    # What warned before and is an error now is news.
    if before is not None and before.severity == found.severity:
        first = before.metadata.get(FIRST_FAILED)
    here = dg.MetadataValue.dagster_run(run)
    return found.with_metadata({**found.metadata, FIRST_FAILED: first or here})


def _last(instance: dg.DagsterInstance, check: dg.AssetCheckKey) -> dg.AssetCheckEvaluation | None:
    """What a check found when it was last evaluated."""
    records = instance.event_log_storage.get_asset_check_summary_records([check])
    record = records[check].last_completed_check_execution_record
    return None if record is None else record.evaluation
