"""The checks of a run: results are reported whether or not the run was planned with the checks.

Dagster shows a planned check that emits no result as skipped, and hides its last result.  So runs
that a sensor requests are planned without checks; and a check that a person selected, but whose
table did not change, repeats its last result.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import dagster as dg

from ticdc_assets.assets.markdown import code
from ticdc_assets.checks import (
    EQUALS_COPY,
    EQUALS_UPSTREAM,
    PROOF_IS_RECENT,
    SnapshotRange,
    check_specs,
    evaluate_checks,
)
from ticdc_assets.checks.equality import evaluate_newest_verifications
from ticdc_assets.checks.proof import evaluate_proofs
from ticdc_assets.naming import FeedNames, table_of
from ticdc_assets.store.lake import LakeSession

# What the op of an asset and the op of a job offer alike.
RunContext = dg.AssetExecutionContext | dg.OpExecutionContext
# The run in which a failing check failed first: an alert goes out for that run only.
FIRST_FAILED = "ticdc/first_failed_in"
_MAX_NAMES = 5


@dataclass(frozen=True)
class CheckedAssets:
    """The assets of tables by the names of these in `events`, and what to check: None for all.

    What to check has keys as the project shows them, and the assets of tables have their own.
    """

    names: FeedNames
    tables: Mapping[str, dg.AssetKey]
    selected: Collection[dg.AssetCheckKey] | None = None

    def select(self) -> Collection[dg.AssetCheckKey] | None:
        """Return the own keys of what to check."""
        if self.selected is None:
            return None
        specs = check_specs(self.names.feed, self.tables)
        return {spec.key for spec in specs if self.names.show_check(spec.key) in self.selected}


def show_evaluations(
    names: FeedNames, evaluations: Iterable[dg.AssetCheckEvaluation]
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield results under the keys that a project shows; where tables share one, the worst."""
    shown: dict[dg.AssetCheckKey, list[dg.AssetCheckEvaluation]] = defaultdict(list)
    for evaluation in evaluations:
        key = names.show_check(evaluation.asset_check_key)
        if names.shown.per == "table":
            yield _merge(key, [evaluation])
        else:
            shown[key].append(evaluation)
    for key, found in shown.items():
        yield _merge(key, found)


def _merge(
    key: dg.AssetCheckKey, evaluations: Sequence[dg.AssetCheckEvaluation]
) -> dg.AssetCheckEvaluation:
    worst = max(evaluations, key=_rank)
    description = worst.description
    if len(evaluations) > 1 and not worst.passed:
        failed = [each for each in evaluations if not each.passed]
        names = ", ".join(code(_name_table(each.asset_key)) for each in failed[:_MAX_NAMES])
        more = f" and {len(failed) - _MAX_NAMES} more" if len(failed) > _MAX_NAMES else ""
        description = f"{names}{more}: {description or 'failed'}"
    return dg.AssetCheckEvaluation(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=worst.passed,
        metadata=worst.metadata,
        severity=worst.severity,
        description=description,
        blocking=worst.blocking,
    )


def _rank(evaluation: dg.AssetCheckEvaluation) -> int:
    if evaluation.passed:
        return 0
    return 2 if evaluation.severity == dg.AssetCheckSeverity.ERROR else 1


def _name_table(key: dg.AssetKey) -> str:
    return ".".join(table_of(key) or key.path)


