"""A table that is not live says why, and one of several that a name may mean is chosen."""

import pytest

from tests.reading.made import FIRST, LAST, NAMED, make_lake
from ticdc_assets.errors import ConfigError
from ticdc_assets.events.tso_text import describe_ts
from ticdc_assets.reading import PinnedLake


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> PinnedLake:
    # A path may have any of these.
    return make_lake(str(tmp_path_factory.mktemp("made") / "100% {*} \"<>`'é订 👍&+=;~$(@:!,"))


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
