"""Index files of recorded storage-sink folders."""

import pytest

from tests.golden import datasets, released_datasets, storage_tree
from ticdc_assets.errors import MalformedMessage
from ticdc_assets.storage_sink.index import read_index


def test_every_recorded_index_names_a_data_file_of_its_directory() -> None:
    seen = 0
    for dataset in [*datasets("*storage*"), *released_datasets("*storage*")]:
        tree = storage_tree(dataset)
        for path, content in tree.items():
            if path.endswith(".index"):
                directory = path.rsplit("/", 2)[0]
                assert f"{directory}/{read_index(content)}" in tree, path
                seen += 1
    assert seen > 1000


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"CDC.index\n", b"CDC000001.csv\nCDC000002.csv\n", b"../CDC000001.csv", b"\xff"],
)
def test_content_other_than_a_file_name_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read_index(data)
