"""Fixtures of the sensors' tests."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from tests.sensors.world import World
from ticdc_assets.changefeed import changefeed_from_uri


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as made:
        yield made


@pytest.fixture
def world(tmp_path: Path, instance: dg.DagsterInstance) -> World:
    feed = changefeed_from_uri(f"file://{tmp_path}?protocol=csv", id="shop")
    return World(tmp_path, feed, instance)
