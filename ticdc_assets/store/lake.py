"""Where a changefeed's tables are, and the session through which Spark reaches them.

Importing this does not import Spark, which takes longer than most commands that only read.
"""

import hashlib
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError
from ticdc_assets.plan.state import name_address
from ticdc_assets.store.run_id import find_run_id
from ticdc_assets.store.sql import delta_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
# A current table: its address, and its incarnation's birth; before there were addresses, no dot.
_LIFE = re.compile(r"(current/[^/-]*\.[^/-]*)-(\d+(?:-\d+)?(?:-load-[0-9a-f]+)?)")


@dataclass(frozen=True)
class Lake:
    """The folder of one changefeed in a lake: its location only, no Spark."""

    root: str
    changefeed: str

    @property
    def is_on_disk(self) -> bool:
        """Whether the lake is in a folder, and not in an object store."""
        return "://" not in self.root

    def path(self, table: str) -> str:
        """Return the folder of a table, by its name in the lake."""
        folder = _UNSAFE.sub("_", self.changefeed)
        if folder != self.changefeed:
            # The hash keeps changefeeds apart whose ids differ only in unsafe characters.
            folder += "-" + hashlib.sha256(self.changefeed.encode()).hexdigest()[:8]
        return f"{self.root.rstrip('/')}/{folder}/{find_folder(table)}"

    def current_path(self, incarnation: str) -> str:
        return self.path(f"current/{incarnation}")

    def address(self, database: str, table: str) -> str:
        """Return where readers find the rows of a table by its name."""
        return self.path(f"current/{name_address(database, table)}")


def find_folder(table: str) -> str:
    """Return the folder of a table below its changefeed's.

    The current tables of one name are below the address of that name, which readers know.
    """
    life = _LIFE.fullmatch(table)
    return table if life is None else f"{life[1]}/{life[2]}"


class LakeSession:
    """A changefeed's lake, and Spark: what every stage, view and check works on.

    Spark starts when it is needed first: small work needs none.
    """

    def __init__(
        self,
        spark: "SparkSession | Callable[[], SparkSession]",
        location: Lake,
        feed: Changefeed | None,
    ) -> None:
        """`spark` is a session, or what starts one; without a declaration, no event is read."""
        self.location = location
        self.declaration = feed
        self._start = spark
        self._started: SparkSession | None = None if callable(spark) else spark
        self._lock = threading.Lock()
        # Called with the session once it has started.
        self.set_up: Callable[[SparkSession], None] | None = None

    @property
    def feed(self) -> Changefeed:
        """The declaration of the changefeed, which says what its events mean."""
        if self.declaration is None:
            reason = (
                "no files have these rows, and to compute them from events takes the declaration of"
                f" changefeed {self.location.changefeed!r}, which was not given"
            )
            raise ConfigError(reason, setting="changefeed")
        return self.declaration

    @property
    def spark(self) -> "SparkSession":
        """The session, which starts now if it has not yet."""
        with self._lock:
            if self._started is None:
                assert callable(self._start)
                self._started = self._start()
                if (run_id := find_run_id()) is not None:
                    # Of the jobs that this thread starts; Spark's UI and listeners show it.
                    self._started.addTag(f"ticdc-run-{run_id}")
                if self.set_up is not None:
                    self.set_up(self._started)
            return self._started

    def with_spark(self, spark: "SparkSession") -> "LakeSession":
        """Return the same lake with another session."""
        return LakeSession(spark, self.location, self.declaration)

    @property
    def has_spark(self) -> bool:
        """Whether the session has started."""
        return self._started is not None

    def path(self, table: str) -> str:
        return self.location.path(table)

    def current_path(self, incarnation: str) -> str:
        return self.location.current_path(incarnation)

    def sql(self, table: str) -> str:
        """Name a table in SQL."""
        return delta_table(self.path(table))

    def read(self, table: str) -> "DataFrame":
        return self.spark.read.format("delta").load(self.path(table))

    def make_frame(self, rows: "pa.Table", schema: "StructType | str | None" = None) -> "DataFrame":
        """Make a frame of rows that this process holds.

        Without a schema, Spark takes DATETIMEs for moments, and Spark Connect needs one row.
        """
        # Spark reads no further than the first chunk without rows.
        rows = rows.combine_chunks()
        if schema is None:
            return self.spark.createDataFrame(rows)
        if not rows.num_rows:
            return self.spark.createDataFrame([], schema)
        return self.spark.createDataFrame(rows, schema)
