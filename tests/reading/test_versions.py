"""Histories and changes read by name: up to the ts of the lake, whatever came later."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.lake.readers import list_lines
from tests.reading.conftest import Shop, make_shop
from ticdc_assets.errors import ConfigError
from ticdc_assets.reading import PinnedTable, open_lake
from ticdc_assets.rows.lines import format_blocks

TABLE = "shop.orders"


def print_valid(table: PinnedTable) -> list[bytes]:
    """Return the rows that a history says are valid, as lines in byte order."""
    rows = table.history().arrow()
    valid = rows.filter(pc.is_null(rows["_valid_to"]))
    assert valid["_valid_to_time"].null_count == valid.num_rows
    block = dict(zip(valid.column_names, valid.columns, strict=True))
    (lines,) = format_blocks([block], table._table.schema)
    return sorted(lines)


def fold(changes: pa.Table) -> dict[int, str]:
    """Return the totals of orders after some changes."""
    totals: dict[int, str] = {}
    for change in changes.sort_by("commit_ts").to_pylist():
        before, after = change["before"], change["after"]
        if before is not None:
            del totals[int(before["id"])]
        if after is not None:
            totals[int(after["id"])] = str(after["total"])
    return totals


def test_at_every_snapshot_they_lead_to_the_rows_of_the_table(shop: Shop) -> None:
    for ts in open_lake(shop.root).snapshots():
        table = open_lake(shop.root).table(TABLE, at=ts)
        truth = shop.truth(ts)[TABLE]
        assert print_valid(table) == truth
        changes = table.changes().arrow()
        assert pc.max(changes["commit_ts"]).as_py() <= ts
        assert fold(changes) == {int(row["id"]): row["total"] for row in map(json.loads, truth)}


def test_every_library_has_the_same_versions(shop: Shop) -> None:
    table = open_lake(shop.root).table(TABLE)
    for versions in (table.history(), table.changes()):
        rows = versions.arrow()
        assert rows.schema == versions.arrow_schema
        lines = list_lines(rows, rows.schema)
        frames = versions.polars().to_arrow(), versions.duckdb().to_arrow_table()
        for found in (*frames, pa.Table.from_pandas(versions.pandas(), preserve_index=False)):
            assert list_lines(found, rows.schema) == lines
        assert versions.arrow(rows.column_names[:2]).equals(rows.select(rows.column_names[:2]))


def test_what_is_not_kept_or_not_complete_is_no_history(tmp_path: Path) -> None:
    shop = make_shop(tmp_path)
    advances = shop.advance()
    first = next(advances)
    # As while a run has applied a window, and not updated the history.
    shop.feed = replace(shop.feed, history=(), changes=())
    second = next(advances)
    table = open_lake(shop.root).table(TABLE)
    for kind, read in (("history", table.history), ("changes", table.changes)):
        with pytest.raises(ConfigError, match=f"^{kind}: those of shop.orders are complete up to"):
            read()
    assert table.resolved_ts == second
    before = open_lake(shop.root).table(TABLE, at=first)
    assert print_valid(before) == shop.truth(first)[TABLE]
    with pytest.raises(ConfigError, match=r"^history: the changefeed keeps none of shop\.sessions"):
        open_lake(shop.root).table("shop.sessions").history()
