"""Previews of current tables: the row count and the first rows, for the pages of Dagster."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ticdc_assets.lake.apply.current_table import CurrentTable
from ticdc_assets.lake.store.delta_log import count_rows
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.lake.store.sql import quote_identifier

# Characters per value.
_WIDTH = 60


@dataclass(frozen=True)
class Preview:
    """A row count, and rows as Spark prints them, with long values cut off."""

    count: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


def preview_tables(
    lake: LakeSession, versions: Mapping[str, int], limit: int
) -> dict[str, Preview]:
    """Preview tables at their Delta versions; the row counts come from the Delta log."""

    reader = LakeReader(lake.location)

    def preview(incarnation: str) -> Preview:
        version = versions[incarnation]
        count = count_rows(reader, f"current/{incarnation}", version)
        if not limit:
            return Preview(count, (), ())
        frame = CurrentTable(lake, incarnation).rows(version).limit(limit)
        texts = (f"substring(CAST({_text(*c)} AS string), 1, {_WIDTH + 1})" for c in frame.dtypes)
        rows = frame.selectExpr(*texts).collect()
        cut_rows = tuple(tuple(_cut(value) for value in row) for row in rows)
        return Preview(count, tuple(frame.columns), cut_rows)

    with ThreadPoolExecutor() as pool:
        return dict(zip(versions, pool.map(preview, versions), strict=True))


def _text(name: str, type: str) -> str:
    return f"hex({quote_identifier(name)})" if type == "binary" else quote_identifier(name)


def _cut(value: str | None) -> str | None:
    return value if value is None or len(value) <= _WIDTH else value[:_WIDTH] + "…"
