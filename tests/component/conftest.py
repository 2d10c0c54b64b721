"""A project per test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.component.sandbox import Project, make_project
from ticdc_assets.resources.dagster_settings import POLL_INTERVAL


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    # A run waits so long for more input before it ends.
    monkeypatch.setenv(POLL_INTERVAL, "1")
    with make_project(tmp_path) as made:
        yield made
