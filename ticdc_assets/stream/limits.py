"""What a stream cannot hold under the settings of its changefeed."""

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.protocols.registry import get_ordering


def describe_limits(feed: Changefeed) -> list[str]:
    """Describe what a changefeed's settings make impossible to know, one sentence per setting."""
    limits = []
    ordering = get_ordering(feed)
    if ordering == "milliseconds":
        limits.append(
            "without enable-tidb-extension, rows carry milliseconds instead of a commit ts: their"
            " order is certain only at the end of the stream"
        )
    if ordering == "table_version":
        limits.append(
            "without csv.include-commit-ts, rows carry only the table version of their file: only"
            " the end state is exact"
        )
    if feed.use_table_id_as_path:
        limits.append(
            "with use-table-id-as-path, TiCDC writes no database-level DDL: the tables of a dropped"
            " database remain"
        )
    if feed.transport == "storage" and not feed.enable_partition_separator:
        limits.append(
            "without enable-partition-separator, the classic TiCDC overwrites files of partitioned"
            " tables: the folder does not hold the lost rows"
        )
    return limits
