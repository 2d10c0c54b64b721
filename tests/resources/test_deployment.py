"""The session of a run in Dagster: it ends with the run, and a lost server is one line."""

import dagster as dg
import pytest
from pyspark.errors.exceptions.connect import SparkConnectGrpcException

from ticdc_assets.resources import deployment, shared_session
from ticdc_assets.resources.deployment import SparkResource, lost_server_errors


@dg.op
def use_spark(spark: SparkResource) -> None:
    spark.get_session("lake")


@dg.op
def fail_in_spark() -> None:
    with lost_server_errors():
        raise SparkConnectGrpcException("recvmsg: Connection reset by peer\n" + "at java\n" * 100)


@dg.job(resource_defs={"spark": SparkResource()})
def job() -> None:
    use_spark()


@dg.job
def failing_job() -> None:
    fail_in_spark()


def test_a_run_closes_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    session, closed = object(), list[object]()
    monkeypatch.setattr(deployment, "get_session", lambda *_, **__: session)
    monkeypatch.setattr(deployment, "close_session", closed.append)
    assert job.execute_in_process().success
    assert closed == [session]


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_run_that_lost_its_server_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    monkeypatch.setattr(shared_session, "has_lost_server", lambda: is_lost)
    result = failing_job.execute_in_process(raise_on_error=False)
    [failure] = result.filter_events(lambda event: event.is_step_failure)
    said = failure.step_failure_data.user_failure_data
    assert (said is not None) == is_lost
    assert said is None or said.description == (
        "the Spark server ended during this run; the next run continues from what is committed"
    )
