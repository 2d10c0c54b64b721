"""Declare a changefeed with dispatchers."""

from pathlib import Path

import pytest

from ticdc_assets.changefeed import Changefeed, changefeed_from_uri

PER_TABLE = '[{matcher = ["*.*"], topic = "{schema}.{table}"}]'


@pytest.fixture
def declare(tmp_path: Path):
    """Declare a changefeed into the topic `main`, with dispatchers."""

    def declared(dispatchers: str = PER_TABLE, more: str = "", uri: str = "") -> Changefeed:
        config = tmp_path / "changefeed.toml"
        config.write_text(f"{more}\n[sink]\ndispatchers = {dispatchers}\n")
        return changefeed_from_uri(uri or "kafka://h:9092/main?protocol=simple", config=config)

    return declared
