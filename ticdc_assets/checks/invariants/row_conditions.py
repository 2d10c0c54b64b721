"""What checks ask of a row event, as columns over `events`: its images, its key, its place."""

from collections.abc import Callable
from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.protocols.registry import get_traits

LIVES = """
    name string, lives array<struct<
        incarnation: string, low: bigint, high: bigint, key: array<string>>>
"""
Fault = Literal["insert", "update", "delete", "key"]
# Where a row event came from, as a position prints itself.
PLACE = (
    "if(partition IS NULL, concat_ws('-', source, number),"
    " concat_ws('-', source, partition, number, `index`)) AS place"
)


def faults(feed: Changefeed) -> dict[Fault, str]:
    """What is wrong with a row, by the settings of its changefeed."""
    update = "NOT has_new"
    if get_traits(feed).has_old_values(feed):
        update += " OR NOT has_old"
        if not feed.only_output_updated_columns:
            update += " OR uneven"
    return {
        "insert": "op = 'insert' AND (has_old OR NOT has_new)",
        "update": f"op = 'update' AND ({update})",
        "delete": "op = 'delete' AND (has_new OR NOT has_old)",
        "key": "size(lacking) > 0",
    }


def place() -> Column:
    """A row's place among the DDLs: rows that have only a file's version come after its DDL."""
    return F.col("commit_ts") + (F.col("ordering") == "table_version").cast("bigint")


def lives_at(at: Column) -> Callable[[Column], Column]:
    """Whether a table had a name at a place."""
    return lambda life: (life["low"] < at) & (life["high"].isNull() | (at <= life["high"]))


def lacking() -> Column:
    """The key's columns that a row's image has no value for."""
    stated = F.col("key_columns")
    key = F.when(F.size(stated) > 0, stated).otherwise(F.col("life.key"))
    image = F.when(F.col("op") == "delete", F.col("before")).otherwise(F.col("after"))
    values = F.map_entries(F.from_json(image, "map<string, string>"))

    def is_there(name: Column) -> Column:
        return F.exists(
            values, lambda v: (F.lower(v["key"]) == F.lower(name)) & v["value"].isNotNull()
        )

    return F.filter(key, lambda name: ~is_there(name))


def uneven() -> Column:
    """Whether an update's images differ in how many columns they have."""
    old, new = (F.size(F.json_object_keys(F.col(image))) for image in ("before", "after"))
    return old != new
