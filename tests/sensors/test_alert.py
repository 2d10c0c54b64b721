"""The alerts: what they post, and that the webhook URL appears nowhere."""

from collections.abc import Iterator
from typing import Literal

import dagster as dg
import pytest

from tests.assets.scripted import Runs
from tests.hostile_names import NAMES
from tests.usual import usual
from ticdc_assets.assets.advance import FEED_TAG
from ticdc_assets.definitions import defs
from ticdc_assets.errors import ConfigError
from ticdc_assets.resources.dagster_settings import WEBHOOK, read_webhook
from ticdc_assets.safe_text import escape_control
from ticdc_assets.sensors.alert import (
    alert_on_checks,
    alert_on_checks_of_canceled,
    alert_on_failure,
    alert_sensors,
    post,
)


@dg.op
def fails() -> None:
    raise ValueError("no such folder")


@dg.job(tags={FEED_TAG: "shop"})
def failing() -> None:
    fails()


def failure(instance: dg.DagsterInstance) -> dg.RunFailureSensorContext:
    result = failing.execute_in_process(instance=instance, raise_on_error=False)
    return ended(instance, result).for_run_failure()


def ended(
    instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult
) -> dg.RunStatusSensorContext:
    """Return the context that a sensor gets when a run has ended."""
    success = result.success
    return dg.build_run_status_sensor_context(
        sensor_name="alert",
        dagster_event=result.get_run_success_event() if success else result.get_run_failure_event(),
        dagster_instance=instance,
        dagster_run=result.dagster_run,
    )


def test_an_alert_is_posted_again_until_the_webhook_takes_it(
    webhook: list[dict[str, str]], answers: list[int]
) -> None:
    answers += [503, 429]
    post(read_webhook(), "text")
    assert webhook == [{"text": "text"}] * 3

    answers += [500, 502, 503]
    with pytest.raises(RuntimeError, match=r"^the webhook answered with HTTP status 503$"):
        post(read_webhook(), "text")
    # Nothing that would pass.
    answers += [403]
    with pytest.raises(RuntimeError, match=r"^the webhook answered with HTTP status 403$"):
        post(read_webhook(), "text")
    assert len(webhook) == 3 + 3 + 1


@pytest.mark.parametrize("url", ["T0KEN", "file:///T0KEN", "ftp://T0KEN/x", "data:,T0KEN"])
def test_only_http_urls_are_webhooks(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv(WEBHOOK, url)
    with pytest.raises(ConfigError, match=f"^{WEBHOOK}: must be an http or https URL$"):
        read_webhook()
    with pytest.raises(ConfigError, match=f"^{WEBHOOK}: must be an http or https URL$"):
        defs()


def test_a_check_that_started_to_fail_in_a_canceled_run_is_posted(
    webhook: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        result = Runs(instance, monkeypatch, blocking=False).run("unplanned", a=False)
        alert_on_checks_of_canceled(ended(instance, result))

    (post,) = webhook
    assert post["text"].startswith("unplanned: f/current/d/a: keys_are_unique:")


def test_a_failed_run_is_posted(webhook: list[dict[str, str]]) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        alert_on_failure(failure(instance))

    (post,) = webhook
    assert post["text"].startswith("changefeed shop: run ")
    assert post["text"].endswith("ValueError: no such folder")


def test_a_check_is_posted_when_it_starts_to_fail(
    webhook: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        runs = Runs(instance, monkeypatch, blocking=False)
        of_runs: list[dict[str, bool | Literal["warns"]]] = [
            {"a": True, "b": False},
            {"b": False},
            {"a": "warns", "b": True},
            {"a": False, "b": False},
        ]
        for found in of_runs:
            alert_on_checks(ended(instance, runs.run("unplanned", **found)))

    first, second = (post["text"].splitlines() for post in webhook)
    assert [line.partition(" {")[0] for line in first] == [
        "unplanned: f/current/d/b: keys_are_unique:"
    ]
    assert [line.partition(" {")[0] for line in second] == [
        "unplanned: f/current/d/a: keys_are_unique:",
        "f/current/d/b: keys_are_unique:",
    ]


def test_the_alert_for_a_failed_run_names_the_failed_check(
    webhook: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        result = Runs(instance, monkeypatch).run("unplanned", b=False)
        alert_on_failure(ended(instance, result).for_run_failure())

    (post,) = webhook
    assert post["text"].splitlines()[1].startswith("f/current/d/b: keys_are_unique: ")


@pytest.mark.usefixtures("answers")
def test_an_error_does_not_quote_the_webhook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WEBHOOK, "http://127.0.0.1:9/T0KEN")
    with dg.DagsterInstance.ephemeral() as instance:
        context = failure(instance)
        with pytest.raises(RuntimeError) as failed:
            alert_on_failure(context)

    assert "T0KEN" not in str(failed.value)


@pytest.mark.parametrize(
    "url",
    ["T0KEN", "http://T0KEN:T0KEN@h", "http://[T0KEN", "http://127.0.0.1:9/a T0KEN", "x\x00T0KEN",
     "http://h:T0KEN/", "file:///T0KEN", "http://127.0.0.1:9/T0KEN\n", "http://\ud800.T0KEN/"],
)  # fmt: skip
@pytest.mark.usefixtures("answers")
def test_no_error_quotes_a_malformed_webhook(url: str) -> None:
    with pytest.raises(RuntimeError, match=r"^cannot reach the webhook: [A-Za-z]+$") as failed:
        post(url, "text")
    assert failed.value.__suppress_context__


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


# What no alert may have.
MARKUP = ("<", "@c", "@e", "](", "\x1b")


def has_markup(name: str) -> bool:
    return any(markup in name for markup in MARKUP)


@pytest.mark.parametrize("name", usual(NAMES, has_markup))
def test_a_hostile_name_mentions_nobody(
    webhook: list[dict[str, str]], instance: dg.DagsterInstance, name: str
) -> None:
    def fail(context: dg.OpExecutionContext) -> None:
        raise ValueError(f"{name} password=S3CRET {name}")

    job = dg.JobDefinition(
        name="job", graph_def=dg.GraphDefinition("g", node_defs=[dg.op(name="fail")(fail)])
    )
    result = job.execute_in_process(instance=instance, raise_on_error=False)
    alert_on_failure(ended(instance, result).for_run_failure())
    (post,) = webhook
    assert shown(name) in plain(post["text"])
    assert "S3CRET" not in post["text"]
    assert not has_markup(post["text"])


def shown(name: str) -> str:
    return escape_control(" ".join(name.split()))


def plain(text: str) -> str:
    text = text.replace("\u200b", "").replace("&lt;", "<").replace("&gt;", ">")
    return text.replace("&amp;", "&")


def test_without_a_webhook_there_are_no_alert_sensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WEBHOOK, raising=False)

    assert alert_sensors() == []
