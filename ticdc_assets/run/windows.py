"""Apply windows until the budget ends the run, or replay some tables."""

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass

from resources.catalog import read_catalog
from ticdc_assets.errors import ConfigError
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.lake.advance import AdvanceResult, Source, advance, replay_tables, sum_results
from ticdc_assets.lake.log.applied_files import read_existing_snapshot
from ticdc_assets.lake.log.catalog import LakeCatalog
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.run.budget import RunBudget
from ticdc_assets.safe_text import escape_control

_PROGRESS_SECONDS = 10
_GONE = "the lake no longer has it; reload the code location"


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
            has_more = results[-1].ingested.has_more
            reason = budget.find_end_reason(before, after, has_more=has_more)
        except Exception as error:
            if not results:
                raise
            log.info("advance failed; reporting completed windows")
            return AppliedWindows(sum_results(results), after, error)
        if reason is not None:
            log.info(f"the run ends: {reason}")
            return AppliedWindows(sum_results(results), after)


def replay_named_tables(
    lake: LakeSession,
    names: Collection[tuple[str, str]],
    before: LakeCatalog,
    log: logging.Logger,
) -> LakeCatalog:
    """Replay tables from all their events, without ingesting anything; return the lake after it."""
    there = {
        (fold_name(database), fold_name(name)): table.incarnation
        for (database, name), table in before.named().items()
    }
    wanted = {(fold_name(database), fold_name(name)): (database, name) for database, name in names}
    for database, name in sorted(wanted[key] for key in wanted.keys() - there.keys()):
        gone = escape_control(f"{database}.{name}")
        log.warning(f"{gone} is not replayed: {_GONE}")
    incarnations = frozenset(there[key] for key in wanted.keys() & there.keys())
    if not incarnations:
        raise ConfigError(f"all of it: {_GONE}", setting="selection")
    request = ReplayRequest(incarnations, 0)
    result = replay_tables(
        lake, read_existing_snapshot(LakeReader(lake.location)), request, ProgressLog(log)
    )
    for problem in result.problems:
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
