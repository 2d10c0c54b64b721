"""What is said of a name that no table of a lake has: what became of it, or why it never came."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.made_lake import schema
from ticdc_assets.changefeed import Changefeed, changefeed_from_uri
from ticdc_assets.errors import ConfigError
from ticdc_assets.events.tso_text import describe_ts
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.state import Incarnation, State, UnknownTable
from ticdc_assets.schema.catalog import CatalogState, key_of
from ticdc_assets.store.arrow import arrow_schema
from ticdc_assets.store.contracts import CONTRACTS
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.names import LakeNames
from ticdc_assets.views.tables_at import TablesAt

URI = "kafka://h:9092/t?protocol=simple"
LAST = 470745045728493569
# Incarnation, name, and from when to when it has this version.
HISTORY = [
    ("", "d.", 5, None),
    ("a", "d.first", 10, 20),
    ("a", "d.second", 20, 30),
    ("a", "d.second", 30, 40),
    ("a", "d.orders", 40, None),
    ("b", "d.gone", 10, 50),
    ("b", "d.gone", 50, 50),
    ("c", "d.emptied", 10, 60),
    ("c", "d.emptied", 60, 60),
    ("d", "d.emptied", 60, None),
    ("e", "d.first", 70, 80),
    ("e", "d.first", 80, 80),
    ("h", "d.newer", 30, None),
]
# What made the first version of an incarnation: a rename of a table that had sent nothing.
SQL = {"h": "RENAME TABLE `d`.`older` TO `d`.`newer`"}
NOW = {"a": ("d", "orders"), "d": ("d", "emptied"), "f": ("d", "twice.x"), "g": ("d.twice", "x")}


def open_names(folder: Path, feed: Changefeed) -> LakeNames:
    lake = Lake(str(folder), feed.id)
    rows = []
    for incarnation, name, since, until in HISTORY:
        database, _, table = name.partition(".")
        row = {"incarnation": incarnation, "database": database, "table": table}
        row["sql"] = SQL.get(incarnation, "")
        rows.append({**row, "valid_from": since, "valid_to": until})
    history = pa.Table.from_pylist(rows, schema=arrow_schema(CONTRACTS["schema_history"]))
    write_deltalake(lake.path("schema_history"), history)
    tables = {
        id: Incarnation(id=id, schema=schema(*pair), created_ts=10) for id, pair in NOW.items()
    }
    state = State(
        ts=LAST,
        snapshot_id=1,
        incarnations=tables,
        names=[(key_of(table.schema), id) for id, table in tables.items()],
        unknown_tables=[UnknownTable("d", "early", None, 1, 1)],
        catalog=CatalogState(views=[("d", "view")]),
    )
    return LakeNames(LakeReader(lake), feed, Snapshot(state))


def filtered(tmp_path: Path) -> Changefeed:
    config = tmp_path / "config.toml"
    config.write_text('[filter]\nrules = ["d.*", "!d.tmp_*"]\n')
    return changefeed_from_uri(URI, config=config)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("D.FIRST", f"it was dropped at {describe_ts(80)}"),
        ("d.older", f"it was renamed to d.newer at {describe_ts(30)}"),
        ("d.second", f"it was renamed to d.orders at {describe_ts(40)}"),
        ("d.gone", f"it was dropped at {describe_ts(50)}"),
        ("d.early", "its rows have arrived, but no schema yet"),
        ("d.view", "it is a view, which has no rows of its own"),
        ("d.tmp_1", "filter.rules keep it out of the changefeed: the rule '!d.tmp_*'"),
        ("other.t", "filter.rules keep it out of the changefeed: no rule lets it through"),
        (
            "d.order",
            "the changefeed has sent nothing of a table of this name; did you mean d.orders?",
        ),
        ("d.t.t", "the changefeed has sent nothing of a table of this name"),
    ],
)
def test_it_is_said_what_is_known_of_a_name(tmp_path: Path, name: str, reason: str) -> None:
    names = open_names(tmp_path / "lake", filtered(tmp_path))
    with pytest.raises(ConfigError) as error:
        names.find(name)
    assert str(error.value) == f"DB.TABLE: no table {name} in the lake: {reason}"
    if reason.startswith(("it was", "its rows")):
        names.require_known(name)
    else:
        with pytest.raises(ConfigError, match="no table"):
            names.require_known(name)


def test_at_a_ts_it_is_said_what_came_before_and_what_comes_after(tmp_path: Path) -> None:
    names = open_names(tmp_path / "lake", changefeed_from_uri(URI))
    nothing = TablesAt(25, State(ts=25))
    for name, reason in (
        ("d.first", f"it was renamed to d.second at {describe_ts(20)}"),
        ("d.orders", f"it begins at {describe_ts(40)}"),
    ):
        with pytest.raises(ConfigError) as error:
            names.choose(nothing, name)
        assert str(error.value) == f"DB.TABLE: no table {name} at {describe_ts(25)}: {reason}"


def test_a_name_of_one_table_finds_it_and_a_name_of_two_is_an_error(tmp_path: Path) -> None:
    names = open_names(tmp_path / "lake", changefeed_from_uri(URI))
    assert names.find("D.Orders").id == "a"
    with pytest.raises(ConfigError, match=r"may be `d`.`twice.x` or `d.twice`.`x`: show --out"):
        names.find("d.twice.x")
