"""Row groups of pending rows, compared with plain Python."""

import json
from itertools import product

import pyarrow as pa
from msgspec.structs import replace

from tests.lake.canal import FEED, change, ddl, placed, row
from tests.plan.arrived import EventLog
from tests.plan.arrived import group_rows as group_in_memory
from tests.plan.work_in_memory import make_events
from ticdc_assets.events import Op, RowChange, TopicPosition
from ticdc_assets.lake.apply.row_groups import GroupOptions, list_groups, summarize
from ticdc_assets.plan.ddl_cuts import DdlCuts, find_cuts
from ticdc_assets.plan.row_group import RowGroup
from ticdc_assets.plan.state import State
from ticdc_assets.schema.catalog import table_key
from ticdc_assets.store.event_rows import Arrival, to_arrow
from ticdc_assets.stream.reading import read_topic_events

RECORDS = placed(
    [
        row("d", "t", 10, id="1", v="a"),
        row("d", "t", 20, id="2", v="b"),
        ddl("d", "t", 20, "TRUNCATE", "TRUNCATE TABLE `t`"),
        row("d", "t", 21, id="3", v="c"),
        row("d", "other", 21, id="3", v="c"),
        ddl("d", "t", 30, "RENAME", "RENAME TABLE `d`.`t` TO `d`.`u`"),
        row("d", "u", 30, id="4"),
        row("d", "u", 31, id="5", v="e"),
        row("d", "t", 40, id="6", v="f"),
        change("UPDATE", "d", "t", 45, {"id": "6", "v": "g"}),
        ddl("d", "", 50, "QUERY", "DROP DATABASE `d`"),
        *(row("d", name, 60, id="7", v="g") for name in ("t", "u", "other")),
    ]
)


def test_no_group_spans_a_ddl_of_its_table() -> None:
    log = EventLog()
    log.add_batch(read_topic_events(FEED, RECORDS, None), 0)
    cuts = find_cuts([change for _, change in log.ddls], 0)
    pending = log.pending_rows(State(), 0, ts=100, through_batch=1)
    expected = group_in_memory(pending, 0, cuts, has_checksums=False)
    for lack, certain in product((False, True), repeat=2):
        options, rows = GroupOptions(lack, certain), make_events(pending, 0)
        made = list_groups([summarize(rows, cuts, options)])
        blocks = [rows.slice(start, 3) for start in range(0, rows.num_rows, 3)]
        assert list_groups([summarize(block, cuts, options) for block in blocks]) == made
        assert sorted(map(describe, made)) == sorted(map(describe, expected))
        assert sum(g.inserts for g in made) == (10 if certain else 0)
        assert sum(g.overwrites for g in made) == (1 if lack else 0)
    assert [g[2:] for g in sorted(map(describe, made)) if g[0] == "t"] == [
        (10, 20, 2),
        (21, 21, 1),
        (40, 45, 2),
        (60, 60, 1),
    ]


def test_a_name_that_is_not_utf_8_and_an_empty_key_are_grouped() -> None:
    table = "t\udcff"
    change = RowChange(
        op=Op.INSERT,
        commit_ts=1,
        database="d",
        table=table,
        position=TopicPosition("t", 0, 0),
        key_columns=(),
    )
    batches = to_arrow([Arrival(1, n, 0, replace(change, commit_ts=n)) for n in (10, 20)])
    rows = pa.Table.from_batches(batches)
    placed = {"order_ts": [10, 20], "ordered_by_commit_ts": [True] * 2, "after_ddls": [False] * 2}
    for name, values in placed.items():
        rows = rows.append_column(name, pa.array(values))
    cuts = DdlCuts({table_key("d", table): (15,)})
    groups = list_groups([summarize(rows, cuts, GroupOptions(old_values_may_lack=True))])
    assert [(g.first_ts, g.last_ts, g.key_columns) for g in groups] == [(10, 10, ()), (20, 20, ())]


def describe(group: RowGroup) -> tuple[str, str, int, int, int]:
    observed = json.dumps(json.loads(group.observed or "null"), sort_keys=True)
    return group.table, observed, group.first_ts, group.last_ts, group.rows
