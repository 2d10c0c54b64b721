"""Old results of `verify` go, and the newest one of each table remains."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.compute as pc

from ticdc_assets.log.proofs import read_proofs
from ticdc_assets.log.verifications import Difference, Results, TableVerification
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.writer import LakeWriter

NOW = datetime(2026, 11, 28, tzinfo=UTC)


def test_old_results_go_but_for_the_newest_and_the_newest_proof_of_each_table(
    tmp_path: Path,
) -> None:
    lake = Lake(str(tmp_path), "f")
    results = Results(lake)
    # A lake that was never verified has none of these tables.
    results.remove_old(NOW)
    results.prepare()
    found = {"often": (400, 200, 91, 89, 1), "it's rare": (300, 100), "new": (2,)}
    # Found equal long ago, and different since; then it could not be compared.
    verdicts = {200: "equal", 300: "equal", 400: "equal"}
    for name, ages in found.items():
        for age in ages:
            results.add(
                TableVerification(
                    run=f"r{age}",
                    incarnation=name,
                    database="d",
                    table=name,
                    resolved_ts=age,
                    verdict=verdicts.get(age, "differs"),  # type: ignore[arg-type]
                    differences=(Difference("{}", "extra", 1, (), "missed"),),
                    verified_at=NOW - timedelta(days=age),
                )
            )
    # A copy, which was found equal once, has results of its own.
    for age in (300, 200, 100):
        results.add(
            TableVerification(
                run=f"c{age}",
                incarnation="new",
                database="d",
                table="new",
                resolved_ts=age,
                verdict="equal" if age == 200 else "differs",
                differences=(Difference("{}", "extra", 1, (), "missed"),),
                verified_at=NOW - timedelta(days=age),
                against="parquet:/old",
            )
        )
    version = LakeReader(lake).open("verifications").version()
    before = NOW - timedelta(days=90)
    results.remove_old(before)
    kept = {"r89-often", "r1-often", "r100-it's rare", "r2-new"}
    # The newest proofs.
    kept |= {"r200-often", "r300-it's rare", "c200-new", "c100-new"}
    reader = LakeReader(lake)
    for table in ("verifications", "differences"):
        rows = reader.read(reader.open(table), ["verification"])["verification"].to_pylist()
        assert sorted(rows) == sorted(kept), table
    assert {id: row.resolved_ts for id, row in results.read_newest().items()} == {
        "often": 1,
        "it's rare": 100,
        "new": 2,
    }
    # With nothing left to remove, nothing is committed.
    changed = reader.open("verifications").version()
    assert changed > version
    results.remove_old(before)
    assert reader.open("verifications").version() == changed


def test_proofs_are_read_from_a_file_of_which_old_results_went(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path), "f")
    results = Results(lake)
    results.prepare()
    for age in (300, 200, 1):
        found = TableVerification(
            run=f"r{age}",
            incarnation="t",
            database="d",
            table="t",
            resolved_ts=age,
            verdict="differs" if age == 1 else "equal",
            left_out=("c",),
            differences=(),
            verified_at=NOW - timedelta(days=age),
        )
        results.add(found)
    reader = LakeReader(lake)
    LakeWriter(lake).compact(reader.open("verifications"))
    assert len(reader.open("verifications").file_uris()) == 1
    results.remove_old(NOW - timedelta(days=90))

    ((id, proof),) = read_proofs(reader).tables.items()
    assert (id, proof.newest, proof.compared) == ("t", proof.compared, proof.newest)
    assert proof.compared is not None
    assert proof.equal is not None
    assert (proof.compared.ts, proof.equal.ts) == (1, 200)
    assert proof.equal.left_out == ("c",)
    where = pc.field("verdict") == "equal"
    kept = reader.read(reader.open("verifications"), ["run"], where)
    assert kept["run"].to_pylist() == ["r200"]
