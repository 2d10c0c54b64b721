"""A share of the tables every night, on a real TiDB to which clients write, by a made-up clock."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.lake.test_tidb_verify import Killed, interrupted
from tests.lake.tidb_feed import TidbFeed, TidbLake, busy
from tests.tidb_server import Tidb
from ticdc_assets.lake.log import verifications
from ticdc_assets.lake.log.verifications import Results, TableVerification
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.verify import night as nights
from ticdc_assets.verify.night import Night
from ticdc_assets.verify.verify import Environment
from ticdc_assets.views.proofs import read_proof_summary, read_proven_tables

DAYS = 3
FIRST = datetime.now(UTC).replace(hour=1, minute=30, second=0, microsecond=0)
# Rows of each table; clients write to the last two.
ROWS = {"big": 3000, "dropped": 500, "named": 500, "wrong": 20, "a": 0, "b": 0}
DDL = "(id int PRIMARY KEY, v varchar(20))"


class Clock(datetime):
    """The time that verifications have."""

    time = FIRST

    @classmethod
    def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
        return cls.time


@pytest.fixture
def lake(
    request: pytest.FixtureRequest, tmp_path: Path, tidb: Tidb, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TidbLake]:
    monkeypatch.setattr(verifications, "datetime", Clock)
    Clock.time = FIRST
    tidb.run("DROP DATABASE IF EXISTS nightly", "CREATE DATABASE nightly", "USE nightly")
    for table, count in ROWS.items():
        tidb.run(f"CREATE TABLE nightly.{table} {DDL}")
        if count:
            values = ", ".join(f"({10_000_000 + n}, 'x')" for n in range(count))
            tidb.run(f"INSERT INTO nightly.{table} VALUES {values}")
    feed = TidbFeed(tidb, "nightly")
    upstream = replace(tidb.upstream, prove_every_days=DAYS)
    start_spark = partial(request.getfixturevalue, "spark")
    return TidbLake.make(feed, tmp_path / "lake", start_spark, upstream=upstream)


def open_night(lake: TidbLake, open_upstream: Any = None, **settings: Any) -> Night:
    upstream = lake.session.feed.upstream
    assert upstream is not None
    environment = Environment(
        LakeReader(lake.session.location),
        replace(lake.session.feed, upstream=replace(upstream, **settings)),
        lambda: lake.session,
        open_upstream or lake.database.open_snapshot,
    )
    return Night(environment, lambda _: None, Clock.time)


def describe(lake: TidbLake, table: str) -> str:
    tables, _ = read_proven_tables(lake.session.location, lake.session.feed)
    (found,) = (each for each in tables.values() if each.table == table)
    return found.judge(DAYS, Clock.time).text


def test_all_tables_have_their_night_and_a_difference_is_found_on_its_own(
    tidb: Tidb, lake: TidbLake
) -> None:
    seen: dict[str, list[tuple[int, str]]] = defaultdict(list)
    costs = []

    def pass_night(number: int) -> list[TableVerification]:
        Clock.time = FIRST + timedelta(days=number)
        assert lake.advance(tidb.now()) == []
        night = open_night(lake)
        found = list(night.verify())
        for each in found:
            seen[each.table].append((number, each.verdict))
        costs.append(night.rows_read)
        assert night.rows_read == sum(each.rows_summed for each in found)
        assert night.left == []
        assert night.statements >= len(found)
        # The share is done; whoever starts it again reads nothing.
        assert list(open_night(lake).verify()) == []
        return found

    with busy(lake.feed, "a", "b", clients=1):
        lake.load()
        pass_night(0)
    for number in range(1, DAYS):
        pass_night(number)
    assert {verdict for each in seen.values() for _, verdict in each} == {"equal"}
    # Nobody sends this change.
    tidb.run("UPDATE nightly.wrong SET v = 'other' WHERE id = 10000007")
    lake.feed.alter("named", "RENAME", "RENAME TABLE named TO renamed")
    lake.feed.alter("dropped", "ERASE", "DROP TABLE dropped")
    lake.feed.alter("dropped", "CREATE", f"CREATE TABLE dropped {DDL}")
    for number in range(DAYS, 3 * DAYS):
        pass_night(number)

    # Every table in any three nights, whatever it is named by then.
    seen["renamed"] = seen.pop("named") + seen["renamed"]
    for name, found in seen.items():
        at = [number for number, _ in found]
        assert at[0] < DAYS, name
        assert all(later - sooner <= DAYS for sooner, later in pairwise(at)), name
        assert 3 * DAYS - at[-1] <= DAYS, name
    # One table has most rows, and the others of a night cost no more than its share.
    assert max(costs) <= 3000 + 2 * (sum(ROWS.values()) + 1000 * len(ROWS)) / DAYS
    assert min(costs) < 3000
    assert {verdict for _, verdict in seen["wrong"]} == {"equal", "differs"}
    (first, _), *_ = (each for each in seen["wrong"] if each[1] == "differs")
    assert DAYS <= first < 2 * DAYS
    others = {name: found for name, found in seen.items() if name != "wrong"}
    assert {verdict for found in others.values() for _, verdict in found} == {"equal"}

    summary = read_proof_summary(lake.session.location, lake.session.feed, Clock.time)
    assert summary.by_state == {"proven": 5, "differs": 1}
    # Its last proof is of the first nights.
    assert summary.late == 1
    assert summary.last_night is not None
    assert summary.last_night.rows_read == costs[-1]
    assert describe(lake, "wrong").startswith("differed from TiDB at ")
    assert "(1 row); equal to TiDB at " in describe(lake, "wrong")
    assert describe(lake, "renamed").startswith("equal to TiDB at ")


def test_a_night_ends_with_its_minutes_and_goes_on_at_newer_snapshots(
    tidb: Tidb, lake: TidbLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.load()
    assert lake.advance(tidb.now()) == []
    monkeypatch.setattr(nights, "_SECONDS_AT_ONE_TS", 0.0)
    seconds = iter(range(0, 1000, 10))
    monkeypatch.setattr(nights.time, "monotonic", lambda: next(seconds))
    night = open_night(lake, prove_every_days=1, prove_minutes=1)
    tsos = []
    for found in night.verify():
        assert found.verdict == "equal"
        tsos.append(found.resolved_ts)
        assert lake.advance(tidb.now()) == []
    assert 0 < len(tsos) < len(ROWS)
    assert tsos == sorted(set(tsos))
    assert len(night.left) == len(ROWS) - len(tsos)
    # Nothing was killed, so nothing is to be continued.
    assert Results(lake.session.location).read_progress() == (None, {})
    monkeypatch.undo()
    rest = open_night(lake, prove_every_days=1)
    assert rest.left == night.left
    assert [found.name for found in rest.verify()] == night.left


def test_a_night_that_was_killed_goes_on_with_what_is_left(tidb: Tidb, lake: TidbLake) -> None:
    lake.load()
    assert lake.advance(tidb.now()) == []

    def kill(number: int) -> None:
        if number == 12:
            raise Killed

    night = open_night(lake, open_upstream=partial(interrupted, lake, kill), prove_every_days=1)
    found = []
    with pytest.raises(Killed):
        found += night.verify()
    names = night.left
    # It goes on at the TSO of its snapshot, whatever happened since.
    tidb.run("DELETE FROM nightly.big", "DELETE FROM nightly.wrong")
    assert lake.advance(tidb.now()) == []
    rest = open_night(lake, prove_every_days=1)
    assert 0 < len(names) < len(ROWS)
    assert rest.left == names
    assert [(each.name, each.verdict) for each in rest.verify()] == [(n, "equal") for n in names]

    # The next night, too, is killed; a table that is new has no part in what it had begun.
    Clock.time += timedelta(days=1)
    night = open_night(lake, open_upstream=partial(interrupted, lake, kill), prove_every_days=1)
    with pytest.raises(Killed):
        list(night.verify())
    lake.feed.alter("new", "CREATE", f"CREATE TABLE new {DDL}")
    assert lake.advance(tidb.now()) == []
    rest = open_night(lake, prove_every_days=1)
    names = rest.left
    assert "nightly.new" in names
    assert [each.name for each in rest.verify()] == names
    assert Results(lake.session.location).read_progress() == (None, {})
