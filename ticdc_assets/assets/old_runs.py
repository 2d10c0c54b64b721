"""Old runs in Dagster's own database, with their events and logs: Dagster itself never removes any.

A run that changed or observed an asset last remains: the asset's data version is part of it.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg

_ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
_AT_ONCE = 500


def remove_old_runs(instance: dg.DagsterInstance, tags: Mapping[str, str], days: int) -> int:
    """Remove the runs with some tags that ended and were created so many days ago; count them."""
    before = datetime.now(UTC) - timedelta(days=days)
    old = dg.RunsFilter(statuses=_ENDED, tags=dict(tags), created_before=before)
    newest: set[str] | None = None
    removed, cursor = 0, None
    while runs := instance.get_runs(old, cursor=cursor, limit=_AT_ONCE):
        if newest is None:
            newest = _find_newest(instance)
        for run in runs:
            if run.run_id not in newest:
                _remove(instance, run.run_id)
                removed += 1
        kept = [run.run_id for run in runs if run.run_id in newest]
        # A cursor has to be a run that is there.
        cursor = kept[-1] if kept else cursor
    return removed


def _remove(instance: dg.DagsterInstance, run_id: str) -> None:
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    instance.delete_run(run_id)
    # With SQLite, the events of each run have a file of their own, which Dagster leaves.
    find_file = getattr(instance.event_log_storage, "path_for_shard", None)
    if find_file is not None:
        Path(find_file(run_id)).unlink(missing_ok=True)


def _find_newest(instance: dg.DagsterInstance) -> set[str]:
    """Find the runs that changed or observed some asset last."""
    entries = [record.asset_entry for record in instance.get_asset_records()]
    events = [each for e in entries for each in (e.last_materialization, e.last_observation)]
    observed = [e.asset_key for e in entries if e.last_observation is None]
    found = {event.run_id for event in events if event is not None}
    for key in observed:
        records = instance.fetch_observations(key, limit=1).records
        found |= {record.run_id for record in records}
    return found
