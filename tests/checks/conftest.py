"""The session is that of the lake's tests, and is shared with them."""

from tests.lake.conftest import pytest_collection_modifyitems, spark

__all__ = ["pytest_collection_modifyitems", "spark"]
