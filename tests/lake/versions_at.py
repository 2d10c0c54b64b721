"""The rows of histories and changes at any ts, under the schemas that the schema history states."""

from collections.abc import Callable

import msgspec
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ticdc_assets.events import TableSchema
from ticdc_assets.lake.columns.conversion import format_mysql_lines
from ticdc_assets.lake.columns.inexact import read_entries
from ticdc_assets.lake.columns.writing import write_images
from ticdc_assets.lake.history.changes_table import ChangesTable
from ticdc_assets.lake.history.columns import read_columns
from ticdc_assets.lake.history.history_table import HistoryTable
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.small_tables import read_table
from ticdc_assets.rows.columns import INEXACT

IMAGE = "⌗image"
# The ts of a version that is open.
_NEVER = 1 << 63
TableRows = tuple[TableSchema, list[str]]
Kind = type[HistoryTable] | type[ChangesTable]


def read_histories(
    lake: LakeSession, kind: Kind = HistoryTable
) -> Callable[[int], dict[str, TableRows]]:
    """Read all histories, or changes; return what has the rows' images at a ts, by incarnation."""
    found: list[tuple[str, int, int, TableSchema, list[tuple[int, int, str]]]] = []
    for row in read_table(lake, "schema_history").where("incarnation <> ''").collect():
        id, start, end = row["incarnation"], row["valid_from"], row["valid_to"]
        end = _NEVER if end is None else end
        schema = msgspec.json.decode(row["schema"], type=TableSchema)
        if start < end:
            found.append((id, start, end, schema, _read(kind(lake, id), schema, start, end)))

    def at(ts: int) -> dict[str, TableRows]:
        return {
            id: (schema, [image for since, until, image in rows if since <= ts < until])
            for id, start, end, schema, rows in found
            if start <= ts < end
        }

    return at


def _read(
    table: HistoryTable | ChangesTable, schema: TableSchema, start: int, end: int
) -> list[tuple[int, int, str]]:
    if table.version is None:
        return []
    versions = table.read() if isinstance(table, HistoryTable) else fold_changes(table.read())
    is_seen = f"_valid_from < {end} AND (_valid_to IS NULL OR _valid_to > {start})"
    stored = read_entries(versions.where(is_seen))
    rows = stored.select(
        *(value.alias(name) for name, value in read_columns(table.columns, schema).items()),
        *("_valid_from", "_valid_to", INEXACT),
    ).select("_valid_from", "_valid_to", write_images(schema).alias(IMAGE))
    return [(row[0], _NEVER if row[1] is None else row[1], row[2]) for row in rows.collect()]


def fold_changes(changes: DataFrame) -> DataFrame:
    """Fold changes into versions: a row after a change is there until it is one before another."""
    sides = []
    for side in ("after", "before"):
        some = changes.where(F.col(side).isNotNull())
        rows = some.select("commit_ts", F.to_json(side).alias("⌗row"), F.col(side).alias("⌗image"))
        # Equal rows go one by one.
        by_row = Window.partitionBy("⌗row").orderBy("commit_ts")
        sides.append(rows.withColumn("⌗copy", F.row_number().over(by_row)))
    came, gone = sides
    ends = gone.select("⌗row", "⌗copy", F.col("commit_ts").alias("_valid_to"))
    # No row goes that is not there.
    lost = ends.join(came, ["⌗row", "⌗copy"], "left_outer").where(
        "commit_ts IS NULL OR commit_ts > _valid_to"
    )
    assert lost.isEmpty(), lost.collect()
    versions = came.join(ends, ["⌗row", "⌗copy"], "left_outer")
    return versions.select("⌗image.*", F.col("commit_ts").alias("_valid_from"), "_valid_to")


def print_images(schema: TableSchema, images: list[str]) -> list[dict[str, str | None]]:
    """Return rows as the dumps of TiDB print them."""
    return [msgspec.json.decode(line) for line in format_mysql_lines(images, schema)]
