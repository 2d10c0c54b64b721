"""Runs of lakes in a project, and of assets of somebody else that follow them."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import polars
import pytest

from tests.component.sandbox import WARNINGS, Project, list_keys, run
from ticdc_assets import naming
from ticdc_assets.dagster_io import TicdcIOManager
from ticdc_assets.demo import Simulation, SimulationOptions, SimulationStep, encode_truth, prepare

pytestmark = WARNINGS


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def start_shop(folder: Path, transactions: int = 20) -> Simulation:
    options = SimulationOptions(transactions=transactions, flush_every=1, statements=False)
    return prepare(folder, options)


def orders_key(prefix: str) -> dg.AssetKey:
    return dg.AssetKey([prefix, "shop", "current", "shop", "orders"])


def read_ids(instance: dg.DagsterInstance, prefix: str, root: str) -> list[int]:
    """Return the ids that an asset of somebody else reads of a table."""
    read: list[int] = []
    orders = dg.AssetSpec(orders_key(prefix))

    @dg.asset(ins={"rows": dg.AssetIn(orders.key, input_manager_key="t")})
    def reader(rows: polars.DataFrame) -> None:
        read.extend(rows["id"])

    resources = {"t": TicdcIOManager(uri=root)}
    dg.materialize([orders, reader], instance=instance, resources=resources)
    return sorted(read)


def test_two_lakes_with_the_same_changefeed_run_side_by_side(
    project: Project, tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    shops = {name: start_shop(tmp_path / f"upstream_{name}") for name in ("north", "south")}
    for name, shop in shops.items():
        shop.run()
        project.add(name, str(shop.changefeeds), translation={"key_prefix": name})
    # Another's asset, with resources that have the plain names.
    (project.sandbox.defs_folder_path / "own.py").write_text(
        "import dagster as dg\n\n\n@dg.asset\n"
        "def own(spark: dg.ResourceParam[str], lake: dg.ResourceParam[str]) -> str:\n"
        "    return spark + lake\n\n\ndefs = dg.Definitions(\n"
        "    assets=[own],\n    resources={'spark': 'a', 'lake': 'b'},\n"
        "    executor=dg.multiprocess_executor,\n)\n"
    )
    defs = project.load()

    dg.Definitions.validate_loadable(defs)
    made = {name: run(defs, f"advance_{name}__shop_job", instance) for name in shops}

    for name, shop in shops.items():
        truth = shop.truth()
        counts = {
            key.path[-1]: page["dagster/row_count"]
            for key, page in made[name].items()
            if key.path[2] == naming.CURRENT and page["ticdc/status"] != "dropped"
        }
        assert counts == {table: len(rows) for (_, table), rows in truth.items()}
        assert {key.path[0] for key in made[name]} == {name}
        lineage = made[name][orders_key(name)]
        columns = lineage["dagster/column_lineage"].deps_by_column
        assert columns["total"][0].asset_key == dg.AssetKey([name, "shop", "source"])
        assert read_ids(instance, name, str(tmp_path / name)) == sorted(
            int(row["id"] or 0) for row in truth["shop", "orders"]
        )
        # What a run materializes before it has a definition is what the next state defines.
        written = {key.to_user_string() for key in made[name]}
        assert not written <= list_keys(defs)
        refreshed = project.refresh(name)
        assert written <= list_keys(refreshed)
        # The button of one check evaluates that check.
        check = dg.AssetCheckKey(orders_key(name), "keys_are_unique")
        every = refreshed.resolve_implicit_global_asset_job_def()
        job = every.get_subset(asset_selection=set(), asset_check_selection={check})
        done = job.execute_in_process(instance=instance)
        (evaluation,) = done.get_asset_check_evaluations()
        assert (evaluation.asset_check_key, evaluation.passed) == (check, True)
    # A run of each lake waits for runs of that lake alone.
    runs = (record.dagster_run.tags for record in instance.get_run_records())
    tags = {tags["ticdc/changefeed"] for tags in runs if "ticdc/changefeed" in tags}
    assert tags == {"north/shop", "south/shop"}
    repository = project.load().get_repository_def()
    assert {sensor.name for sensor in repository.sensor_defs} == {
        f"{name}__{what}" for name in shops for what in ("shop_checkpoint", "reload_definitions")
    }


# Length: one scenario, in which each run continues the one before.
@pytest.mark.parametrize("per", ["table", "database"])
def test_an_eager_asset_runs_once_per_change_of_what_it_reads(
    project: Project, tmp_path: Path, instance: dg.DagsterInstance, per: str
) -> None:
    # Of a single table, some changes are none.
    shop = start_shop(tmp_path / "upstream", transactions=6 if per == "table" else 3)
    project.add("a", str(shop.changefeeds), asset_per=per, translation={"key_prefix": "raw"})
    parent = dg.AssetKey(
        ["raw", "shop", "current", "shop", *(["orders"] if per == "table" else [])]
    )

    @dg.asset(deps=[parent], automation_condition=dg.AutomationCondition.eager())
    def report() -> None: ...

    def read_truth(step: SimulationStep) -> object:
        truth = encode_truth(shop.truth(step.checkpoint))
        return truth if per == "database" else truth["shop", "orders"]

    steps = iter(shop)
    next(steps)
    run(project.load(), "advance_a__shop_job", instance)
    defs = dg.Definitions.merge(project.refresh("a"), dg.Definitions(assets=[report]))
    # All tables have rows.
    before = read_truth(next(steps))
    run(defs, "advance_a__shop_job", instance)
    cursor = dg.evaluate_automation_conditions(defs, instance).cursor
    requested, changed = 0, []
    for step in steps:
        run(defs, "advance_a__shop_job", instance)
        now = read_truth(step)
        changed.append(now != before)
        before = now
        for expected in (changed[-1], False):
            result = dg.evaluate_automation_conditions(defs, instance, cursor=cursor)
            cursor = result.cursor
            assert result.total_requested == expected, (step, changed)
            if expected:
                requested += 1
                dg.materialize([report], instance=instance, selection=[report.key])
    assert 0 < requested == sum(changed)
    assert per == "database" or requested < len(changed)
