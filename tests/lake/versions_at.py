"""The rows of histories at any ts, under the schemas that the schema history states for it."""

from collections.abc import Callable

import msgspec

from ticdc_assets.events import TableSchema
from ticdc_assets.lake.columns.conversion import format_mysql_lines
from ticdc_assets.lake.columns.inexact import read_entries
from ticdc_assets.lake.columns.writing import write_images
from ticdc_assets.lake.history.columns import read_columns
from ticdc_assets.lake.history.history_table import HistoryTable
from ticdc_assets.lake.store.contracts import INEXACT
from ticdc_assets.lake.store.lake import LakeSession

IMAGE = "⌗image"
# The ts of a version that is open.
_NEVER = 1 << 63
TableRows = tuple[TableSchema, list[str]]


def read_histories(lake: LakeSession) -> Callable[[int], dict[str, TableRows]]:
    """Read all histories; return what has the rows' images at a ts, by incarnation."""
    found: list[tuple[str, int, int, TableSchema, list[tuple[int, int, str]]]] = []
    for row in lake.read("schema_history").where("incarnation <> ''").collect():
        id, start, end = row["incarnation"], row["valid_from"], row["valid_to"]
        end = _NEVER if end is None else end
        schema = msgspec.json.decode(row["schema"], type=TableSchema)
        if start < end:
            found.append((id, start, end, schema, _read(lake, id, schema, start, end)))

    def at(ts: int) -> dict[str, TableRows]:
        return {
            id: (schema, [image for since, until, image in rows if since <= ts < until])
            for id, start, end, schema, rows in found
            if start <= ts < end
        }

    return at


def _read(
    lake: LakeSession, id: str, schema: TableSchema, start: int, end: int
) -> list[tuple[int, int, str]]:
    history = HistoryTable(lake, id)
    if history.version is None:
        return []
    is_seen = f"_valid_from < {end} AND (_valid_to IS NULL OR _valid_to > {start})"
    stored = read_entries(history.read().where(is_seen))
    rows = stored.select(
        *(value.alias(name) for name, value in read_columns(history.columns, schema).items()),
        *("_valid_from", "_valid_to", INEXACT),
    ).select("_valid_from", "_valid_to", write_images(schema).alias(IMAGE))
    return [(row[0], _NEVER if row[1] is None else row[1], row[2]) for row in rows.collect()]


def print_images(schema: TableSchema, images: list[str]) -> list[dict[str, str | None]]:
    """Return rows as the dumps of TiDB print them."""
    return [msgspec.json.decode(line) for line in format_mysql_lines(images, schema)]
