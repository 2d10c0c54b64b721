"""Checkpoints in `metadata` files."""

import pytest

from tests.golden import datasets, released_datasets, storage_tree
from ticdc_assets.errors import MalformedMessage
from ticdc_assets.storage_sink.metadata import read_metadata


def test_the_checkpoint_of_every_recorded_folder_covers_its_schema_files() -> None:
    for dataset in [*datasets("*storage*"), *released_datasets("*storage*")]:
        tree = storage_tree(dataset)
        checkpoint = read_metadata(tree["metadata"])
        versions = [int(path.split("_")[-2]) for path in tree if "/meta/schema_" in path]
        assert max(versions) <= checkpoint, dataset


def test_whitespace_and_unknown_keys_are_ignored() -> None:
    assert read_metadata(b'{ "checkpoint-ts":433305438660591626, "x": [] }\n') == 433305438660591626


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"checkpoint-ts":4333',
        b"{}",
        b"[]",
        b'{"checkpoint-ts":"x"}',
        b'{"checkpoint-ts":-1}',
        b'{"checkpoint-ts":9223372036854775808}',
        b'{"checkpoint-ts":' + b"9" * 5000 + b"}",
        b'{"x":' + b"[" * 100_000,
        b"\xff",
    ],
)
def test_an_incomplete_or_foreign_file_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read_metadata(data)
