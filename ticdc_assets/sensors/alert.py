"""Telling somebody that a run has failed: an example to start from.

Posts JSON to the webhook that TICDC_ALERT_WEBHOOK names, as Slack, Teams and most others take it.
For e-mail or SNS have the body of `tell` send it with `smtplib` or boto3.
"""

import json
import os
import urllib.request

import dagster as dg

from ticdc_assets.assets.advance import FEED_TAG

WEBHOOK = "TICDC_ALERT_WEBHOOK"


def alert_sensors() -> list[dg.SensorDefinition]:
    """The alert, if there is anywhere to send it to."""
    return [alert] if os.environ.get(WEBHOOK) else []


@dg.run_failure_sensor(
    name="alert_on_failure",
    description="Posts to a webhook when a run has failed.",
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def alert(context: dg.RunFailureSensorContext) -> None:
    """Post what has failed."""
    tell(os.environ[WEBHOOK], message(context.dagster_run, context.failure_event.message or ""))


def message(run: dg.DagsterRun, reason: str) -> str:
    """What has failed, in a line; the page of the run tells the rest."""
    feed = run.tags.get(FEED_TAG)
    what = f"changefeed {feed}" if feed else run.job_name
    first = next(iter(reason.strip().splitlines()), "")
    return f"{what}: run {run.run_id} has failed. {first[:300]}".rstrip()


def tell(url: str, text: str) -> None:
    """Post a text; an error never quotes the URL, which may hold a token."""
    body = json.dumps({"text": text}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=10):
            pass
    except (OSError, ValueError) as error:
        raise RuntimeError(f"the webhook was not reached: {type(error).__name__}") from None
