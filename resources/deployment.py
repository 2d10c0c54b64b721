"""What Dagster hands to the assets and sensors: the session and the lake.

Neither holds a credential: what a resource is configured with is shown in the UI.
"""

from typing import Any

from dagster import ConfigurableResource
from dagster_pyspark import LazyPySparkResource
from pydantic import Field
from pyspark.sql import SparkSession

from resources.lake import get_lake_root
from resources.spark import get_session
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.lake.store.lake import Lake, LakeSession


class SparkResource(LazyPySparkResource):
    """The session of this process, with what the lake needs; started when it is first used.

    `spark_config` is Spark's own, and goes before what is chosen for the lake.  Where the session
    runs is said by TICDC_SPARK_MASTER, as for the command line.
    """

    spark_config: dict[str, Any] = Field(default_factory=dict)

    def get_session(self, lake: str) -> SparkSession:
        """The session for a lake at a path or URI."""
        if self._spark_session is None:
            settings = {name: str(value) for name, value in self.spark_config.items()}
            self._spark_session = get_session(lake, settings=settings)
        found: SparkSession = self._spark_session
        return found

    def open_lake(self, lake: Lake, feed: Changefeed) -> LakeSession:
        """Open a changefeed's lake in this session."""
        return LakeSession(self.get_session(lake.root), lake, feed)

    def _init_session(self) -> None:
        self.get_session(get_lake_root())


class LakeResource(ConfigurableResource[None]):
    """The lake: a path, or a URI that Spark writes to."""

    root: str

    def for_changefeed(self, changefeed: str) -> Lake:
        """The part of it that belongs to a changefeed."""
        return Lake(self.root, changefeed)
