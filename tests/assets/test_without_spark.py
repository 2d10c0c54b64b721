"""A small run in Dagster starts no Spark, and neither do its checks, nor maintenance."""

import subprocess
import sys
from pathlib import Path

from ticdc_assets.demo import SimulationOptions, prepare

RUNS = """
import dagster as dg
from pyspark.sql import SparkSession
from ticdc_assets.definitions import defs
from ticdc_assets.resources.lake import get_lake_root
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.last_run import read_last_run

instance = dg.DagsterInstance.ephemeral()

def run(job):
    result = defs().resolve_job_def(job).execute_in_process(instance=instance)
    assert result.success
    assert SparkSession.getActiveSession() is None
    return result

run("maintain_shop")
result = run("advance_shop_job")
checks = result.get_asset_check_evaluations()
failed = [each.check_name for each in checks if not each.passed]
assert len(checks) > 20 and not failed, failed
# What the lake has recorded names the run that Dagster shows.
recorded = read_last_run(Lake(get_lake_root(), "shop"))
assert recorded.run_id == result.run_id
assert recorded.work["apply"].rows > 0
events = run("maintain_shop").filter_events(lambda event: event.is_successful_output)
shown = events[0].step_output_data.metadata
print(shown["ticdc/files_before"].value > 0, shown["ticdc/runs_removed"].value)
"""


def test_a_run_over_few_rows_its_checks_and_maintenance_before_and_after_start_no_spark(
    tmp_path: Path,
) -> None:
    assert run_apart(RUNS, tmp_path) == "True 0"


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
