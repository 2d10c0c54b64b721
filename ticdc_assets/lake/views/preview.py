"""A few rows of a current table, and how many there are: for a page that shows the table."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ticdc_assets.lake.apply.current_table import CurrentTable
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.sql import quote_identifier

# Of a value, since a page shows a line.
_WIDTH = 60


@dataclass(frozen=True)
class Preview:
    """The rows are texts as Spark prints them, cut off where they are long."""

    count: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


def preview_tables(
    lake: LakeSession, versions: Mapping[str, int], limit: int
) -> dict[str, Preview]:
    """Look into tables at their Delta versions; counting reads no data, only Delta's log."""

    def one(incarnation: str) -> Preview:
        table, version = CurrentTable(lake, incarnation), versions[incarnation]
        count = table.count(version)
        if not limit:
            return Preview(count, (), ())
        frame = table.rows(version).limit(limit)
        texts = (f"substring(CAST({_text(*c)} AS string), 1, {_WIDTH + 1})" for c in frame.dtypes)
        rows = frame.selectExpr(*texts).collect()
        shown = tuple(tuple(_cut(value) for value in row) for row in rows)
        return Preview(count, tuple(frame.columns), shown)

    with ThreadPoolExecutor() as pool:
        return dict(zip(versions, pool.map(one, versions), strict=True))


def _text(name: str, type: str) -> str:
    return f"hex({quote_identifier(name)})" if type == "binary" else quote_identifier(name)


def _cut(value: str | None) -> str | None:
    return value if value is None or len(value) <= _WIDTH else value[:_WIDTH] + "…"
