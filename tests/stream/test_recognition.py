"""The protocol of recorded output is recognised, whatever protocol is declared."""

from dataclasses import replace

import pytest

from tests.golden import records, storage_tree
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.protocols.message import Message
from ticdc_assets.stream.recognition import describe_protocol, recognize_folder, recognize_topic

FEED = changefeed_from_uri("kafka://h:9092/t?protocol=open-protocol")
SNAPPY = "large-message-handle-compression=snappy"


@pytest.mark.parametrize(
    ("dataset", "settings"),
    [
        ("simple-json", "protocol=simple, encoding-format=json"),
        ("simple-json-claim-check", "protocol=simple, encoding-format=json"),
        ("simple-avro", "protocol=simple, encoding-format=avro"),
        ("simple-avro-snappy", f"protocol=simple, encoding-format=avro, {SNAPPY}"),
        ("canal-json", "protocol=canal-json"),
        ("canal-json-ext-snappy", f"protocol=canal-json, {SNAPPY}"),
        ("open-protocol", "protocol=open-protocol"),
    ],
)
def test_the_only_protocol_that_decodes_everything_is_named(dataset: str, settings: str) -> None:
    found = list(records(f"lifecycle/{dataset}"))
    assert recognize_topic(FEED, found) == settings
    # Nothing is recognised where one record is of something else.
    assert recognize_topic(FEED, [*found[:20], Message("t", 0, 0, None, b"{}")]) is None


def test_without_records_nothing_is_recognised() -> None:
    assert recognize_topic(FEED, []) is None
    assert recognize_folder(["metadata"]) is None
    assert describe_protocol(replace(FEED, protocol="canal-json")) == "protocol=canal-json"


@pytest.mark.parametrize("protocol", ["csv", "canal-json"])
def test_a_folder_is_recognised_by_its_data_files(protocol: str) -> None:
    name = {"csv": "newarch-storage-csv-full", "canal-json": "newarch-storage-canal-json"}[protocol]
    paths = list(storage_tree(f"lifecycle/{name}"))
    assert recognize_folder(paths) == f"protocol={protocol}"
    assert recognize_folder([*paths, "d/t/1/CDC1.csv", "d/t/1/CDC1.json"]) is None
