"""A small run in Dagster starts no Spark, and neither do its checks."""

import subprocess
import sys
from pathlib import Path

from ticdc_assets.demo import SimulationOptions, prepare
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.last_run import read_last_run

RUN = """
import dagster as dg
from pyspark.sql import SparkSession
from ticdc_assets.definitions import defs

job = defs().resolve_job_def("advance_shop_job")
result = job.execute_in_process(instance=dg.DagsterInstance.ephemeral())
checks = result.get_asset_check_evaluations()
failed = [each.check_name for each in checks if not each.passed]
assert result.success and len(checks) > 20 and not failed, failed
assert SparkSession.getActiveSession() is None
print(result.run_id)
"""


MAINTAIN = """
import dagster as dg
from pyspark.sql import SparkSession
from ticdc_assets.definitions import defs

instance = dg.DagsterInstance.ephemeral()
for name in ("maintain_shop", "advance_shop_job", "maintain_shop"):
    result = defs().resolve_job_def(name).execute_in_process(instance=instance)
    assert result.success
events = result.filter_events(lambda event: event.is_successful_output)
shown = events[0].step_output_data.metadata
assert SparkSession.getActiveSession() is None
print(shown["ticdc/files_before"].value > 0, shown["ticdc/runs_removed"].value)
"""


def test_maintenance_of_an_empty_and_a_small_lake_starts_no_spark(tmp_path: Path) -> None:
    assert run_apart(MAINTAIN, tmp_path) == "True 0"


def test_a_run_over_a_few_rows_and_its_checks_start_no_spark(tmp_path: Path) -> None:
    run_id = run_apart(RUN, tmp_path)
    # What the lake has recorded names the run that Dagster shows.
    recorded = read_last_run(Lake(str(tmp_path / "lake"), "shop"))
    assert recorded is not None
    assert recorded.run_id == run_id
    assert recorded.work["apply"].rows > 0


def run_apart(script: str, tmp_path: Path) -> str:
    """Run a script in a new process: in this one, other tests have started a session."""
    simulation = prepare(tmp_path / "upstream", SimulationOptions(transactions=20, flush_every=20))
    list(simulation)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={
            "PATH": "",
            "PYTHONPATH": ":".join(sys.path),
            "TICDC_CHANGEFEEDS": str(simulation.changefeeds),
            "TICDC_LAKE": str(tmp_path / "lake"),
            "JAVA_HOME": str(tmp_path),
        },
        capture_output=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return done.stdout.decode().splitlines()[-1]
