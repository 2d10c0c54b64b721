"""The Spark session of the lake tests, shared."""

from tests.lake.conftest import spark

__all__ = ["spark"]
