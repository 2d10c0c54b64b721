"""Nightly maintenance and verification; both are stopped until a person switches them on."""

from dataclasses import dataclass

import dagster as dg

from ticdc_assets.naming import FeedNames


@dataclass(frozen=True)
class Times:
    """When the schedules run: those that an owner states run, the others are stopped."""

    maintenance: str | None = None
    verification: str | None = None


def maintenance_schedule(
    names: FeedNames, job: dg.JobDefinition, times: Times
) -> dg.ScheduleDefinition:
    """Define the maintenance schedule of one changefeed."""
    stopped = "Compacts small files every night at 03:30. Stopped until you switch it on."
    return dg.ScheduleDefinition(
        name=f"maintain_{names.identifier}_nightly",
        description="Compacts small files." if times.maintenance else stopped,
        job=job,
        cron_schedule=times.maintenance or "30 3 * * *",
        default_status=_status(times.maintenance),
    )


def verification_schedule(
    names: FeedNames, job: dg.JobDefinition, times: Times
) -> dg.ScheduleDefinition:
    """Define the verification schedule of one changefeed."""
    stopped = "Compares tables with upstream every night at 01:30. Stopped until you switch it on."
    return dg.ScheduleDefinition(
        name=f"verify_{names.identifier}_nightly",
        description="Compares tables with upstream." if times.verification else stopped,
        job=job,
        cron_schedule=times.verification or "30 1 * * *",
        default_status=_status(times.verification),
    )


def _status(stated: str | None) -> dg.DefaultScheduleStatus:
    return dg.DefaultScheduleStatus.RUNNING if stated else dg.DefaultScheduleStatus.STOPPED
