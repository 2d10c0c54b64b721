"""`verify` against a real TiDB: what differs at the lake's ts, whatever clients do meanwhile."""

import json
from functools import partial
from pathlib import Path

import pytest

from tests.lake.tidb_copies import acting
from tests.lake.tidb_feed import TidbFeed, TidbLake, busy, wait_for_writes
from tests.tidb_server import Tidb
from ticdc_assets.log.verifications import Results, TableVerification
from ticdc_assets.upstream.snapshot import UpstreamError

# Clients write to them all the while.
WRITTEN = {
    "clustered": "(id int PRIMARY KEY, v varchar(20))",
    "unclustered": "(id int, v varchar(20), PRIMARY KEY (id) NONCLUSTERED)",
    "parts": "(id int PRIMARY KEY, v varchar(20)) PARTITION BY HASH (id) PARTITIONS 4",
}
OTHERS = {
    "items": "(id int, line int, data blob, js json, PRIMARY KEY (line, id))",
    "named": "(name varchar(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v double)",
    "keyless": "(v int, part varchar(20))",
    "same": "(id decimal(20,0) PRIMARY KEY, v timestamp(6) NULL)",
}
# What is not sent, and what `verify` says of it.
PLANTED = {
    **{
        table: (
            [
                f"UPDATE {table} SET v = 'other' WHERE id = 1000003",
                f"DELETE FROM {table} WHERE id = 1000005",
                f"INSERT INTO {table} VALUES (2000000000, NULL), (-7, '')",
            ],
            {
                ('{"id": "1000003"}', "differs", ("v",)),
                ('{"id": "1000005"}', "extra", ()),
                ('{"id": "2000000000"}', "missing", ()),
                ('{"id": "-7"}', "missing", ()),
            },
        )
        for table in WRITTEN
    },
    "items": (
        [
            "UPDATE items SET data = CONCAT(LEFT(data, 5999), 'X') WHERE id = 1 AND line = 3",
            """UPDATE items SET js = '{"b": 2}' WHERE id = 2 AND line = 4""",
            "UPDATE items SET data = NULL, js = NULL WHERE id = 2 AND line = 5",
            "DELETE FROM items WHERE id = 3",
        ],
        {
            ('{"line": "3", "id": "1"}', "differs", ("data",)),
            ('{"line": "4", "id": "2"}', "differs", ("js",)),
            ('{"line": "5", "id": "2"}', "differs", ("data", "js")),
            *((f'{{"line": "{n}", "id": "3"}}', "extra", ()) for n in range(6)),
        },
    ),
    "named": (
        [
            "UPDATE named SET v = v + 1e-16 WHERE name = 'K1'",
            "UPDATE named SET name = 'K2' WHERE name = 'k2'",
        ],
        {
            ('{"name": "k1"}', "differs", ("v",)),
            ('{"name": "k2"}', "extra", ()),
            ('{"name": "K2"}', "missing", ()),
        },
    ),
    "keyless": (
        ["DELETE FROM keyless WHERE v = 2 LIMIT 3", "INSERT INTO keyless VALUES (NULL, NULL)"],
        {(None, "extra", ()), (None, "missing", ())},
    ),
    "same": ([], set()),
}


class Killed(BaseException):
    """What ends a run at once."""


@pytest.fixture
def lake(request: pytest.FixtureRequest, tmp_path: Path, tidb: Tidb) -> TidbLake:
    tidb.run("DROP DATABASE IF EXISTS compared", "CREATE DATABASE compared")
    start_spark = partial(request.getfixturevalue, "spark")
    feed = TidbFeed(tidb, "compared")
    return TidbLake.make(feed, tmp_path / "lake", start_spark, force_replicate=True)


def fill(tidb: Tidb) -> None:
    seeds = ", ".join(f"({id}, 'seed {id}')" for id in range(1_000_000, 1_000_100))
    items = ", ".join(
        f"({id}, {line}, REPEAT('{id}{line}', 3000), '{{\"b\": 1, \"a\": [{id}]}}')"
        for id in range(4)
        for line in range(6)
    )
    tidb.run(
        "USE compared",
        *(f"CREATE TABLE {name} {ddl}" for name, ddl in (WRITTEN | OTHERS).items()),
        *(f"INSERT INTO {name} VALUES {seeds}" for name in WRITTEN),
        f"INSERT INTO items VALUES {items}",
        "INSERT INTO named VALUES " + ", ".join(f"('k{n}', {n} / 10)" for n in range(200)),
        "INSERT INTO keyless VALUES " + ", ".join(f"({n % 5}, 'x')" for n in range(50)),
        "INSERT INTO same VALUES " + ", ".join(f"({n}, NOW(6))" for n in range(50)),
    )


def list_differences(found: TableVerification) -> set[tuple[str | None, str, tuple[str, ...]]]:
    return {(each.key, each.what, each.columns) for each in found.differences}


