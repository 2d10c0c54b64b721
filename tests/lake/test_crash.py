"""A lake whose runs were killed anywhere equals one whose runs were not."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.kafka_broker import Broker
from tests.lake.crash_runs import Runs
from ticdc_assets.demo import TOPIC, SimulationOptions

# Long enough for every statement of the shop: ADD COLUMN with a default, RENAME, TRUNCATE, DROP…
SHOP = SimulationOptions(transactions=168, flush_every=12, statement_every=6, replays=0.3)
CHANGEFEEDS = {
    "csv": SHOP,
    "storage canal": replace(SHOP, protocol="canal-json", file_size=3000),
    "simple": replace(SHOP, protocol="simple", transport="dump", duplicates=0.05),
    "canal": replace(SHOP, protocol="canal-json", transport="dump", duplicates=0.05),
}
# Few tables and no statements, for short runs.
SMALL = SimulationOptions(
    workload="bulk", tables=3, transactions=32, flush_every=4, rows_each=5, updates=0.4, replays=0.3
)
KILLS_PER_STAGE = 3
SEEDS = range(3)


def kill_and_resume(
    spark: SparkSession, root: Path, options: SimulationOptions, stages: list[str], seed: int
) -> None:
    runs = Runs(root, replace(options, seed=seed + 1), seed)
    if stages[0] != "create":
        runs.begin(spark)
    for stage in stages:
        runs.kill(stage)
        if stage in ("create", "apply"):
            # The other stages do not change what readers see.
            runs.check_snapshot(spark)
    runs.finish(spark)
    assert runs.check_snapshot(spark) == runs.simulation.checkpoints[-1]
    runs.check_once()
    runs.check_applied(spark)
    assert len(runs.kills) == len(stages)


@pytest.mark.slow
def test_killed_runs_are_resumed(spark: SparkSession, tmp_path: Path) -> None:
    stages = ["ingest", "decode", "apply"]
    kill_and_resume(spark, tmp_path, SMALL, stages, seed=3)


@pytest.mark.all_golden
def test_killed_runs_on_a_topic_are_resumed(
    spark: SparkSession, tmp_path: Path, broker: Broker
) -> None:
    options = replace(SMALL, protocol="simple", transport="dump", brokers=broker.plain)
    try:
        kill_and_resume(spark, tmp_path, options, ["ingest", "decode", "ingest", "apply"], seed=5)
    finally:
        broker.delete(TOPIC)
        broker.wait_until_gone(TOPIC)


@pytest.mark.soak
@pytest.mark.parametrize("changefeed", CHANGEFEEDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_often_killed_runs_are_resumed(
    spark: SparkSession, tmp_path: Path, changefeed: str, seed: int
) -> None:
    """36 kills per stage over all changefeeds and seeds, and 12 while tables are created."""
    stages = ["ingest", "decode", "apply"] * KILLS_PER_STAGE
    Random(seed).shuffle(stages)
    stages.insert(0, "create")
    kill_and_resume(spark, tmp_path, CHANGEFEEDS[changefeed], stages, seed)
