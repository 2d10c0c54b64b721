"""What a stream cannot hold under the settings of its changefeed."""

from collections.abc import Collection

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.changefeed.server_version import find_rules
from ticdc_assets.events import Ordering
from ticdc_assets.protocols.registry import get_ordering, get_traits

# What a changefeed declares where rows carry their commit ts: in the sink URI, or in the
# configuration file.
_EXTENSION = (
    "enable-tidb-extension=true in the sink URI, or enable-tidb-extension = true in"
    " [sink.kafka-config.codec-config]"
)
_INCLUDED = "include-commit-ts = true in [sink.csv]"


def describe_limits(feed: Changefeed, seen: Collection[Ordering] = ()) -> list[str]:
    """Describe what a changefeed's settings make impossible to know, one sentence per setting.

    `seen` is how the order of its rows is known, of those that were read; the bytes may have more
    than what is declared.
    """
    limits = []
    ordering = get_ordering(feed)
    if ordering != "commit_ts":
        limits.append(_describe_order(ordering, set(seen)))
    lacks_old_values = not (feed.open_output_old_value or get_traits(feed).has_old_values(feed))
    if feed.output_raw_change_event and lacks_old_values:
        limits.append(
            "with output-raw-change-event and without open.output-old-value, an UPDATE of a key"
            " looks like an INSERT: every table is paused at its first new row"
        )
    is_old_folder = find_rules(feed.server_version, enable_old_value=True).has_plain_folders
    if feed.transport == "storage" and is_old_folder:
        limits.append(
            "this server writes no database-level DDL: the tables of a dropped database remain"
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
    if get_traits(feed).may_mix_up_columns(feed):
        limits.append(
            "classic servers up to 8.5.7 may send values under the names of other columns, after a"
            " bootstrap of a table whose columns a DDL has moved (FIRST, AFTER): compare such"
            " tables with TiDB; server-version declares a newer server"
        )
    if feed.writes_updates_as_inserts is None:
        limits.append(
            "without csv.output-old-value, a server before 7.5 may write updates that look like"
            " inserts, or without their old key: declare server-version"
        )
    if feed.writes_updates_as_inserts:
        limits.append(
            "this server does not read old values for CSV: an insert may be an update, which cannot"
            " be applied to a table without a key"
        )
    limits.extend(omission.describe() for omission in feed.omissions)
    return limits


def _describe_order(declared: Ordering, seen: Collection[Ordering]) -> str:
    in_milliseconds = declared == "milliseconds"
    missing, line = (
        ("enable-tidb-extension", _EXTENSION)
        if in_milliseconds
        else ("csv.include-commit-ts", _INCLUDED)
    )
    if seen == {"commit_ts"}:
        return (
            f"{missing} is not declared, but every row has its commit ts, and is applied in that"
            f" order; declare what the changefeed has: {line}"
        )
    some = "some rows" if "commit_ts" in seen else "rows"
    if in_milliseconds:
        return (
            f"without {missing}, {some} carry milliseconds instead of a commit ts: their order is"
            " certain only at the end of the stream"
        )
    return (
        f"without {missing}, {some} carry only the table version of their file: only the end state"
        " is exact"
    )
