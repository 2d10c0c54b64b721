"""For the tests in a browser."""

import shutil

import pytest

from tests.ui.browser import SHOTS


@pytest.fixture(scope="session", autouse=True)
def _no_earlier_screenshots() -> None:
    """Remove those of an earlier run, which would be mistaken for new ones."""
    shutil.rmtree(SHOTS, ignore_errors=True)
