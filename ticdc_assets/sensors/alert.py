"""Telling somebody that a run or a check has failed: an example to start from.

Posts JSON to the webhook that TICDC_ALERT_WEBHOOK names, as Slack, Teams and most others take it.
For e-mail or SNS have the body of `tell` send it with `smtplib` or boto3.  A check is told of when
it fails for the first time, and again after it has passed.
"""

import json
import os
import urllib.request
from collections.abc import Sequence

import dagster as dg

from ticdc_assets.assets.advance import FEED_TAG
from ticdc_assets.assets.check_results import FIRST_FAILED

WEBHOOK = "TICDC_ALERT_WEBHOOK"
_LINES = 20
_WIDEST = 600


def alert_sensors() -> list[dg.SensorDefinition]:
    """The alerts, if there is anywhere to send them to."""
    return [alert, alert_of_checks] if os.environ.get(WEBHOOK) else []


@dg.run_failure_sensor(
    name="alert_on_failure",
    description="Posts to a webhook when a run has failed.",
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def alert(context: dg.RunFailureSensorContext) -> None:
    """Post what has failed."""
    reasons = [*map(_reason, context.get_step_failure_events()), context.failure_event.message]
    reason = next(filter(None, reasons), "")
    said = f"run {context.dagster_run.run_id} has failed. {_line(reason)}".rstrip()
    failed = new_failures(context.instance, context.dagster_run)
    tell(os.environ[WEBHOOK], message(context.dagster_run, [said, *failed]))


@dg.run_status_sensor(
    name="alert_on_checks",
    description="Posts to a webhook when checks have failed that had not before.",
    run_status=dg.DagsterRunStatus.SUCCESS,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def alert_of_checks(context: dg.RunStatusSensorContext) -> None:
    """Post which checks have failed that block nothing, as that of a paused table."""
    failed = new_failures(context.instance, context.dagster_run)
    if failed:
        tell(os.environ[WEBHOOK], message(context.dagster_run, failed))


def new_failures(instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[str]:
    """The checks that failed in a run for the first time, a line each; those that warn left out."""
    entries = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    found = [
        entry.dagster_event.asset_check_evaluation_data
        for entry in entries
        if entry.dagster_event is not None
    ]
    return [
        _line(f"{one.asset_key.to_user_string()}: {one.check_name}: {one.description or 'failed'}")
        for one in found
        if not one.passed and one.severity == dg.AssetCheckSeverity.ERROR
        if one.metadata.get(FIRST_FAILED) == dg.MetadataValue.dagster_run(run.run_id)
    ]


def message(run: dg.DagsterRun, lines: Sequence[str]) -> str:
    """What has failed, a line each; the page of the run tells the rest."""
    feed = run.tags.get(FEED_TAG)
    what = f"changefeed {feed}" if feed else run.job_name
    more = [f"and {len(lines) - _LINES} more"] if len(lines) > _LINES else []
    return "\n".join([f"{what}: {lines[0]}", *lines[1:_LINES], *more])


def _reason(event: dg.DagsterEvent) -> str:
    """What was raised in a step, not what Dagster raised for it."""
    error = event.step_failure_data.error
    return "" if error is None else str((error.cause or error).message)


def _line(text: str) -> str:
    return " ".join(text.split())[:_WIDEST]


def tell(url: str, text: str) -> None:
    """Post a text; an error never quotes the URL, which may hold a token."""
    body = json.dumps({"text": text}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=10):
            pass
    except (OSError, ValueError) as error:
        raise RuntimeError(f"the webhook was not reached: {type(error).__name__}") from None
