"""Evaluate the checks of a changefeed over a range of snapshots."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import dagster as dg

from ticdc_assets.checks import models, results
from ticdc_assets.checks.invariants import (
    INVARIANTS,
    TABLE_INVARIANTS,
    CheckContext,
    NotEvaluated,
    Result,
    SnapshotRange,
    TableInvariant,
)
from ticdc_assets.checks.specs import contract_check_key, layer_check_key
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.store.event_rows import make_table_name
from ticdc_assets.store.lake import LakeSession

# Whether a check failed when it was last evaluated.
HasFailed = Callable[[dg.AssetCheckKey], bool]
_Selection = Collection[dg.AssetCheckKey] | None

# Evaluated for every table that is not live, whether or not the range changed it.
_STATUS_CHECK = TABLE_INVARIANTS[0]


def evaluate_checks(
    lake: LakeSession,
    snapshot_range: SnapshotRange,
    table_keys: Mapping[str, dg.AssetKey],
    selected: _Selection = None,
    has_failed: HasFailed | None = None,
) -> Iterator[dg.AssetCheckEvaluation]:
    """Evaluate the selected checks, or all, over what a range of snapshots changed.

    A table that the range did not change gets no result, except that it is not live.  A table that
    failed a check is checked in full until it passes or is replayed: what is wrong with it may be
    older than the range.
    """
    with CheckContext(lake, snapshot_range) as context:
        if not snapshot_range.is_empty:
            yield from _evaluate_layers(context, selected)
        checks = _select_table_checks(context, table_keys, selected)
        failed = [] if has_failed is None else _select_failed(context, checks, has_failed)
        recheck = {check.key for check in failed}
        for check, result in _find_violations(context, [c for c in checks if c.key not in recheck]):
            yield _make_evaluation(context, check, result)
    if failed:
        tables = {check.table.id for check in failed}
        with CheckContext(lake, SnapshotRange(0, snapshot_range.through), tables) as context:
            for check, result in _find_violations(context, failed):
                # A check that cannot be evaluated keeps its failure.
                if not isinstance(result, NotEvaluated):
                    yield _make_evaluation(context, check, result)


def _evaluate_layers(
    context: CheckContext, selected: _Selection
) -> Iterator[dg.AssetCheckEvaluation]:
    feed = context.feed
    for invariant in INVARIANTS:
        key = layer_check_key(feed, invariant)
        if invariant.applies_to(feed) and _is_selected(key, selected):
            result = invariant.find(context)
            yield results.make_evaluation(key, result, invariant, context.description)
    contracts = {
        table: key
        for table in models.TABLES
        for key in [contract_check_key(feed, table)]
        if _is_selected(key, selected)
    }
    if contracts:
        new_rows = {table: _find_new_rows(context, table) for table in contracts}
        yield from results.evaluate_contracts(context, contracts, new_rows)


def _find_new_rows(context: CheckContext, table: str) -> results.NewRows:
    """Return which rows the range wrote to a table of the lake."""
    before, changed = context.before, context.range
    if changed.is_full:
        return results.NewRows()
    match table:
        case "raw" | "events":
            return results.NewRows(above={"batch": before.batch})
        case "applied":
            return results.NewRows(
                {"snapshot_id": changed.since}, f"snapshot_id <= {changed.through}"
            )
        case "schema_history":
            return results.NewRows(condition=f"valid_from >= {before.ts} OR valid_from IS NULL")
        case "quarantine":
            return results.NewRows(condition=f"batch > {before.batch} OR batch IS NULL")
        case _:
            return results.NewRows()


class _TableCheck(NamedTuple):
    invariant: TableInvariant
    table: Incarnation
    key: dg.AssetCheckKey


def _select_table_checks(
    context: CheckContext, table_keys: Mapping[str, dg.AssetKey], selected: _Selection
) -> list[_TableCheck]:
    """Return the selected checks of the tables that changed or are not live."""
    tables = [
        (table, asset)
        for table in context.tables
        for name in [make_table_name(table.schema.database, table.schema.table) or ""]
        for asset in [table_keys.get(name)]
        if asset is not None
    ]
    changed = {t.id for t, _ in tables if not context.range.is_empty and context.has_changed(t)}
    return [
        _TableCheck(invariant, table, key)
        for invariant in TABLE_INVARIANTS
        if invariant.applies_to(context.feed)
        for table, asset in tables
        for key in [dg.AssetCheckKey(asset, invariant.name)]
        if table.id in changed or (table.shown_status != "live" and invariant is _STATUS_CHECK)
        if _is_selected(key, selected)
    ]


def _select_failed(
    context: CheckContext, checks: Sequence[_TableCheck], has_failed: HasFailed
) -> list[_TableCheck]:
    """Return the checks that failed last time, of tables that were not replayed since."""
    if context.range.is_full:
        return []
    before = context.before.state.incarnations
    return [
        check
        for check in checks
        if check.invariant is not _STATUS_CHECK
        if check.table.id in before and check.table.id not in context.replayed_tables
        if has_failed(check.key)
    ]


def _find_violations(
    context: CheckContext, checks: Sequence[_TableCheck]
) -> Iterator[tuple[_TableCheck, Result | NotEvaluated]]:
    """Evaluate each invariant once, over all its tables."""
    for invariant in TABLE_INVARIANTS:
        chosen = [check for check in checks if check.invariant is invariant]
        if chosen:
            found = invariant.find(context, [check.table for check in chosen])
            for check in chosen:
                yield check, found[check.table.id]


def _make_evaluation(
    context: CheckContext, check: _TableCheck, result: Result | NotEvaluated
) -> dg.AssetCheckEvaluation:
    is_status = check.invariant is _STATUS_CHECK
    make = results.make_status_evaluation if is_status else results.make_evaluation
    return make(check.key, result, check.invariant, context.description)


def _is_selected(key: dg.AssetCheckKey, selected: _Selection) -> bool:
    return selected is None or key in selected
