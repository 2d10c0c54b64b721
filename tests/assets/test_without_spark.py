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


def test_a_run_over_a_few_rows_and_its_checks_start_no_spark(tmp_path: Path) -> None:
    simulation = prepare(tmp_path / "upstream", SimulationOptions(transactions=20, flush_every=20))
    list(simulation)
    # In a new process: in this one, other tests have started a session.
    done = subprocess.run(
        [sys.executable, "-c", RUN],
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
    # What the lake has recorded names the run that Dagster shows.
    recorded = read_last_run(Lake(str(tmp_path / "lake"), "shop"))
    assert recorded is not None
    assert recorded.run_id == done.stdout.decode().split()[-1]
    assert recorded.work["apply"].rows > 0
