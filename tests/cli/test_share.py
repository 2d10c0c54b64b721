"""A share every night by Dagster's schedule and by the command, and the check of proofs' age."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from tests.cli.conftest import Run
from tests.cli.test_verify import shop
from tests.lake.upstream_copy import UpstreamCopy
from ticdc_assets import definitions
from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.store.reader import LakeReader

__all__ = ["shop"]

ASSET = dg.AssetKey(["f", "current", "shop", "goods"])
Shop = tuple[UpstreamCopy, list[object]]


@dataclass
class Nights:
    """The jobs of a changefeed that wants every table proven in two days."""

    graph: dg.Definitions
    repository: Any
    instance: dg.DagsterInstance
    # What each run says of its cost.
    costs: list[dict[str, Any]] = field(default_factory=list)

    def run(self, name: str, **config: object) -> dict[str, dg.AssetCheckEvaluation]:
        """Run a job, and return the results of checks by their names."""
        job = self.repository.get_job(name)
        result = job.execute_in_process(instance=self.instance, **config)
        outputs = (each for each in result.all_events if each.is_successful_output)
        self.costs += [output.step_output_data.metadata for output in outputs]
        found = result.get_asset_check_evaluations()
        assert {each.asset_key for each in found} <= {ASSET}
        return {each.check_name: each for each in found}

    def verify(self) -> dict[str, dg.AssetCheckEvaluation]:
        """Run the job as its schedule does."""
        schedule = self.repository.get_schedule_def("verify_f_nightly")
        assert schedule.default_status == dg.DefaultScheduleStatus.RUNNING
        context = dg.build_schedule_context(self.instance, repository_def=self.repository)
        (request,) = schedule.evaluate_tick(context).run_requests or ()
        # Rows that differ are not in flight here.
        request.run_config["ops"]["compare_f_tables"]["config"]["wait_seconds"] = 0
        return self.run("verify_f", run_config=request.run_config)

    def evaluate(self, check: dg.AssetCheckKey) -> dg.AssetCheckEvaluation:
        """Launch a check by itself."""
        result = dg.materialize(
            list(self.graph.assets or ()),
            instance=self.instance,
            resources=self.graph.resources,
            selection=dg.AssetSelection.checks(check),
        )
        (found,) = result.get_asset_check_evaluations()
        return found

    def read_cost(self, name: str) -> int:
        return int(self.costs[-1][f"ticdc/{name}"].value)


@pytest.fixture
def nights(shop: Shop, tmp_path: Path) -> Iterator[Nights]:
    file = tmp_path / "changefeeds.toml"
    with file.open("a") as declared:
        declared.write("prove-every-days = 2\n")
    graph = definitions.graph(load_changefeeds(file).values(), str(tmp_path / "lake"))
    repository = graph.get_repository_def()
    checks = {dg.AssetCheckKey(ASSET, name) for name in ("equals_upstream", "proof_is_recent")}
    assert checks <= repository.asset_graph.asset_check_keys
    with dg.DagsterInstance.ephemeral() as instance:
        yield Nights(graph, repository, instance)


def age(copy: UpstreamCopy, days: float) -> None:
    """Let all verifications be older."""
    opened = LakeReader(copy.lake.location).open("verifications")
    rows = opened.to_pyarrow_table()
    moved = pc.subtract(rows["verified_at"], pa.scalar(timedelta(days=days)))
    rows = rows.set_column(rows.column_names.index("verified_at"), "verified_at", moved)
    write_deltalake(opened, rows, mode="overwrite")


def test_a_share_needs_the_setting(shop: Shop, run: Run) -> None:
    code, _, err = run("verify", *shop[1], "--share")
    reason = "is not set: it says in how many nights every table is to be verified once"
    place = "changefeed f.upstream: prove-every-days"
    assert (code, err) == (2, [f"ticdc-assets: {place}: {reason}"])


def test_the_schedule_verifies_a_share_and_states_its_cost(
    shop: Shop, nights: Nights, run: Run
) -> None:
    found = nights.verify()
    assert (found["equals_upstream"].passed, found["proof_is_recent"].passed) == (True, True)
    assert (found["proof_is_recent"].description or "").startswith("equal to TiDB at ")
    assert [nights.read_cost(each) for each in ("rows_read", "rows_sent", "tables_left")] == [
        3,
        0,
        0,
    ]
    assert nights.read_cost("statements") > 0
    # Nothing is left for this night; the check is evaluated all the same.
    assert set(nights.verify()) == {"proof_is_recent"}
    assert nights.read_cost("statements") == 0
    code, _, err = run("verify", *shop[1], "--share")
    assert (code, err) == (0, ["tonight's share has been verified already"])
    age(shop[0], 1)
    code, out, err = run("verify", *shop[1], "--share")
    assert (code, out.decode().splitlines()[0].split(" at ")[0]) == (0, "shop.goods: equal")
    assert err[-1].startswith("upstream read 3 rows and sent 0 rows, ")


def test_a_night_before_anything_was_applied_is_no_failure(shop: Shop, nights: Nights) -> None:
    shutil.rmtree(shop[0].lake.location.path(""))
    assert nights.verify() == {}


def test_a_proof_that_becomes_old_is_reported_where_no_run_verifies_any_more(
    shop: Shop, nights: Nights, run: Run
) -> None:
    nights.verify()
    assert nights.run("maintain_f") == {}
    age(shop[0], 2.4)
    assert nights.run("maintain_f") == {}
    age(shop[0], 0.2)
    late = nights.run("maintain_f")["proof_is_recent"]
    assert (late.passed, late.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "3 d ago" in (late.description or "")
    # Once.
    assert nights.run("maintain_f") == {}
    again = nights.evaluate(dg.AssetCheckKey(ASSET, "proof_is_recent"))
    assert (again.passed, again.description) == (False, late.description)
    equality = nights.evaluate(dg.AssetCheckKey(ASSET, "equals_upstream"))
    assert (equality.passed, equality.description) == (
        True,
        "equal to TiDB at 1970-01-01 00:00:00 UTC",
    )
    _, _, err = run("status", *shop[1])
    assert "proofs: f: 1 table not proven equal to TiDB in the last 2 days: see" in err[-1]


def test_a_difference_is_an_error_of_one_check_and_no_proof_for_the_other(
    shop: Shop, nights: Nights, run: Run
) -> None:
    nights.verify()
    age(shop[0], 2.6)
    shop[0].server.run("USE shop", "UPDATE goods SET title = 'zwei' WHERE id = 2")
    found = nights.verify()
    assert found["equals_upstream"].severity == dg.AssetCheckSeverity.ERROR
    assert not found["proof_is_recent"].passed
    code, out, _ = run("tables", *shop[1])
    assert (code, "differed from TiDB at" in out.decode()) == (0, True)
    assert "(1 row); equal to TiDB at" in out.decode()
    code, out, err = run("status", *shop[1], "--format", "json")
    proofs = json.loads(out)["proofs"]
    assert (proofs["differs"], proofs["late"], proofs["proven"]) == (1, 1, 0)
    assert (proofs["every_days"], proofs["verified_tables"]) == (2, 1)
    # The hashes of three rows, and the row that differs.
    assert (proofs["rows_read"], proofs["rows_sent"]) == (3, 3 + 1)
    assert [line for line in err if line.startswith("differs: f: 1 table")]
