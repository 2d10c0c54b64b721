"""Nightly maintenance and verification; both are stopped until a person switches them on."""

import dagster as dg

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.naming import identifier


def maintenance_schedule(feed: Changefeed, job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """Define the maintenance schedule of one changefeed."""
    return dg.ScheduleDefinition(
        name=f"maintain_{identifier(feed.id)}_nightly",
        description="Compacts small files every night at 03:30. Stopped until you switch it on.",
        job=job,
        cron_schedule="30 3 * * *",
        default_status=dg.DefaultScheduleStatus.STOPPED,
    )


def verification_schedule(feed: Changefeed, job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """Define the verification schedule of one changefeed."""
    return dg.ScheduleDefinition(
        name=f"verify_{identifier(feed.id)}_nightly",
        description="Compares tables with upstream every night at 01:30."
        " Stopped until you switch it on.",
        job=job,
        cron_schedule="30 1 * * *",
        default_status=dg.DefaultScheduleStatus.STOPPED,
    )
