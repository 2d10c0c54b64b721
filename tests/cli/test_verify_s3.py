"""`verify` on a lake in an object store: with the database, and with a copy that is there, too."""

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake

from tests.cli.conftest import Run
from tests.lake.copies import ITEMS, make_items, make_table, put_items
from tests.lake.upstream_copy import UpstreamCopy
from tests.resources.s3_account import s3_account
from tests.tidb_server import Tidb
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.state import State
from ticdc_assets.resources import reading

LAKE = "s3://lakes/a b"


def test_a_lake_in_an_object_store_is_compared_with_tidb_and_with_a_copy(
    moto: str, tidb: Tidb, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "get_session", lambda *_: pytest.fail("Spark starts"))
    options = ["--changefeeds", tidb.declare(tmp_path / "changefeeds.toml"), "--lake", LAKE]

    def verify(*given: object) -> dict[str, Any]:
        code, out, _ = run("verify", *options, *given, "--format", "json")
        found: dict[str, Any] = json.loads(out)
        assert (code, found["verdict"]) == (1, "differs")
        return found

    values = ", ".join(map(str, make_items(20)))
    tidb.run(
        *("DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop", "USE shop", ITEMS),
        f"INSERT INTO items VALUES {values}",
    )
    ts = tidb.now()
    with s3_account(moto):
        lake = UpstreamCopy.make(None, LAKE, None)  # type: ignore[arg-type]
        lake.snapshot = Snapshot(state=State(ts=ts))
        # Row 7 is wrong in the lake, row 3 in the copy.
        put_items(lake, make_items(20, {7: "other"}))
        rows = make_table(make_items(20, {3: "other"}))
        write_deltalake("s3://lakes/copy/shop.items", rows)
        copy = ("--against", "delta:s3://lakes/copy")
        for given, ids in (((), "7"), (copy, "37"), ((*copy, "--upstream"), "3")):
            found = verify(*given)
            assert (found["lake_rows"], found["upstream_rows"]) == (20, 20)
            keys = {each["key"] for each in found["differences"]}
            assert keys == {f'{{"id": "{id}"}}' for id in ids}
