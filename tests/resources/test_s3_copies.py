"""Copies in an object store, as folders of every kind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lake.copies import (
    compare,
    list_found,
    make_items,
    make_table,
    put_items,
    write_delta,
    write_parquet,
)
from tests.lake.upstream_copy import UpstreamCopy
from tests.resources.s3_account import open_client, s3_account


@pytest.fixture(scope="module")
def server(moto: str) -> Iterator[str]:
    with s3_account(moto) as url:
        yield url


@pytest.mark.parametrize("write", [write_parquet, write_delta])
def test_folders_in_an_object_store_are_copies(tmp_path: Path, server: str, write: object) -> None:
    lake = UpstreamCopy.make(None, tmp_path / "lake", None)  # type: ignore[arg-type]
    put_items(lake, make_items(30))
    rows = make_table(make_items(30, {7: "other"}))
    uri: str = write(tmp_path / "copy", "shop", "items", rows)  # type: ignore[operator]
    kind, _, folder = uri.partition(":")
    client = open_client(server)
    for file in Path(folder).rglob("*"):
        if file.is_file():
            key = f"copies/{kind}/{file.relative_to(folder)}"
            client.put_object(Bucket="lakes", Key=key, Body=file.read_bytes())
    (found,) = compare(lake, f"{kind}:s3://lakes/copies/{kind}")
    assert (found.lake_rows, found.upstream_rows) == (30, 30)
    assert list_found(found, "id") == {("differs", "7", ("title",))}
