"""The Dagster resources of the assets and sensors: the Spark session and the lake.

The UI shows a resource's configuration, so neither takes a credential.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from dagster import ConfigurableResource, Failure, InitResourceContext
from dagster_pyspark import LazyPySparkResource
from pydantic import Field
from pyspark.sql import SparkSession

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.resources.lake import get_lake_root
from ticdc_assets.resources.spark import LOST_SERVER, close_session, get_session, has_lost_server
from ticdc_assets.store.lake import Lake, LakeSession


class SparkResource(LazyPySparkResource):
    """The Spark session of this process, configured for the lake and started on first use.

    `spark_config` holds Spark settings and overrides those chosen for the lake.  As for the command
    line, TICDC_SPARK_MASTER selects where the session runs.
    """

    spark_config: dict[str, Any] = Field(default_factory=dict)

    def get_session(self, lake: str) -> SparkSession:
        """Return the session for a lake at a path or URI."""
        if self._spark_session is None:
            settings = {name: str(value) for name, value in self.spark_config.items()}
            self._spark_session = get_session(lake, settings=settings)
        session: SparkSession = self._spark_session
        return session

    def teardown_after_execution(self, context: InitResourceContext) -> None:
        """Close the session at the end of a run."""
        self.close()

    def close(self) -> None:
        """Close the session, if there is one."""
        if self._spark_session is not None:
            close_session(self._spark_session)
            self._spark_session = None

    def open_lake(self, lake: Lake, feed: Changefeed) -> LakeSession:
        """Open a changefeed's lake; the session starts when it is needed."""
        return LakeSession(partial(self.get_session, lake.root), lake, feed)

    def _init_session(self) -> None:
        self.get_session(get_lake_root())


@contextmanager
def lost_server_errors() -> Iterator[None]:
    """Replace errors of a Spark server that has ended by one line that says so."""
    try:
        yield
    except Exception as error:
        if not has_lost_server(error):
            raise
        raise Failure(f"{LOST_SERVER}; the next run continues from what is committed") from None


class LakeResource(ConfigurableResource[None]):
    """The lake: a path, or a URI that Spark can write to."""

    root: str

    def for_changefeed(self, changefeed: str) -> Lake:
        """Return a changefeed's part of the lake."""
        return Lake(self.root, changefeed)
