"""A lake on an S3 server is copied to another place there, to a disk, and back."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.lake.addresses import LIFE, open_lake, read_addresses, send
from tests.resources.s3_account import s3_account
from ticdc_assets.lake.advance import advance
from ticdc_assets.lake.backup import copy_lake
from ticdc_assets.log.applied import read_last_snapshot


@pytest.fixture(scope="module", autouse=True)
def server(moto: str) -> Iterator[str]:
    with s3_account(moto) as url:
        yield url


def test_a_lake_is_copied_from_any_store_to_any_other(tmp_path: Path) -> None:
    lake = open_lake("s3a://lakes/a b/first")
    for number in (1, 2):
        assert advance(lake, send(number)).applied.problems == []
    first, *others = places = [
        "s3a://lakes/a b/first",
        "s3a://lakes/second",
        str(tmp_path / "disk"),
        "s3a://lakes/third",
    ]
    for before, into in pairwise(places):
        root = open_lake(into).location.root
        copied, again = (copy_lake(open_lake(before).location, root, pytest.fail) for _ in range(2))
        # Data files of the same name have the same bytes.
        assert (copied.files, again.files) == (copied.copied, copied.copied)
        assert again.copied < copied.copied
    assert read_addresses(open_lake(first)) == LIFE[1][1]
    # That copies go on window by window is the same in any store.
    for root in others:
        copy = open_lake(root)
        assert read_last_snapshot(copy).snapshot_id == 2
        assert read_addresses(copy) == LIFE[1][1]
        assert advance(copy, send(5)).applied.problems == []
        assert read_addresses(copy) == LIFE[4][1]
