"""A layout that is declared anew has no part in which tables are replayed."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.lake.addresses import need_none
from tests.lake.canal import FEED, change, ddl, placed, watermark
from tests.lake.life_of_names import read_named
from ticdc_assets.changefeed.layout import TableLayout
from ticdc_assets.lake.advance import AdvanceResult, RecordSource, advance
from ticdc_assets.lake.apply import table_features
from ticdc_assets.protocols.message import Message
from ticdc_assets.store.lake import Lake, LakeSession

BIGINTS = TableLayout(("*.*",), bigint_unsigned="bigint")


def put(table: str, ts: int, id: int) -> Message:
    types = {"u": "bigint unsigned"}
    return change("INSERT", "d", table, ts, {"id": str(id), "u": "7"}, **types)


def test_a_late_row_replays_its_table_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_features, "LARGE_TABLE", 1 << 20)
    location, sent = Lake(str(tmp_path / "lake"), FEED.id), []

    def go_on(*messages: Message, layouts: tuple[TableLayout, ...] = ()) -> AdvanceResult:
        sent.extend(messages)
        lake = LakeSession(need_none, location, replace(FEED, layouts=layouts))
        return advance(lake, RecordSource(lambda _: placed(sent)))

    sql = "CREATE TABLE {} (id INT PRIMARY KEY, u BIGINT UNSIGNED)"
    created = [ddl("d", name, 2, "CREATE", sql.format(name)) for name in "abc"]
    go_on(*created, *(put(name, 5, 1) for name in "abc"), watermark(9))
    go_on(*(put(name, 15, 2) for name in "abc"), watermark(19))

    done = go_on(put("a", 12, 3), watermark(29), layouts=(BIGINTS,)).applied

    assert (done.replayed, done.problems) == (1, [])
    go_on(put("a", 35, 4), watermark(39), layouts=(BIGINTS,))
    for name, ids in (("a", [1, 2, 3, 4]), ("b", [1, 2]), ("c", [1, 2])):
        path = location.path(f"current/d.{name}")
        assert read_named(path) == (f"d.{name}", [{"id": id, "u": 7} for id in ids])
