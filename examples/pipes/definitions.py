"""A changefeed whose runs are processes that Dagster Pipes starts, here on the same machine.

TICDC_CHANGEFEEDS and TICDC_LAKE say which changefeeds there are, and where the lake is.
"""

import sys

import dagster as dg

from ticdc_assets.pipes import ExternalRuns

shop = ExternalRuns.open("shop")


# One run at a time; the others wait.
@dg.op(pool="ticdc_shop")
def update_shop(context: dg.OpExecutionContext, pipes: dg.PipesSubprocessClient) -> None:
    """Start a run, and log what it has reported."""
    command = [sys.executable, "-m", "ticdc_assets.pipes", "shop"]
    extras = shop.make_extras(context.instance)
    done = pipes.run(context=context, command=command, extras=extras)
    for event in shop.list_events(done):
        context.log_event(event)


@dg.job
def advance_shop() -> None:
    """Bring the lake to the newest checkpoint."""
    update_shop()


defs = dg.Definitions(
    # The tables that the lake has when the definitions are loaded.
    assets=shop.specs,
    jobs=[advance_shop],
    schedules=[dg.ScheduleDefinition(job=advance_shop, cron_schedule="* * * * *")],
    resources={"pipes": dg.PipesSubprocessClient()},
)
