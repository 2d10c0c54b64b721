"""The files in examples/ are declarations that load, and hold no credentials."""

from pathlib import Path

import pytest

from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.changefeed.known_settings import CONNECTION

EXAMPLES = Path(__file__).parents[2] / "examples"
# Connection settings that name a place and give nobody access to it.
HARMLESS = {"account-name", "ca", "region"}
# Folder: id, transport, scheme, protocol, encoding format.
DECLARED = {
    "azure-canal-json": ("orders", "storage", "azure", "canal-json", "json"),
    "docker-compose": ("shop", "kafka", "kafka", "simple", "json"),
    "gcs-csv": ("analytics", "storage", "gcs", "csv", "json"),
    "kafka-canal-json": ("crm", "kafka", "kafka", "canal-json", "json"),
    "kafka-open-protocol": ("ledger", "kafka", "kafka+ssl", "open-protocol", "json"),
    "kafka-simple-avro": ("billing", "kafka", "kafka", "simple", "avro"),
    "kafka-simple-json": ("shop", "kafka", "kafka", "simple", "json"),
    "nfs-canal-json": ("inventory", "storage", "file", "canal-json", "json"),
    "s3-csv": ("shop", "storage", "s3", "csv", "json"),
    "topic-dump": ("shop-dump", "dump", "dump", "simple", "json"),
}


def test_every_example_is_listed_here() -> None:
    declared = {path.parent.name for path in EXAMPLES.glob("*/changefeeds.toml")}
    assert declared == set(DECLARED)
    linked = (EXAMPLES / "README.md").read_text()
    assert [name for name in DECLARED if f"({name}/changefeeds.toml)" not in linked] == []


@pytest.mark.parametrize("folder", DECLARED)
def test_an_example_declares_its_protocol_and_transport(folder: str) -> None:
    (feed,) = load_changefeeds(EXAMPLES / folder / "changefeeds.toml").values()

    found = (feed.id, feed.transport, feed.scheme, feed.protocol, feed.encoding_format)
    assert found == DECLARED[folder]


@pytest.mark.parametrize("folder", DECLARED)
def test_an_example_holds_no_credentials(folder: str) -> None:
    (feed,) = load_changefeeds(EXAMPLES / folder / "changefeeds.toml").values()

    secrets = CONNECTION - HARMLESS
    assert not secrets & {*feed.options, *feed.claim_check_options}


# `tests/test_compose_example.py` is for the files of the other one.
@pytest.mark.parametrize("folder", [name for name in DECLARED if name != "docker-compose"])
def test_an_example_refers_to_every_file_beside_it(folder: str) -> None:
    declaration = (EXAMPLES / folder / "changefeeds.toml").read_text()

    beside = {path.name for path in (EXAMPLES / folder).iterdir()} - {"changefeeds.toml"}
    assert beside == ({"changefeed.toml"} if 'config = "changefeed.toml"' in declaration else set())


@pytest.mark.parametrize("folder", [name for name in DECLARED if name != "nfs-canal-json"])
def test_an_example_uses_the_settings_that_its_comments_recommend(folder: str) -> None:
    (feed,) = load_changefeeds(EXAMPLES / folder / "changefeeds.toml").values()

    match feed.protocol:
        case "csv":
            assert feed.csv.include_commit_ts
            assert feed.csv.output_old_value
        case "canal-json":
            assert feed.enable_tidb_extension
        case "open-protocol":
            assert feed.open_output_old_value
