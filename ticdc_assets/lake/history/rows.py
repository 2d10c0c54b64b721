"""The rows of a history: from the versions of a window, and back to the versions that were open."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.versions import UNTIL, VersionFrame, mark_start
from ticdc_assets.lake.columns.expressions import combine_pairwise
from ticdc_assets.lake.columns.inexact import read_entries
from ticdc_assets.lake.history.columns import (
    HistoryColumn,
    read_columns,
    store_columns,
    take_over_columns,
)
from ticdc_assets.lake.store.contracts import (
    HISTORY,
    OPERATION,
    VALID_FROM,
    VALID_FROM_TIME,
    VALID_TO,
    VALID_TO_TIME,
)
from ticdc_assets.rows.columns import COMMIT_TS, INEXACT

# How a version began that no event began.
_DDL = "ddl"
LOAD = "load"


@dataclass(frozen=True)
class Moment:
    """A ts, and the ts at which the table had been dropped by then, if it had."""

    ts: int
    dropped_ts: int | None = None

    def is_open(self) -> Column:
        """Whether a version is open; the DROP that ends a table ends none: it may come back."""
        ends = F.col(VALID_TO)
        is_open = ends.isNull() | (ends > self.ts)
        return is_open if self.dropped_ts is None else is_open | (ends == self.dropped_ts)


def select_ended(stored: DataFrame, moment: Moment) -> DataFrame:
    """Return the versions that had ended at a moment, with the columns of the history."""
    return stored.where((F.col(VALID_FROM) <= moment.ts) & ~moment.is_open())


def select_open(stored: DataFrame, moment: Moment) -> DataFrame:
    """Return the versions that were open at a moment, with the columns of the history."""
    return stored.where((F.col(VALID_FROM) <= moment.ts) & moment.is_open())


def read_versions(
    rows: DataFrame, columns: Sequence[HistoryColumn], schema: TableSchema
) -> DataFrame:
    """Return rows of a history under the schema that they had, each with its mark and entries."""
    values = read_columns(columns, schema)
    since = mark_start(F.col(VALID_FROM), F.col(OPERATION))
    return read_entries(rows).select(
        *(value.alias(name) for name, value in values.items()), INEXACT, since.alias(COMMIT_TS)
    )


def take_over(rows: DataFrame, columns: Sequence[HistoryColumn]) -> DataFrame:
    """Return stored rows of a history with the columns that it gets."""
    named = (value.alias(name) for name, value in take_over_columns(columns).items())
    return rows.select(*named, *HISTORY)


def make_rows(frames: Sequence[VersionFrame], columns: Sequence[HistoryColumn]) -> DataFrame:
    """Return the rows of a history: the versions that ended in any frame, or outlast the last."""
    parts = []
    for number, frame in enumerate(frames, 1):
        since, until = F.col(COMMIT_TS), F.col(UNTIL)
        is_ended = until["ts"] > since["ts"]
        kept = until.isNull() | is_ended if number == len(frames) else is_ended
        values = store_columns(columns, frame.schema)
        began = F.when(since["ddl"].isNotNull(), _DDL).otherwise(since["operation"])
        parts.append(
            frame.rows.where(kept).select(
                *(value.alias(name) for name, value in values.items()),
                since["ts"].alias(VALID_FROM),
                get_time(since["ts"]).alias(VALID_FROM_TIME),
                until["ts"].alias(VALID_TO),
                get_time(until["ts"]).alias(VALID_TO_TIME),
                began.alias(OPERATION),
                F.map_from_entries(INEXACT).alias(INEXACT),
            )
        )
    return combine_pairwise(DataFrame.unionByName, parts)


def get_time(ts: Column) -> Column:
    """Return the time of a TSO."""
    return F.timestamp_millis(F.shiftright(ts, 18))
