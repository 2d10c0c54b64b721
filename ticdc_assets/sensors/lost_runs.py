"""Runs that look as if they went on, and whose processes are gone.

The code server starts a run as a process of its own, and reports one that dies.  But if the whole
container dies, or the machine, nobody reports anything: Dagster's monitoring does not know where
such a process was, and the run would keep its changefeed from the next one for good.
"""

import time

import dagster as dg

from ticdc_assets.store.lake import Lake
from ticdc_assets.store.lock import is_locked

# What a run does before and after it holds the lock takes seconds, and adds events.
SILENT_SECONDS = 600


def fail_if_lost(instance: dg.DagsterInstance, record: dg.RunRecord, lake: Lake) -> bool:
    """Mark a run as failed if its process is gone, so that another one may follow.

    If it is not, and only silent, the lock of the lake keeps the two apart.
    """
    run = record.dagster_run
    if run.status != dg.DagsterRunStatus.STARTED or not _is_silent(instance, record):
        return False
    if is_locked(lake):
        return False
    minutes = SILENT_SECONDS // 60
    message = (
        "The process of this run is gone, and what had started it, too: for"
        f" {minutes} minutes it has added no event, and it does not hold the lock of the lake."
        " Nothing is lost; another run goes on where it stopped."
    )
    instance.report_run_failed(run, message)
    return True


def _is_silent(instance: dg.DagsterInstance, record: dg.RunRecord) -> bool:
    """Return whether the newest event of a run is too old for a process that is alive."""
    if time.time() - record.update_timestamp.timestamp() < SILENT_SECONDS:
        return False
    run_id = record.dagster_run.run_id
    newest = instance.get_records_for_run(run_id, limit=1, ascending=False).records
    return not any(time.time() - each.timestamp < SILENT_SECONDS for each in newest)