def test_each_difference_is_named_while_clients_write_and_alter(tidb: Tidb, lake: TidbLake) -> None:
    fill(tidb)
    with busy(lake.feed, *WRITTEN) as clients:
        assert {result.outcome for result in lake.load().values()} == {"loaded"}
        tidb.run("USE compared", *(sql for sqls, _ in PLANTED.values() for sql in sqls))
        until = tidb.now()
        wait_for_writes(clients)
        assert lake.advance(until) == []
        altering = [
            *("ALTER TABLE items DROP COLUMN js", "RENAME TABLE same TO other"),
            *("TRUNCATE TABLE keyless", "DROP TABLE named"),
            "ALTER TABLE parts ADD COLUMN w int DEFAULT 3",
            "UPDATE clustered SET v = 'later' WHERE id > 1000000",
        ]

        def alter(number: int) -> None:
            if number and altering:
                tidb.run("USE compared", altering.pop(0))

        verified = lake.verify(open_upstream=partial(acting, lake.feed.server, alter))
    assert altering == []
    assert {name: found.resolved_ts for name, found in verified.items()} == dict.fromkeys(
        PLANTED, until
    )
    for name, (_, expected) in PLANTED.items():
        found = verified[name]
        assert list_differences(found) == expected, name
        assert (found.verdict, found.reason) == ("differs" if expected else "equal", None)
        assert {each.cause for each in found.differences} <= {"missed"}
    copies = {(d.what, d.copies, d.lake or d.upstream) for d in verified["keyless"].differences}
    assert copies == {
        ("extra", 3, '{"v": "2", "part": "x"}'),
        ("missing", 1, '{"v": null, "part": null}'),
    }
    (shown,) = (d for d in verified["clustered"].differences if d.what == "differs")
    values = json.loads(shown.lake or ""), json.loads(shown.upstream or "")
    assert values == ({"v": "seed 1000003"}, {"v": "other"})


def test_a_connection_that_is_lost_is_no_difference(tidb: Tidb, lake: TidbLake) -> None:
    tidb.run("USE compared", "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    lake.load()
    assert lake.advance(tidb.now()) == []

    def lose(least: int, number: int) -> None:
        if number >= least:
            raise UpstreamError("lost", setting="host")

    for least in range(3):
        with pytest.raises(UpstreamError, match="host: lost"):
            lake.verify(open_upstream=partial(acting, lake.feed.server, partial(lose, least)))
    assert lake.verify()["t"].verdict == "equal"


# Types, keys, and the rows that are sent at most for four that differ.
WIDE = {
    # Over all of its type, so that a range of keys does not fit into a BIGINT.
    "signed": ("bigint", [*range(-(2**63), 2**63, 2**64 // 10_000), 2**63 - 1], 400),
    "unsigned": ("bigint unsigned", [*range(0, 2**64, 2**64 // 10_000), 2**64 - 1], 400),
    # Most keys are close to one another: then one range has them all.
    "uneven": ("bigint", [-(2**63), *range(10_000), 2**62], 10_100),
}


@pytest.mark.parametrize("kind", WIDE)
def test_few_rows_that_differ_are_found_by_ranges_of_keys(
    tidb: Tidb, lake: TidbLake, kind: str
) -> None:
    type, keys, most_sent = WIDE[kind]
    tidb.run("USE compared", f"CREATE TABLE wide (id {type} PRIMARY KEY, v int)")
    for start in range(0, len(keys), 5000):
        rows = ", ".join(f"({key}, 1)" for key in keys[start : start + 5000])
        tidb.run(f"INSERT INTO compared.wide VALUES {rows}")
    lake.load()
    before = tidb.now()
    chosen = [keys[0], keys[1], keys[5000], keys[-1]]
    listed = ", ".join(map(str, chosen))
    tidb.run(f"UPDATE compared.wide SET v = 2 WHERE id IN ({listed})")
    assert lake.advance(before) == []
    equal = lake.verify()["wide"]
    assert (equal.verdict, equal.rows_summed, equal.rows_sent) == ("equal", len(keys), 0)
    assert lake.advance(tidb.now()) == []
    found = lake.verify()["wide"]
    assert [each.key for each in found.differences] == [
        json.dumps({"id": str(key)}) for key in sorted(chosen)
    ]
    assert found.rows_sent <= most_sent


def test_a_run_that_was_killed_goes_on_at_its_tso_and_begins_anew_once_that_is_gone(
    tidb: Tidb, lake: TidbLake
) -> None:
    fill(tidb)
    lake.load()
    tidb.run("USE compared", *(sql for sqls, _ in PLANTED.values() for sql in sqls))
    until = tidb.now()
    assert lake.advance(until) == []
    results = Results(lake.session.location)

    def kill(after: int) -> int:
        """Let a run die at a query; return how many tables it had verified."""

        def act(number: int) -> None:
            if number >= after:
                raise Killed

        with pytest.raises(Killed):
            lake.verify(open_upstream=partial(acting, lake.feed.server, act))
        progress, _ = results.progress.read()
        assert progress is not None
        return len(results.read_run(progress.run))

    done = [kill(after) for after in (0, 3, 12)]
    assert done == sorted(done)
    assert 0 < done[-1] < len(PLANTED)
    # Neither newer rows nor a newer snapshot are of the run that goes on.
    tidb.run("DELETE FROM compared.clustered", "DROP TABLE compared.same")
    assert lake.advance(tidb.now()) == []
    for name, found in lake.verify().items():
        # Of tables that the killed run had verified, only the number is repeated.
        assert found.different_rows == len(PLANTED[name][1]), name
        assert list_differences(found) in (PLANTED[name][1], set()), name
        assert found.resolved_ts == until
    assert results.progress.read() == (None, {})

    kill(5)
    with tidb.collect_garbage(tidb.now()):
        skipped = lake.verify()
        assert {found.verdict for found in skipped.values()} == {"skipped"}
        for found in skipped.values():
            assert "TiDB no longer has the rows of this ts: bring the lake up to date" in (
                found.reason or ""
            )
    kill(5)
    newest = tidb.now()
    assert lake.advance(newest) == []
    with tidb.collect_garbage(newest):
        again = lake.verify()
    assert {found.resolved_ts for found in again.values()} == {newest}
    assert list_differences(again["items"]) == PLANTED["items"][1]
    assert (again["same"].verdict, again["same"].reason) == (
        "differs",
        "upstream has no such table, or the user may not read it",
    )