def evaluate_run_checks(
    context: RunContext, lake: LakeSession, snapshots: SnapshotRange, assets: CheckedAssets
) -> Iterator[dg.AssetCheckEvaluation]:
    """Evaluate all checks, or the selected ones, over a range of snapshots."""
    if assets.selected is not None and not assets.selected:
        return
    read_last = cache(partial(_read_last_evaluation, context.instance))
    evaluated: set[dg.AssetCheckKey] = set()

    def has_failed(check: dg.AssetCheckKey) -> bool:
        last = read_last(assets.names.show_check(check))
        return last is not None and not last.passed

    found = evaluate_checks(lake, snapshots, assets.tables, assets.select(), has_failed)
    for evaluation in show_evaluations(assets.names, found):
        check = evaluation.asset_check_key
        evaluated.add(check)
        if evaluation.passed:
            yield evaluation
        else:
            yield _note_first_failure(read_last(check), evaluation, context.run.run_id)
    rest = context.selected_asset_check_keys - evaluated
    for evaluation in show_evaluations(assets.names, _evaluate_verifications(lake, rest)):
        if evaluation.asset_check_key in rest:
            rest = rest - {evaluation.asset_check_key}
            yield note_failure(context.instance, evaluation, context.run.run_id)
    for check in rest:
        last = read_last(check)
        if last is not None:
            yield last


def _evaluate_verifications(
    lake: LakeSession, selected: Collection[dg.AssetCheckKey]
) -> Iterator[dg.AssetCheckEvaluation]:
    """Evaluate what checks were selected that say something of verifications."""
    names = {check.name for check in selected}
    if names & {EQUALS_COPY, EQUALS_UPSTREAM}:
        yield from evaluate_newest_verifications(lake)
    if PROOF_IS_RECENT in names:
        yield from evaluate_proofs(lake.feed, lake.location)


def leave_out_repeated(
    context: RunContext,
    evaluations: Iterable[dg.AssetCheckEvaluation],
    materialized: Collection[dg.AssetKey],
) -> Iterator[dg.AssetCheckEvaluation]:
    """Leave out results that are as they were before, unless the UI would show none then.

    It shows none of a check that a run was planned with, nor of an asset that was materialized
    since.
    """
    planned = context.selected_asset_check_keys
    for evaluation in evaluations:
        check = evaluation.asset_check_key
        is_needed = check in planned or check.asset_key in materialized
        last = None if is_needed else _read_last_evaluation(context.instance, check)
        if last is None or _weigh(last) != _weigh(evaluation):
            yield evaluation


def _weigh(evaluation: dg.AssetCheckEvaluation) -> dg.AssetCheckSeverity | None:
    return None if evaluation.passed else evaluation.severity


def note_failure(
    instance: dg.DagsterInstance, evaluation: dg.AssetCheckEvaluation, run_id: str
) -> dg.AssetCheckEvaluation:
    """Add the run that a check failed in first, if it failed."""
    if evaluation.passed:
        return evaluation
    last = _read_last_evaluation(instance, evaluation.asset_check_key)
    return _note_first_failure(last, evaluation, run_id)


def _note_first_failure(
    last: dg.AssetCheckEvaluation | None, failure: dg.AssetCheckEvaluation, run_id: str
) -> dg.AssetCheckEvaluation:
    """Add the run that a check failed in first: this one, unless it failed equally before."""
    first = None
    # A check that warned before and is an error now counts as a new failure.
    if last is not None and last.severity == failure.severity:
        first = last.metadata.get(FIRST_FAILED)
    this_run = dg.MetadataValue.dagster_run(run_id)
    return failure.with_metadata({**failure.metadata, FIRST_FAILED: first or this_run})


def read_last_evaluations(
    instance: dg.DagsterInstance, checks: Sequence[dg.AssetCheckKey]
) -> list[dg.AssetCheckEvaluation]:
    """Return the last completed evaluations of checks that have one."""
    found = (_read_last_evaluation(instance, check) for check in checks)
    return [evaluation for evaluation in found if evaluation is not None]


def _read_last_evaluation(
    instance: dg.DagsterInstance, check: dg.AssetCheckKey
) -> dg.AssetCheckEvaluation | None:
    """Return a check's last completed evaluation.

    The instance's own `get_latest_asset_check_evaluation_record` also returns a check that is only
    planned, which hides the evaluation before it; the event log storage tells them apart.
    """
    records = instance.event_log_storage.get_asset_check_summary_records([check])
    record = records[check].last_completed_check_execution_record
    return None if record is None else record.evaluation
