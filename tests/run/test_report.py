"""What a run reports: everything since the last report, whoever applied it."""

import shutil
from dataclasses import replace
from pathlib import Path

from tests.made_lake import schema, write_snapshot, write_tables
from ticdc_assets.log.catalog import LakeCatalog
from ticdc_assets.resources.catalog import read_catalog
from ticdc_assets.run import LastReport, read_reported_catalog
from ticdc_assets.store.lake import Lake

TS = 470628459884838913


def test_a_report_starts_at_the_delta_versions_of_the_last_one(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path), "shop")
    write_snapshot(lake, 1, TS)
    write_tables(lake, [schema("shop", "orders")])
    reported = read_catalog(lake)
    write_snapshot(lake, 2, TS + 1)
    now = read_catalog(lake)

    assert (reported.snapshot_id, now.snapshot_id) == (1, 2)
    assert read_reported_catalog(lake, last_report(reported), now) == reported


def test_a_lake_that_was_never_reported_is_reported_in_full(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path), "shop")
    write_snapshot(lake, 1, TS)

    assert read_reported_catalog(lake, None, read_catalog(lake)) == LakeCatalog()


def test_a_rebuilt_lake_is_reported_in_full(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path), "shop")

    def build(snapshots: int) -> LakeCatalog:
        shutil.rmtree(lake.path(""), ignore_errors=True)
        for number in range(1, snapshots + 1):
            write_snapshot(lake, number, TS)
        write_tables(lake, [schema("shop", "orders")])
        return read_catalog(lake)

    last = last_report(build(2))
    # The rebuilt lake has fewer versions than the last report names, as many, or more.
    for snapshots in (1, 2, 3):
        assert read_reported_catalog(lake, last, build(snapshots)) == LakeCatalog()


def test_a_lake_whose_reported_versions_were_removed_is_reported_in_full(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path), "shop")
    write_snapshot(lake, 1, TS)
    write_tables(lake, [schema("shop", "orders")])
    last = last_report(read_catalog(lake))
    write_snapshot(lake, 2, TS + 1)
    removed = replace(last, versions={**last.versions, "applied": 9})

    assert read_reported_catalog(lake, removed, read_catalog(lake)) == LakeCatalog()


def last_report(reported: LakeCatalog) -> LastReport:
    return LastReport(reported.lake_id, reported.read_at)
