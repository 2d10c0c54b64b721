"""A share of the tables every night, on a real TiDB and by a made-up clock."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.lake.test_tidb_verify import Killed
from tests.lake.tidb_copies import acting
from tests.lake.tidb_feed import TidbFeed, TidbLake, busy
from tests.tidb_server import Tidb
from ticdc_assets.checks.equality import evaluate_newest_verifications
from ticdc_assets.checks.proof import evaluate_proofs
from ticdc_assets.log import verifications
from ticdc_assets.log.verifications import Results
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.verify import night as nights
from ticdc_assets.verify.night import Night
from ticdc_assets.verify.verify import Environment
from ticdc_assets.views.proofs import read_proof_summary, read_proven_tables

DAYS = 3
FIRST = datetime.now(UTC).replace(hour=1, minute=30, second=0, microsecond=0)
# Rows of each table; clients write some to the last two.
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


@dataclass
class Nights:
    """Nights that each verify a share: the verdicts of each table by their night, and the costs."""

    lake: TidbLake
    seen: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    costs: list[int] = field(default_factory=list)

    def pass_by(self) -> None:
        Clock.time = FIRST + timedelta(days=len(self.costs))
        assert self.lake.advance(self.lake.feed.server.now()) == []
        night = open_night(self.lake)
        found = list(night.verify())
        for each in found:
            self.seen[each.table].append((len(self.costs), each.verdict))
        self.costs.append(night.rows_read)
        assert night.rows_read == sum(each.rows_summed for each in found)
        assert night.left == []
        assert night.statements >= len(found)
        # The share is done; whoever starts it again reads nothing.
        assert list(open_night(self.lake).verify()) == []


def test_all_tables_have_their_night_and_a_difference_is_found_on_its_own(
    tidb: Tidb, lake: TidbLake
) -> None:
    nights = Nights(lake)
    with busy(lake.feed, "a", "b"):
        pass
    lake.load()
    while len(nights.costs) < DAYS:
        nights.pass_by()
    assert {verdict for each in nights.seen.values() for _, verdict in each} == {"equal"}
    # Nobody sends this change.
    tidb.run("UPDATE nightly.wrong SET v = 'other' WHERE id = 10000007")
    lake.feed.alter("named", "RENAME", "RENAME TABLE named TO renamed")
    lake.feed.alter("dropped", "ERASE", "DROP TABLE dropped")
    lake.feed.alter("dropped", "CREATE", f"CREATE TABLE dropped {DDL}")
    while len(nights.costs) < 3 * DAYS:
        nights.pass_by()

    # Every table in any three nights, whatever it is named by then.
    seen, costs = nights.seen, nights.costs
    seen["renamed"] = seen.pop("named") + seen["renamed"]
    for name, found in seen.items():
        at = [-1, *(number for number, _ in found), 3 * DAYS]
        assert all(later - sooner <= DAYS for sooner, later in pairwise(at)), name
    # One table has most rows, and the others of a night cost no more than its share.
    assert max(costs) <= 3000 + 2 * (sum(ROWS.values()) + 1000 * len(ROWS)) / DAYS
    assert min(costs) < 3000
    first = next(number for number, verdict in seen["wrong"] if verdict == "differs")
    assert DAYS <= first < 2 * DAYS
    others = [found for name, found in seen.items() if name != "wrong"]
    assert {verdict for found in others for _, verdict in found} == {"equal"}
    require_shown(lake, costs[-1])


def require_shown(lake: TidbLake, cost: int) -> None:
    """Assert what is shown of six tables, of which `wrong` differs, and of the last night."""
    location, feed = lake.session.location, lake.session.feed
    summary = read_proof_summary(location, feed, Clock.time)
    assert summary.by_state == {"proven": 5, "differs": 1}
    # Its last proof is of the first nights.
    assert summary.late == 1
    assert summary.last_night is not None
    assert summary.last_night.rows_read == cost
    assert describe(lake, "wrong").startswith("differed from TiDB at ")
    assert "(1 row); equal to TiDB at " in describe(lake, "wrong")
    assert describe(lake, "renamed").startswith("equal to TiDB at ")
    evaluations = evaluate_newest_verifications(lake.session)
    # By present names, and not of a table that is gone.
    checks = {
        (each.asset_key.path[-1], each.check_name): each.passed
        for each in (*evaluations, *evaluate_proofs(feed, location, Clock.time))
    }
    assert checks == {
        (name, check): name != "wrong"
        for name in ("a", "b", "big", "dropped", "renamed", "wrong")
        for check in ("equals_upstream", "proof_is_recent")
    }


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
    assert Results(lake.session.location).progress.read() == (None, {})
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

    night = open_night(
        lake, open_upstream=partial(acting, lake.feed.server, kill), prove_every_days=1
    )
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
    night = open_night(
        lake, open_upstream=partial(acting, lake.feed.server, kill), prove_every_days=1
    )
    with pytest.raises(Killed):
        list(night.verify())
    lake.feed.alter("new", "CREATE", f"CREATE TABLE new {DDL}")
    assert lake.advance(tidb.now()) == []
    rest = open_night(lake, prove_every_days=1)
    names = rest.left
    assert "nightly.new" in names
    assert [each.name for each in rest.verify()] == names
    assert Results(lake.session.location).progress.read() == (None, {})
