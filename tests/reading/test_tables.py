"""A table that is not live says why, and one of several that a name may mean is chosen."""

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.hostile_names import NAMES
from tests.made_lake import schema, write_snapshot, write_tables
from ticdc_assets.errors import ConfigError
from ticdc_assets.events.tso_text import describe_ts
from ticdc_assets.lake.store.lake import Lake
from ticdc_assets.plan.state import Incarnation, State
from ticdc_assets.reading import PinnedLake, open_lake
from ticdc_assets.rows.columns import make_row_schema
from ticdc_assets.schema.catalog import key_of

FIRST, LAST = 470745045728493568, 470745045728493569
NAMED = [("d", "twice.x"), ("d.twice", "x"), *(("d", name) for name in NAMES if name != "\ud800")]


def make_lake(folder: Path) -> PinnedLake:
    """Make a lake with tables of every status, all with one row."""
    lake = Lake(str(folder), "made")
    stated = {"live": {}, "paused": {"status": "paused", "reason": "DROP COLUMN `k`"}}
    stated["waiting"] = {"status": "waiting", "reason": "no schema"}
    stated["partial"] = {"partial_reason": "it is older"}
    tables = [
        Incarnation(id=name, schema=schema("s", name, "t"), created_ts=1, stopped_ts=FIRST, **more)
        for name, more in stated.items()
    ]
    tables += [
        Incarnation(id=f"t{n}", schema=schema(*pair, "t"), created_ts=1)
        for n, pair in enumerate(NAMED)
    ]
    state = State(
        ts=LAST,
        snapshot_id=1,
        incarnations={table.id: table for table in tables},
        names=[(key_of(table.schema), table.id) for table in tables],
    )
    versions = {table.id: 0 for table in tables}
    for number, table in enumerate(tables):
        row = {"id": number, "t": table.schema.table, "_commit_ts": 1}
        fields = make_row_schema(table.schema)
        rows = pa.Table.from_pylist([row], schema=fields).drop_columns(["_inexact"])
        write_deltalake(lake.current_path(table.id), rows)
    write_tables(lake, [])
    write_snapshot(lake, 1, LAST, versions, state=msgspec.json.encode(state).decode())
    return open_lake(folder)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> PinnedLake:
    return make_lake(tmp_path_factory.mktemp("made"))


def test_a_stopped_table_is_never_read_as_if_it_were_current(lake: PinnedLake) -> None:
    paused = lake.table("s.paused")
    assert (paused.status, paused.reason, paused.resolved_ts) == (
        "paused",
        "DROP COLUMN `k`",
        FIRST,
    )
    assert paused.version is None
    for read in (paused.arrow, paused.polars, paused.pandas, paused.duckdb, paused.delta):
        with pytest.raises(ConfigError) as error:
            read()
        assert str(error.value) == (
            "table: s.paused is paused: DROP COLUMN `k`; it is complete up to"
            f" {describe_ts(FIRST)}: read it at this TSO"
        )
    with pytest.raises(ConfigError, match=r"^table: s\.waiting is waiting: no schema"):
        lake.table("s.waiting").arrow()


def test_a_partial_table_is_read_and_says_what_it_is(lake: PinnedLake) -> None:
    partial = lake.table("s.partial")
    assert (partial.status, partial.reason) == ("partial", "it is older")
    assert partial.resolved_ts == LAST
    assert partial.arrow()["t"].to_pylist() == ["partial"]


def test_a_name_that_may_be_two_tables_takes_a_pair(lake: PinnedLake) -> None:
    with pytest.raises(ConfigError) as error:
        lake.table("d.twice.x")
    assert str(error.value) == (
        "name: d.twice.x may be ('d', 'twice.x') or ('d.twice', 'x'): give the pair"
    )
    for pair in (("d", "twice.x"), ("D.Twice", "X")):
        assert lake.table(pair).arrow()["t"].to_pylist() == [pair[1].lower()]


def test_names_of_any_characters_are_found_and_printed_safely(lake: PinnedLake) -> None:
    for database, name in NAMED[2:]:
        for given in ((database, name), f"{database}.{name}"):
            table = lake.table(given)
            assert table.arrow()["t"].to_pylist() == [name]
            assert table.duckdb().fetchall()[0][1] == name
        assert repr(table).isprintable()
    assert [(t.database, t.table) for t in lake.tables() if t.database != "s"] == sorted(NAMED)
