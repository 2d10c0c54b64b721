"""Nightly maintenance, and verification, which is stopped until a person wants it."""

from dataclasses import dataclass

import dagster as dg

from ticdc_assets.assets.verification import share_config
from ticdc_assets.naming import FeedNames


@dataclass(frozen=True)
class Times:
    """When the schedules run; without a time of its owner's, a verification is stopped."""

    maintenance: str | None = None
    verification: str | None = None


def maintenance_schedule(
    names: FeedNames, job: dg.JobDefinition, times: Times
) -> dg.ScheduleDefinition:
    """Define the maintenance schedule of one changefeed."""
    # What it removes by default breaks no promise, and a lake without it grows without bound.
    return dg.ScheduleDefinition(
        name=f"maintain_{names.identifier}_nightly",
        description="Compacts small files, and removes old ones that nothing needs.",
        job=job,
        cron_schedule=times.maintenance or "30 3 * * *",
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )


def verification_schedule(
    names: FeedNames, job: dg.JobDefinition, times: Times
) -> dg.ScheduleDefinition:
    """Define the verification schedule of one changefeed: of all tables, or of a night's share."""
    upstream = names.feed.upstream
    days = None if upstream is None else upstream.prove_every_days
    stopped = "Compares tables with upstream every night at 01:30. Stopped until you switch it on."
    description = "Compares tables with upstream." if times.verification else stopped
    if days is not None:
        description = f"Compares a share of the tables with upstream: each once in {days} days."
    is_running = times.verification is not None or days is not None
    return dg.ScheduleDefinition(
        name=f"verify_{names.identifier}_nightly",
        description=description,
        job=job,
        cron_schedule=times.verification or "30 1 * * *",
        run_config={} if days is None else share_config(names),
        default_status=dg.DefaultScheduleStatus.RUNNING
        if is_running
        else dg.DefaultScheduleStatus.STOPPED,
    )
