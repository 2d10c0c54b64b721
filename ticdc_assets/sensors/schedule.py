"""When the lake's files are looked after: at night, once somebody has switched it on."""

import dagster as dg

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.naming import identifier


def maintenance_schedule(feed: Changefeed, job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """The schedule of one changefeed's maintenance."""
    return dg.ScheduleDefinition(
        name=f"maintain_{identifier(feed.id)}_nightly",
        description="Joins small files. Off until it is switched on.",
        job=job,
        cron_schedule="30 3 * * *",
        default_status=dg.DefaultScheduleStatus.STOPPED,
    )
