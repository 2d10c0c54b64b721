"""A project per test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.component.sandbox import Project, make_project
from ticdc_assets.run import budget


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    # A run waits so long for more input before it ends.
    monkeypatch.setattr(budget, "read_poll_interval", lambda _: 0.01)
    with make_project(tmp_path) as made:
        yield made
