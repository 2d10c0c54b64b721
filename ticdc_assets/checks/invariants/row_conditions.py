"""Conditions on row events, as Spark columns over `events`: images, handle key and position."""

from collections.abc import Callable
from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.events import FETCHED
from ticdc_assets.protocols.registry import get_traits

# Per name, which incarnation bore it in which interval of commit ts, and its handle key.
NAME_INTERVALS = """
    name string, intervals array<struct<
        incarnation: string, low: bigint, high: bigint, key: array<string>>>
"""
Fault = Literal["insert", "update", "delete", "key"]
# The position of a row event, formatted as `events.Position` formats itself.
POSITION = (
    "if(partition IS NULL, concat_ws('-', source, number),"
    " concat_ws('-', source, partition, number, `index`)) AS position"
)


def fault_conditions(feed: Changefeed) -> dict[Fault, str]:
    """Return the SQL condition of every fault a row can have, by the changefeed's settings."""
    update = "NOT has_new"
    if get_traits(feed).has_old_values(feed):
        update += " OR NOT has_old"
        if not feed.only_output_updated_columns:
            update += " OR column_counts_differ"
    return {
        "insert": "op = 'insert' AND (has_old OR NOT has_new)",
        "update": f"op = 'update' AND ({update})",
        "delete": "op = 'delete' AND (has_new OR NOT has_old)",
        "key": "size(missing_key_columns) > 0",
    }


def ddl_order() -> Column:
    """Return the ts that orders a row among DDLs: rows ordered by table version follow its DDL."""
    return F.col("commit_ts") + (F.col("ordering") == "table_version").cast("bigint")


def contains(ts: Column) -> Callable[[Column], Column]:
    """Return a predicate: whether a name interval contains a ts."""
    return lambda interval: (
        (interval["low"] < ts) & (interval["high"].isNull() | (ts <= interval["high"]))
    )


def missing_key_columns() -> Column:
    """Return the handle key columns that a row's image has no value for."""
    stated = F.col("key_columns")
    key = F.when(F.size(stated) > 0, stated).otherwise(F.col("interval.key"))
    image = F.when(F.col("op") == "delete", F.col("before")).otherwise(F.col("after"))
    values = F.map_entries(F.from_json(image, "map<string, string>"))

    def has_value(name: Column) -> Column:
        return F.exists(
            values, lambda v: (F.lower(v["key"]) == F.lower(name)) & v["value"].isNotNull()
        )

    return F.filter(key, lambda name: ~has_value(name))


def column_counts_differ() -> Column:
    """Return whether an update's images differ in their number of columns.

    Of a row that was fetched from upstream, the old row may hold the handle key only.
    """
    old, new = (F.size(F.json_object_keys(F.col(image))) for image in ("before", "after"))
    return (old != new) & ~F.col("statement").eqNullSafe(F.lit(FETCHED))
