"""Alerts for failed runs and checks: an example to start from.

Posts JSON to the webhook that TICDC_ALERT_WEBHOOK names, in the form that Slack, Teams and most
others accept.  For e-mail or SNS, replace the body of `post` by `smtplib` or boto3.  A check is
reported when it starts to fail, and again only after it has passed.

Texts of upstream are escaped: they mention nobody, and hide no link behind other words.
"""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from http import HTTPStatus

import dagster as dg

from ticdc_assets.assets.advance import FEED_TAG
from ticdc_assets.assets.check_results import FIRST_FAILED
from ticdc_assets.resources.dagster_settings import read_webhook
from ticdc_assets.safe_text import escape_chat, redact, unescape_markdown

_MAX_LINES = 20
_LINE_CHARS = 600
# In seconds: all attempts at one alert fit into a tick, which Dagster ends after a minute.
_TIMEOUT = 5.0
_PAUSES = (1.0, 3.0)


def alert_sensors() -> list[dg.SensorDefinition]:
    """Return the alert sensors, if a webhook is configured."""
    sensors = [alert_on_failure, alert_on_checks, alert_on_checks_of_canceled]
    return sensors if read_webhook() else []


@dg.run_failure_sensor(
    name="alert_on_failure",
    description="Posts to the webhook when a run fails.",
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def alert_on_failure(context: dg.RunFailureSensorContext) -> None:
    """Post why a run failed, and which checks started to fail in it."""
    reasons = [*map(_reason, context.get_step_failure_events()), context.failure_event.message]
    reason = next(filter(None, reasons), "")
    line = f"run {context.dagster_run.run_id} failed. {format_line(reason)}".rstrip()
    failures = find_new_failures(context.instance, context.dagster_run)
    post(read_webhook(), format_message(context.dagster_run, [line, *failures]))


def _alert_on_checks(context: dg.RunStatusSensorContext) -> None:
    """Post checks that started to fail without blocking the run, as for a paused table."""
    failures = find_new_failures(context.instance, context.dagster_run)
    if failures:
        post(read_webhook(), format_message(context.dagster_run, failures))


alert_on_checks = dg.run_status_sensor(
    name="alert_on_checks",
    description="Posts to the webhook when a check starts to fail in a run that succeeds.",
    run_status=dg.DagsterRunStatus.SUCCESS,
    default_status=dg.DefaultSensorStatus.RUNNING,
)(_alert_on_checks)
# No later run reports such a check as a new failure.
alert_on_checks_of_canceled = dg.run_status_sensor(
    name="alert_on_checks_of_canceled",
    description="Posts to the webhook when a check started to fail in a run that was canceled.",
    run_status=dg.DagsterRunStatus.CANCELED,
    default_status=dg.DefaultSensorStatus.RUNNING,
)(_alert_on_checks)


def find_new_failures(instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[str]:
    """Return one line per check that started to fail in a run; warnings are left out."""
    entries = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    evaluations = [
        entry.dagster_event.asset_check_evaluation_data
        for entry in entries
        if entry.dagster_event is not None
    ]
    return [
        format_line(f"{e.asset_key.to_user_string()}: {e.check_name}: {_describe(e)}")
        for e in evaluations
        if not e.passed and e.severity == dg.AssetCheckSeverity.ERROR
        if e.metadata.get(FIRST_FAILED) == dg.MetadataValue.dagster_run(run.run_id)
    ]


def format_message(run: dg.DagsterRun, lines: Sequence[str]) -> str:
    """Return the text of an alert, one line per failure; the run's page has the details."""
    feed = run.tags.get(FEED_TAG)
    subject = f"changefeed {feed}" if feed else run.job_name
    return join_lines([f"{subject}: {lines[0]}", *lines[1:]])


def join_lines(lines: Sequence[str]) -> str:
    """Return the text of an alert with some of its lines."""
    more = [f"and {len(lines) - _MAX_LINES} more"] if len(lines) > _MAX_LINES else []
    return "\n".join([*lines[:_MAX_LINES], *more])


def _describe(evaluation: dg.AssetCheckEvaluation) -> str:
    return unescape_markdown(evaluation.description or "failed")


def _reason(event: dg.DagsterEvent) -> str:
    """Return the error that a step raised, not the one in which Dagster wraps it."""
    error = event.step_failure_data.error
    return "" if error is None else str((error.cause or error).message)


def format_line(text: str) -> str:
    """Format a line of an alert: without secrets, and mentioning nobody."""
    return escape_chat(redact(" ".join(text.split())[:_LINE_CHARS]))


def post(url: str, text: str) -> None:
    """Post a text; an error never quotes the URL, which may hold a token.

    Dagster evaluates a run once: an alert that is not delivered now never is.
    """
    body = json.dumps({"text": text}).encode()
    headers = {"Content-Type": "application/json"}
    for pause in (*_PAUSES, None):
        try:
            request = urllib.request.Request(url, body, headers, method="POST")
            with urllib.request.urlopen(request, timeout=_TIMEOUT):
                return
        except urllib.error.HTTPError as error:
            failure = f"the webhook answered with HTTP status {error.code}"
            may_pass = error.code >= 500 or error.code == HTTPStatus.TOO_MANY_REQUESTS
        # An invalid URL raises errors of several modules, all of which quote it.
        except Exception as error:
            failure = f"cannot reach the webhook: {type(error).__name__}"
            may_pass = isinstance(error, OSError)
        if pause is None or not may_pass:
            raise RuntimeError(failure) from None
        time.sleep(pause)
