"""Apply windows until the budget ends the run, or rebuild some tables."""

import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.advance import (
    AdvanceResult,
    Source,
    add_problems,
    advance,
    replay_tables,
    sum_results,
)
from ticdc_assets.log.catalog import LakeCatalog
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.resources.catalog import read_catalog
from ticdc_assets.resources.catalogs import update_catalogs
from ticdc_assets.run.budget import RunBudget
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.views.names import LakeNames

_PROGRESS_SECONDS = 10


@dataclass(frozen=True)
class AppliedWindows:
    """What the windows of a run did together, the lake after them, and what failed next."""

    result: AdvanceResult
    after: LakeCatalog
    failure: Exception | None = None


def advance_windows(
    lake: LakeSession,
    source: Source,
    budget: RunBudget,
    before: LakeCatalog,
    log: logging.Logger,
) -> AppliedWindows:
    """Advance from checkpoint to checkpoint until the budget ends the run.

    An error in the first window is raised; a later one is returned with what was done before it.
    """
    results: list[AdvanceResult] = []
    after = before
    while True:
        started = time.monotonic()
        try:
            results.append(advance(lake, source, progress=ProgressLog(log)))
            _log_window(log, results[-1], time.monotonic() - started)
            after = read_catalog(lake.location)
            has_more, is_idle = results[-1].ingested.has_more, results[-1].is_idle
            reason = budget.find_end_reason(before, after, has_more=has_more, is_idle=is_idle)
        except Exception as error:
            if not results:
                raise
            log.info("advance failed; reporting completed windows")
            return AppliedWindows(_finish(lake, results, log), after, error)
        if reason is not None:
            log.info(f"the run ends: {reason}")
            return AppliedWindows(_finish(lake, results, log), after)


def _finish(
    lake: LakeSession, results: Sequence[AdvanceResult], log: logging.Logger
) -> AdvanceResult:
    """Update the catalogs, and sum up what the windows did."""
    problems = update_catalogs(lake.location, lake.feed)
    for problem in problems:
        log.warning(problem.describe())
    return add_problems(sum_results(results), problems)


def find_tables(known: LakeNames, names: Collection[str], setting: str) -> frozenset[str]:
    """Return the incarnations of tables named as `database.table`; raise a `ConfigError` for none.

    The error names the setting that the names are from.
    """
    if not names:
        raise ConfigError("names no table: list them as database.table", setting=setting)
    return frozenset(known.find(name, setting).id for name in names)


def rebuild_tables(
    lake: LakeSession, snapshot: Snapshot, incarnations: frozenset[str], log: logging.Logger
) -> LakeCatalog:
    """Rebuild tables from all their events, without ingesting anything; return the lake after."""
    request = ReplayRequest(incarnations, 0)
    problems = replay_tables(lake, snapshot, request, ProgressLog(log)).problems
    for problem in [*problems, *update_catalogs(lake.location, lake.feed)]:
        log.warning(problem.describe())
    return read_catalog(lake.location)


def _log_window(log: logging.Logger, result: AdvanceResult, seconds: float) -> None:
    applied = result.applied
    for problem in applied.problems:
        log.warning(problem.describe())
    log.info(
        f"applied up to {applied.resolved_ts} in {seconds:.1f} s:"
        f" {applied.rows:,} row changes, {applied.ddls:,} DDLs"
    )


class ProgressLog:
    """Log the progress of a stage, at most every ten seconds."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._logged = time.monotonic()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        if time.monotonic() - self._logged >= _PROGRESS_SECONDS:
            self._logged = time.monotonic()
            self._log.info(f"{stage}: {done:,}" + ("" if total is None else f" of {total:,}"))
