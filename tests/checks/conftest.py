"""The session is that of the lake's tests, and is shared with them."""

from tests.lake.conftest import spark

__all__ = ["spark"]
